// Hands out memory front to back and keeps the ledger. The destructor waits for all lanes, since an
// exception may unwind the submitting thread while they are still at work.

#include "strata/device/arena.h"

#include <algorithm>
#include <exception>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/log.h"

namespace strata {

Arena::Arena(Device& device, Space space, std::size_t capacity, std::string name)
    : device_(device),
      space_(space),
      name_(std::move(name)),
      capacity_(round_up(capacity, kAlignment)) {
  if (capacity_ == 0) return;
  memory_ = device.allocate(space, capacity_);
  data_ = memory_->data();
  device.register_arena(name_, space, {data_, capacity_});
}

Arena::Arena(const Arena& whole, std::size_t begin, std::size_t capacity, std::string name)
    : device_(whole.device_),
      space_(whole.space_),
      name_(std::move(name)),
      capacity_(round_up(capacity, kAlignment)) {
  if (begin % kAlignment != 0 || begin > whole.capacity_ || capacity_ > whole.capacity_ - begin) {
    throw std::logic_error("arena " + name_ + " is no part of arena " + whole.name_);
  }
  if (whole.data_ != nullptr) data_ = whole.data_ + begin;
}

Arena::~Arena() {
  if (memory_ == nullptr) return;
  // When an exception unwinds the submitting thread, lanes may still be at work here.
  try {
    device_.synchronize();
  } catch (const std::exception& e) {
    log::debug("arena {} is freed after a lane failed: {}", name_, e.what());
  }
  device_.unregister_arena({data_, capacity_});
}

std::byte* Arena::allocate(std::string_view what, std::size_t bytes) {
  const std::size_t free = capacity_ - used_;
  if (bytes > free) {  // both are multiples of kAlignment once rounded, so rounding changes nothing
    throw OutOfMemory("arena " + name_ + " (" + std::string(name_of(space_)) +
                      " memory) is full: " + std::string(what) + " needs " + format_bytes(bytes) +
                      ", " + format_bytes(free) + " of " + format_bytes(capacity_) + " are free\n" +
                      ledger_text());
  }
  const std::size_t taken = round_up(bytes, kAlignment);
  std::byte* const data = data_ == nullptr ? nullptr : data_ + used_;
  used_ += taken;
  ledger_.push_back({std::string(what), taken});
  return data;
}

TensorView Arena::allocate_tensor(std::string_view what, DType dtype, Shape shape) {
  return {allocate(what, static_cast<std::size_t>(shape.elements()) * size_of(dtype)), dtype,
          shape};
}

std::string Arena::ledger_text() const {
  struct Sum {
    std::string name;
    std::size_t pieces = 0;
    std::size_t bytes = 0;
  };
  std::vector<Sum> sums;  // a ring's slots share a name
  std::map<std::string_view, std::size_t> index_of;
  for (const LedgerEntry& entry : ledger_) {
    const auto [at, is_new] = index_of.try_emplace(entry.name, sums.size());
    if (is_new) sums.push_back({.name = entry.name});
    ++sums[at->second].pieces;
    sums[at->second].bytes += entry.bytes;
  }
  std::ranges::stable_sort(sums, std::greater{}, &Sum::bytes);

  std::ostringstream text;
  text << "arena " << name_ << " (" << name_of(space_) << "): " << format_bytes(used_) << " of "
       << format_bytes(capacity_) << " used\n";
  for (const Sum& sum : sums) {
    text << "  " << format_bytes(sum.bytes) << "  " << sum.name;
    if (sum.pieces > 1) text << " (" << sum.pieces << " pieces)";
    text << "\n";
  }
  return text.str();
}

}  // namespace strata
