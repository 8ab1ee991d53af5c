// Cuts a list of JSON into lines. It looks at no more than brackets, texts and commas: whoever
// reads the lines sees what else is wrong with an entry, and tells which one it is.

#include "data/json_list.h"

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

class ListLines final : public PieceStream {
 public:
  ListLines(std::unique_ptr<ByteStream> inner, std::string name)
      : inner_(std::move(inner)), name_(std::move(name)), buffer_(256 * kKiB) {}

  std::size_t consumed() const override { return inner_->consumed(); }

 private:
  enum class At : std::uint8_t { kBeginning, kFirst, kEntry, kBehindComma, kEnd };

  bool make(std::string& lines) override {
    const std::size_t bytes = inner_->read(buffer_);
    for (const char c : std::span(buffer_).first(bytes)) take(c, lines);
    if (bytes > 0) return true;
    if (at_ != At::kEnd) fail("ends within its list, so it was cut off. Copy or make it again");
    return false;
  }

  void take(char c, std::string& lines) {
    if (at_ == At::kEntry) return take_of_entry(c, lines);
    if (is_space(c)) return;
    if (at_ == At::kBeginning && c == '[') {
      at_ = At::kFirst;
    } else if (c == ']' && at_ == At::kFirst) {
      at_ = At::kEnd;
    } else if ((at_ == At::kFirst || at_ == At::kBehindComma) && c != ',' && c != ']') {
      at_ = At::kEntry;
      ++entries_;
      take_of_entry(c, lines);
    } else {
      fail("is no list of JSON: " + std::string(1, c) + " stands behind record " +
           std::to_string(entries_));
    }
  }

  void take_of_entry(char c, std::string& lines) {
    if (in_text_) {
      lines += c;
      in_text_ = escaped_ || c != '"';
      escaped_ = !escaped_ && c == '\\';
      return;
    }
    if (levels_ == 0 && (c == ',' || c == ']')) {
      lines += '\n';
      at_ = c == ',' ? At::kBehindComma : At::kEnd;
      return;
    }
    if (c == '{' || c == '[') ++levels_;
    if (c == '}' || c == ']') --levels_;
    in_text_ = c == '"';
    lines += is_space(c) ? ' ' : c;
  }

  [[noreturn]] void fail(const std::string& what) const { throw IoError(name_ + ": " + what); }

  std::unique_ptr<ByteStream> inner_;
  std::string name_;
  std::vector<char> buffer_;
  At at_ = At::kBeginning;
  std::int64_t entries_ = 0;
  std::int64_t levels_ = 0;  ///< of brackets within an entry
  bool in_text_ = false;
  bool escaped_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> lines_of_json_list(std::unique_ptr<ByteStream> inner,
                                               std::string name) {
  return std::make_unique<ListLines>(std::move(inner), std::move(name));
}

}  // namespace strata
