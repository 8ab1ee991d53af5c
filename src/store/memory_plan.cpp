// Counts what is taken of each memory under each name, as an arena would align it, and lists it as
// text, memory by memory, as `strata plan` prints it.

#include "strata/store/memory_plan.h"

#include <algorithm>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/device/arena.h"

namespace strata {

namespace {

/// Returns the lines of one memory, with the largest entries first.
std::string list(std::string_view memory, std::size_t bytes,
                 std::vector<MemoryPlan::Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::string text = std::string(memory) + ": " + format_bytes(bytes) + "\n";
  for (const MemoryPlan::Entry& entry : entries) {
    const std::string size = format_bytes(entry.bytes);
    text += "  " + entry.name +
            std::string(entry.name.size() < 36 ? 36 - entry.name.size() : 1, ' ') +
            std::string(size.size() < 12 ? 12 - size.size() : 0, ' ') + size + "\n";
  }
  return text;
}

}  // namespace

std::byte* MemoryPlan::allocate(Space space, std::string_view name, std::size_t bytes) {
  const std::size_t aligned = times_ * round_up(bytes, Arena::kAlignment);
  for (Entry& entry : entries_) {
    if (entry.space == space && entry.name == name) {
      entry.bytes += aligned;
      return nullptr;
    }
  }
  entries_.push_back({space, std::string(name), aligned});
  return nullptr;
}

void MemoryPlan::repeat(std::size_t times, FunctionRef<void()> take) {
  if (times == 0) return;
  const std::size_t outer = std::exchange(times_, times_ * times);
  take();
  times_ = outer;
}

std::size_t MemoryPlan::total(Space space) const {
  std::size_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.space == space ? entry.bytes : 0;
  return bytes;
}

std::size_t MemoryPlan::bytes(Space space, std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.space == space && entry.name == name) return entry.bytes;
  }
  return 0;
}

void MemoryPlan::add_heap(std::string_view name, std::size_t bytes) {
  heap_.push_back({Space::kPageable, std::string(name), bytes});
}

std::size_t MemoryPlan::heap(std::string_view name) const {
  std::size_t bytes = 0;
  for (const Entry& entry : heap_) bytes += name.empty() || entry.name == name ? entry.bytes : 0;
  return bytes;
}

std::size_t MemoryPlan::host_total() const {
  std::size_t bytes = heap();
  for (const SpaceTraits& memory : kSpaces) bytes += memory.of_host ? total(memory.space) : 0;
  return bytes;
}

std::string MemoryPlan::to_string() const {
  std::string text;
  for (const SpaceTraits& memory : kSpaces) {
    std::vector<Entry> own;
    std::copy_if(entries_.begin(), entries_.end(), std::back_inserter(own),
                 [&](const Entry& e) { return e.space == memory.space && e.bytes > 0; });
    text += list(memory.name, total(memory.space), std::move(own));
  }
  return text + list("heap", heap(), heap_);
}

}  // namespace strata
