// Looks at no more than brackets, texts and commas: whoever reads the lines sees what else is wrong
// with an entry, and tells which one it is.

#include "data/json_list.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/error.h"

namespace strata {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

class ListLines final : public ByteStream {
 public:
  ListLines(std::unique_ptr<ByteStream> inner, std::string name)
      : inner_(std::move(inner)), name_(std::move(name)), buffer_(256 * kKiB) {}

  std::size_t read(std::span<char> out) override {
    while (given_ == lines_.size() && !ended_) read_more();
    const std::size_t bytes = std::min(out.size(), lines_.size() - given_);
    std::copy_n(lines_.begin() + static_cast<std::ptrdiff_t>(given_), bytes, out.begin());
    given_ += bytes;
    return bytes;
  }
  std::size_t consumed() const override { return inner_->consumed(); }

 private:
  enum class At : std::uint8_t { kBeginning, kFirst, kEntry, kBehindComma, kEnd };

  void read_more() {
    lines_.clear();
    given_ = 0;
    const std::size_t bytes = inner_->read(buffer_);
    for (const char c : std::span(buffer_).first(bytes)) take(c);
    if (bytes > 0) return;
    if (at_ != At::kEnd) fail("ends within its list, so it was cut off. Copy or make it again");
    ended_ = true;
  }

  void take(char c) {
    if (at_ == At::kEntry) return take_of_entry(c);
    if (is_space(c)) return;
    if (at_ == At::kBeginning && c == '[') {
      at_ = At::kFirst;
    } else if (c == ']' && at_ == At::kFirst) {
      at_ = At::kEnd;
    } else if ((at_ == At::kFirst || at_ == At::kBehindComma) && c != ',' && c != ']') {
      at_ = At::kEntry;
      ++entries_;
      take_of_entry(c);
    } else {
      fail("is no list of JSON: " + std::string(1, c) + " stands behind record " +
           std::to_string(entries_));
    }
  }

  void take_of_entry(char c) {
    if (in_text_) {
      lines_ += c;
      in_text_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
      return;
    }
    if (levels_ == 0 && (c == ',' || c == ']')) return end_entry(c);
    if (c == '{' || c == '[') ++levels_;
    if (c == '}' || c == ']') --levels_;
    in_text_ = c == '"';
    lines_ += is_space(c) ? ' ' : c;
  }

  void end_entry(char c) {
    lines_ += '\n';
    at_ = c == ',' ? At::kBehindComma : At::kEnd;
  }

  [[noreturn]] void fail(const std::string& what) const { throw IoError(name_ + ": " + what); }

  std::unique_ptr<ByteStream> inner_;
  std::string name_;
  std::vector<char> buffer_;
  std::string lines_;      ///< made of what was read last
  std::size_t given_ = 0;  ///< of them
  At at_ = At::kBeginning;
  std::int64_t entries_ = 0;
  std::int64_t levels_ = 0;  ///< of brackets within an entry
  bool in_text_ = false;
  bool escaped_ = false;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> lines_of_json_list(std::unique_ptr<ByteStream> inner,
                                               std::string name) {
  return std::make_unique<ListLines>(std::move(inner), std::move(name));
}

}  // namespace strata
