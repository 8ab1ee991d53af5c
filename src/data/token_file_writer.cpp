// Writes token files. The header's place is kept free first and filled in at the end, when the
// counts are known.

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "data/loss_bits.h"
#include "data/token_file_format.h"
#include "strata/base/error.h"
#include "strata/base/output_file.h"
#include "strata/data/token_file.h"

namespace strata {

TokenFileWriter::TokenFileWriter(std::string file, const Format& format)
    : file_(std::move(file)), format_(format), loss_(std::make_unique<LossRuns>()) {
  if (format.vocabulary < 1 || size_of(format.type) < size_of(token_type_for(format.vocabulary))) {
    throw ConfigError(file_ + ": ids of a vocabulary of " + std::to_string(format.vocabulary) +
                      " do not fit into tokens of " + std::to_string(size_of(format.type)) +
                      " bytes");
  }
  output_ = std::make_unique<OutputFile>(file_);
  const token_file::Header place_holder;
  output_->write(&place_holder, sizeof place_holder);
}

TokenFileWriter::~TokenFileWriter() = default;

void TokenFileWriter::append(std::span<const std::int32_t> tokens) {
  write_tokens(tokens);
  loss_->add_counting(tokens.size());
  learnt_tokens_ += std::ssize(tokens);
}

void TokenFileWriter::append(std::span<const std::int32_t> tokens,
                             std::span<const std::uint8_t> loss) {
  if (loss.size() != tokens.size()) {
    throw ShapeError(file_ + ": " + std::to_string(tokens.size()) + " tokens came with " +
                     std::to_string(loss.size()) + " losses");
  }
  write_tokens(tokens);
  loss_->add(loss);
  learnt_tokens_ += std::ssize(loss) - std::count(loss.begin(), loss.end(), std::uint8_t{0});
  has_loss_ = true;
}

void TokenFileWriter::write_tokens(std::span<const std::int32_t> tokens) {
  for (const std::int32_t id : tokens) {
    if (id < 0 || id >= format_.vocabulary) {
      throw IoError(file_ + ": token id " + std::to_string(id) +
                    " is outside of the vocabulary of " + std::to_string(format_.vocabulary));
    }
  }
  write_ids(tokens);
  tokens_ += static_cast<std::int64_t>(tokens.size());
}

void TokenFileWriter::write_ids(std::span<const std::int32_t> tokens) {
  if (format_.type == TokenType::kU32) {
    output_->write(tokens.data(), tokens.size_bytes());
    return;
  }
  std::array<std::uint16_t, 4096> narrow_ids{};
  while (!tokens.empty()) {
    const std::size_t count = std::min(tokens.size(), narrow_ids.size());
    std::transform(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count),
                   narrow_ids.begin(),
                   [](std::int32_t id) { return static_cast<std::uint16_t>(id); });
    output_->write(narrow_ids.data(), count * sizeof(std::uint16_t));
    tokens = tokens.subspan(count);
  }
}

void TokenFileWriter::end_document() {
  const auto end = static_cast<std::uint64_t>(tokens_);
  const std::uint64_t begin = document_ends_.empty() ? 0 : document_ends_.back();
  if (end > begin) document_ends_.push_back(end);
}

void TokenFileWriter::close() {
  end_document();
  const auto tokens = static_cast<std::uint64_t>(tokens_);
  const std::size_t token_bytes = size_of(format_.type);
  const std::size_t padding =
      token_file::ids_end(tokens, token_bytes) - sizeof(token_file::Header) - tokens * token_bytes;
  constexpr std::array<std::byte, token_file::kEndBytes> kZeros{};
  output_->write(kZeros.data(), padding);
  if (has_loss_) loss_->write(*output_);
  output_->write(document_ends_.data(), document_ends_.size() * token_file::kEndBytes);
  output_->rewind();
  const std::uint32_t loss_version =
      has_pairs_ ? token_file::kPairsVersion : token_file::kFlagsVersion;
  const token_file::Header header{
      .version = has_loss_ ? loss_version : token_file::kPlainVersion,
      .bytes_per_token = static_cast<std::uint32_t>(token_bytes),
      .tokens = tokens,
      .documents = document_ends_.size(),
      .vocabulary = static_cast<std::uint64_t>(format_.vocabulary),
      .tokenizer_hash = format_.tokenizer_hash,
      .flags = (has_loss_ ? token_file::kLossFlag : 0) | (has_pairs_ ? token_file::kPairsFlag : 0)};
  output_->write(&header, sizeof header);
  output_->close();
}

void TokenFileWriter::publish() { output_->publish(); }

}  // namespace strata
