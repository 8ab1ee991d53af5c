// Files of token ids: a reader, and a writer that publishes a file only when it is complete.
// Training reads through TokenFile, `strata tokenize` writes through TokenFileWriter, and files of
// bare ids made elsewhere can be read too. What is missing, torn, damaged, from another version or
// from another program throws IoError with the remedy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/data/token_source.h"

namespace strata {

class DocumentEnds;
class InputFile;
class LossBits;
class LossRuns;
class OutputFile;

/// How ids are stored, little-endian.
enum class TokenType : std::uint8_t { kU16, kU32 };
/// Returns the bytes of one stored id.
[[nodiscard]] constexpr std::size_t size_of(TokenType t) { return t == TokenType::kU16 ? 2 : 4; }
/// Reads "u16" or "u32"; throws ConfigError for anything else.
[[nodiscard]] TokenType parse_token_type(std::string_view text);
/// Returns the narrowest type that holds every id of a vocabulary.
[[nodiscard]] constexpr TokenType token_type_for(std::int64_t vocabulary) {
  return vocabulary <= 65536 ? TokenType::kU16 : TokenType::kU32;
}

/// What a file without header does not say.
struct RawTokenFormat {
  TokenType type = TokenType::kU16;
  std::optional<std::int32_t> end_of_document{};  ///< id that ends a document; reads look for it
  bool document_begins = false;                   ///< that id begins documents instead
};

/// A file of token ids, open as long as the object lives. Nothing of it stays in memory but 8 bytes
/// for every 512 documents. Reading is safe from several threads at once, and throws IoError if the
/// file has become shorter.
///
/// strata's format, all little-endian: a header of 64 bytes {magic[8], version u32, bytes per token
/// u32, tokens u64, documents u64, vocabulary u64, tokenizer hash u64, flags u64, 8 bytes 0}, the
/// ids, zeros up to a multiple of 8, and for each document the index after its last token (u64,
/// ascending). Version 1 has flags 0. Version 2 may have flag 1: between ids and ends stand the
/// loss bits, one for each token, the lowest of a byte first, and zeros up to a multiple of 8
/// bytes. Version 3 has flag 1 and flag 2: documents are pairs of a chosen and a rejected answer.
class TokenFile final : public TokenSource {
 public:
  /// Opens a file. One that begins with strata's magic is read by its header, and `raw` is ignored;
  /// another is read as `raw` says. Throws IoError if the file is missing, torn (with the bytes
  /// expected and found), damaged or of an unknown version, if it is plainly something else (the
  /// format of another program, text), and, where it is headerless, if no `raw` is given or its ids
  /// look as if they had another width.
  [[nodiscard]] static std::unique_ptr<TokenFile> open(
      const std::string& file, const std::optional<RawTokenFormat>& raw = std::nullopt);
  ~TokenFile() override;
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] std::int64_t vocabulary() const override { return vocabulary_; }
  [[nodiscard]] std::uint64_t tokenizer_hash() const override { return tokenizer_hash_; }
  [[nodiscard]] TokenStorage storage() const override;
  void read(std::int64_t begin, std::span<std::int32_t> out) const override;
  void document_ends_in(std::int64_t begin, std::int64_t end,
                        std::vector<std::int64_t>& ends) const override;
  [[nodiscard]] bool has_loss() const override { return loss_bits_ != nullptr; }
  void read_loss(std::int64_t begin, std::span<std::uint8_t> out) const override;
  [[nodiscard]] bool has_pairs() const override { return has_pairs_; }

  /// Returns how ids are stored.
  [[nodiscard]] TokenType type() const { return type_; }
  /// Returns the documents in all, or nothing for a file without header.
  [[nodiscard]] std::optional<std::int64_t> documents() const;

 private:
  explicit TokenFile(const std::string& name);
  void read_header();
  void read_raw(const RawTokenFormat& raw);

  std::string name_;
  std::unique_ptr<InputFile> file_;
  std::unique_ptr<DocumentEnds> document_ends_;  ///< null for a file without header
  std::unique_ptr<LossBits> loss_bits_;          ///< null where the loss of all tokens counts
  std::size_t tokens_offset_ = 0;                ///< bytes before the first id
  std::optional<std::int32_t> end_of_document_;  ///< only for a file without header
  bool document_begins_ = false;                 ///< of that id
  bool has_pairs_ = false;
  TokenType type_ = TokenType::kU16;
  std::int64_t version_ = 0;  ///< 0 for a file without header
  std::int64_t size_ = 0;
  std::int64_t vocabulary_ = 0;
  std::uint64_t tokenizer_hash_ = 0;
};

/// Writes a token file front to back under a temporary name beside `file`. Only publish() gives it
/// its name; without it the destructor removes what was written. Document ends are kept in memory
/// until then (8 bytes each), and so are the places where tokens whose loss counts meet others. The
/// file has version 3 if it holds pairs, version 2 if `loss` was ever given, else version 1, which
/// every reader of these files knows. Used by one thread; every member throws Error if writing
/// fails.
class TokenFileWriter {
 public:
  /// What the header says besides the counts.
  struct Format {
    TokenType type = TokenType::kU16;
    std::int64_t vocabulary = 0;
    std::uint64_t tokenizer_hash = 0;
  };

  /// Throws IoError if the file cannot be created, or if its name is that of something other than a
  /// file (a folder, device or symbolic link); ConfigError if the vocabulary is empty or `type`
  /// too narrow for it.
  TokenFileWriter(std::string file, const Format& format);
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;

  /// Adds tokens to the open document. Throws IoError for an id outside of [0, vocabulary).
  void append(std::span<const std::int32_t> tokens);
  /// Adds tokens with a byte for each, 0 if its loss does not count; that of tokens without a byte
  /// counts. Throws as the other append() does, and ShapeError if there are not as many bytes.
  void append(std::span<const std::int32_t> tokens, std::span<const std::uint8_t> loss);
  /// Ends the open document. A document without tokens is not counted.
  void end_document();
  /// Says that the file holds pairs: documents with loss, chosen and rejected answers in turn.
  void mark_pairs() { has_pairs_ = true; }
  /// Ends the open document, writes ends and header, and syncs. Only publish() may come after it.
  void close();
  /// Gives the closed file its name, replacing an older one.
  void publish();

  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  /// Returns the number of tokens whose loss counts.
  [[nodiscard]] std::int64_t learnt_tokens() const { return learnt_tokens_; }
  [[nodiscard]] std::int64_t documents() const {
    return static_cast<std::int64_t>(document_ends_.size());
  }

 private:
  void write_tokens(std::span<const std::int32_t> tokens);
  void write_ids(std::span<const std::int32_t> ids);

  std::string file_;
  Format format_;
  std::unique_ptr<OutputFile> output_;
  std::unique_ptr<LossRuns> loss_;
  bool has_loss_ = false;
  bool has_pairs_ = false;
  std::vector<std::uint64_t> document_ends_;
  std::int64_t tokens_ = 0;
  std::int64_t learnt_tokens_ = 0;
};

}  // namespace strata
