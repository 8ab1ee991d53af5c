// Cuts and joins strings with their origins. Runs are found by bisection, so cutting a text takes
// time for what is cut out and not for what stands before it.

#include "chat/traced_text.h"

#include <algorithm>
#include <utility>

namespace strata::chat {

TracedText::TracedText(std::string bytes, Origin origin) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), origin});
}

std::size_t TracedText::memory_bytes() const {
  constexpr std::size_t kAround = 64;  // a pointer's count, and what the heap puts around parts
  return sizeof(TracedText) + kAround + bytes_.capacity() +
         runs_.size() * (sizeof(Run) + sizeof(TextSpan));
}

std::size_t TracedText::run_of(std::size_t byte) const {
  const auto behind = [](std::size_t at, const Run& run) { return at < run.end; };
  return static_cast<std::size_t>(std::upper_bound(runs_.begin(), runs_.end(), byte, behind) -
                                  runs_.begin());
}

Origin TracedText::origin_at(std::size_t byte) const {
  return byte < bytes_.size() ? runs_[run_of(byte)].origin : Origin{};
}

TracedText TracedText::slice(std::size_t begin, std::size_t end) const {
  TracedText result;
  result.append(*this, begin, end);
  return result;
}

std::vector<TextSpan> TracedText::spans() const {
  std::vector<TextSpan> result;
  result.reserve(runs_.size());
  std::size_t begin = 0;
  for (const Run& run : runs_) {
    result.push_back({begin, run.end, run.origin});
    begin = run.end;
  }
  return result;
}

void TracedText::mark_generated() {
  for (Run& run : runs_) run.origin.generated = true;
}

void TracedText::append_run(std::size_t end, Origin origin) {
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = end;
  } else {
    runs_.push_back({end, origin});
  }
}

void TracedText::append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  bytes_ += bytes;
  append_run(bytes_.size(), origin);
}

void TracedText::append(const TracedText& other) { append(other, 0, other.size()); }

void TracedText::append(const TracedText& other, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  const std::size_t base = bytes_.size();
  bytes_.append(other.bytes_, begin, end - begin);
  for (std::size_t i = other.run_of(begin); i < other.runs_.size(); ++i) {
    const Run& run = other.runs_[i];
    append_run(base + std::min(run.end, end) - begin, run.origin);
    if (run.end >= end) return;
  }
}

}  // namespace strata::chat
