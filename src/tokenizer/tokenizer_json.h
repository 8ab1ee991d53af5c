// Reads tokenizer.json. Its vocabulary and its merges are nearly all of the file, and go into lists
// as they come; the rest becomes a tree.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

/// Texts that stand behind each other in one string.
class TextList {
 public:
  void add(std::string_view text) {
    ends_.push_back(text_.size() + text.size());
    text_ += text;
  }
  void clear() { *this = {}; }
  [[nodiscard]] std::size_t size() const { return ends_.size(); }
  [[nodiscard]] std::string_view operator[](std::size_t i) const { return join(i, i + 1); }
  /// Returns the texts from `begin` to before `end` as one.
  [[nodiscard]] std::string_view join(std::size_t begin, std::size_t end) const {
    const std::size_t from = begin == 0 ? 0 : ends_[begin - 1];
    return std::string_view(text_).substr(from, ends_[end - 1] - from);
  }

 private:
  std::string text_{};
  std::vector<std::size_t> ends_{};
};

struct TokenizerJson {
  nlohmann::json tree{};  ///< all but what follows, in whose place are an empty object and list
  TextList tokens{};      ///< keys of model.vocab
  std::vector<std::int32_t> ids{};  ///< of the tokens
  TextList merged{};                ///< of model.merges: left and right tokens in turns
};

/// Parses a text. Throws ConfigError, without a file's name, if it is not JSON, nests too deeply,
/// or has ids or merges of another form.
[[nodiscard]] TokenizerJson parse_tokenizer_json(std::string_view text);

}  // namespace strata
