// Cuts memory into buffers, and files into windows. A buffer is a window long, and as much longer
// as its beginning may be moved for alignment.

#include "strata/checkpoint/window_buffers.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "strata/base/bytes.h"
#include "strata/checkpoint/files.h"
#include "strata/checkpoint/manifest.h"

namespace strata {

std::size_t WindowBuffers::bytes_for(const CheckpointLayout& layout) {
  std::uint64_t longest = 1;
  for (const BlockFiles& block : layout.blocks) {
    for (const StateFile* file : block.files()) longest = std::max(longest, file->bytes);
  }
  return round_up(static_cast<std::size_t>(std::min(longest, kHashWindow)), kFileAlignment);
}

WindowBuffers::WindowBuffers(std::span<std::byte> memory, std::size_t each) : each_(each) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::size_t skipped = round_up(address, kFileAlignment) - address;
  for (std::size_t at = skipped; at + each_ <= memory.size(); at += each_) {
    free_.push_back(memory.data() + at);
  }
}

WindowBuffers::Lease::Lease(WindowBuffers& from) : from_(from) {
  std::unique_lock lock(from_.mutex_);
  from_.returned_.wait(lock, [&] { return !from_.free_.empty(); });
  data_ = from_.free_.back();
  from_.free_.pop_back();
}

WindowBuffers::Lease::~Lease() {
  const std::lock_guard lock(from_.mutex_);
  from_.free_.push_back(data_);
  from_.returned_.notify_one();
}

std::span<std::byte> WindowBuffers::Lease::bytes(std::uint64_t begin, std::uint64_t end) const {
  const std::uint64_t skipped = begin % kFileAlignment;
  if (skipped + (end - begin) > from_.each_) {
    throw std::logic_error("a window of " + std::to_string(end - begin) +
                           " bytes does not fit into a buffer of " + std::to_string(from_.each_));
  }
  return {data_ + skipped, static_cast<std::size_t>(end - begin)};
}

std::vector<Window> cut_windows(std::uint64_t begin, std::uint64_t end) {
  std::vector<Window> windows;
  while (begin < end) {
    const std::uint64_t stop = std::min(end, (begin / kHashWindow + 1) * kHashWindow);
    windows.push_back({begin, stop});
    begin = stop;
  }
  return windows;
}

}  // namespace strata
