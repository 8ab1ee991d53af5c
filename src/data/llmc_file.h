// The token files of llm.c: 256 little-endian i32 {magic, version, tokens, 0, ...}, then the ids.
// Magic 20240520 with version 1 has u16 ids of GPT-2, 20240801 with version 7 u32 ids of Llama 3.
// Neither vocabulary nor documents are told; what writes them begins each document with the end-of-
// text id of GPT-2, or the begin-of-text id of Llama 3.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/id_array.h"
#include "strata/base/file.h"
#include "strata/data/token_file.h"

namespace strata {

/// A token file of llm.c, open as long as the object lives.
class LlmcFile final : public TokenSource {
 public:
  /// Returns whether a file begins with one of the two magics.
  [[nodiscard]] static bool is(std::string_view beginning);
  /// `separator` is the id between documents, if they matter. Throws IoError for another
  /// version, and unless the file is as long as its header says.
  LlmcFile(const std::string& name, std::optional<Separator> separator);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] std::int64_t vocabulary() const override { return 0; }
  [[nodiscard]] std::uint64_t tokenizer_hash() const override { return 0; }
  [[nodiscard]] TokenStorage storage() const override;
  void read(std::int64_t begin, std::span<std::int32_t> out) const override;
  void document_ends_in(std::int64_t begin, std::int64_t end,
                        std::vector<std::int64_t>& ends) const override;

 private:
  std::string name_;
  InputFile file_;
  std::optional<Separator> separator_;
  TokenType type_ = TokenType::kU16;
  std::int64_t size_ = 0;
};

}  // namespace strata
