// A string of the template language that knows where each of its characters came from. Origins are
// kept for runs of bytes, so a text from one place costs one run however long it is. Whoever cuts,
// joins or rewrites strings does it through this class, and the origins follow.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strata/chat/rendered_chat.h"

namespace strata::chat {

class TracedText {
 public:
  TracedText() = default;
  explicit TracedText(std::string bytes, Origin origin = {});

  [[nodiscard]] const std::string& bytes() const { return bytes_; }  ///< UTF-8
  [[nodiscard]] std::string take_bytes() && { return std::move(bytes_); }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  /// Returns about the memory that the text takes, in bytes, with what spans() makes of it.
  [[nodiscard]] std::size_t memory_bytes() const;
  /// Returns the origin of a byte; of an empty text, and behind the end, the template's.
  [[nodiscard]] Origin origin_at(std::size_t byte) const;
  /// Returns bytes [begin, end) of the text.
  [[nodiscard]] TracedText slice(std::size_t begin, std::size_t end) const;
  /// Returns the runs of the text.
  [[nodiscard]] std::vector<TextSpan> spans() const;

  /// Makes room for so many bytes.
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  /// Marks all of the text as what stands in a generation block.
  void mark_generated();
  void append(std::string_view bytes, Origin origin = {});
  void append(const TracedText& other);
  /// Appends bytes [begin, end) of another text.
  void append(const TracedText& other, std::size_t begin, std::size_t end);

 private:
  /// The bytes from the end of the run before up to `end`.
  struct Run {
    std::size_t end = 0;
    Origin origin;
  };
  /// Returns the number of the run that holds a byte.
  [[nodiscard]] std::size_t run_of(std::size_t byte) const;
  void append_run(std::size_t end, Origin origin);

  std::string bytes_;
  std::vector<Run> runs_;  ///< their ends increase, the last one is bytes_.size()
};

}  // namespace strata::chat
