// Megatron's indexed datasets: NAME.bin holds the ids and nothing else, NAME.idx says how they are
// stored and where sequences and documents are. The index is, little-endian: "MMIDIDX\0\0", version
// u64 = 1, a code of the type u8, sequences S u64, documents and one D u64, then the lengths of the
// sequences (S i32, in ids), where they begin (S i64, in bytes), and the first sequence of each
// document, at last S (D i64). The vocabulary is not told.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/file.h"
#include "strata/data/token_file.h"

namespace strata {

/// A dataset of Megatron, named by its index. Both files are open as long as the object lives;
/// nothing of them stays in memory.
class MegatronFile final : public TokenSource {
 public:
  static constexpr std::string_view kIndexEnding = ".idx";
  /// Returns whether a file begins like an index.
  [[nodiscard]] static bool is(std::string_view beginning);
  /// Returns the name of the file with the ids, by that of the index.
  [[nodiscard]] static std::string ids_of(const std::string& index);
  /// Reads all of the index once. Throws IoError if it is torn, of another version or type of ids,
  /// if its sequences do not lie one behind another from the first to the last id, or its documents
  /// do not ascend.
  explicit MegatronFile(const std::string& index);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] std::int64_t vocabulary() const override { return 0; }
  [[nodiscard]] std::uint64_t tokenizer_hash() const override { return 0; }
  [[nodiscard]] TokenStorage storage() const override;
  void read(std::int64_t begin, std::span<std::int32_t> out) const override;
  void document_ends_in(std::int64_t begin, std::int64_t end,
                        std::vector<std::int64_t>& ends) const override;

 private:
  [[noreturn]] void refuse(const std::string& what) const;
  void read_header();
  void check_sequences() const;
  void check_documents() const;
  [[nodiscard]] std::int64_t number_at(std::uint64_t offset) const;
  [[nodiscard]] std::int64_t document_begin(std::uint64_t document) const;

  std::string name_;  ///< the index's
  InputFile index_;
  InputFile ids_;
  TokenType type_ = TokenType::kU16;
  std::uint64_t sequences_ = 0;
  std::uint64_t documents_ = 0;  ///< D
  std::int64_t size_ = 0;
};

}  // namespace strata
