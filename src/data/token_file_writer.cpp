// Writes token files. The header's place is kept free first and filled in at the end, when the
// counts are known; a rename after fsync publishes the file, so readers see all of it or nothing.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "data/token_file_format.h"
#include "strata/base/error.h"
#include "strata/data/token_file.h"

namespace strata {

/// A buffered file under a temporary name, removed unless it was published.
class TokenFileWriter::Output {
 public:
  explicit Output(const std::string& file)
      : file_(file), temporary_(file + ".tmp." + std::to_string(::getpid())) {
    stream_ = std::fopen(temporary_.c_str(), "wb");
    if (stream_ == nullptr) fail("open");
  }
  ~Output() {
    if (stream_ != nullptr) std::fclose(stream_);
    if (!published_) std::remove(temporary_.c_str());
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(const void* data, std::size_t bytes) {
    if (bytes > 0 && std::fwrite(data, 1, bytes, stream_) != bytes) fail("write");
  }
  void rewind() {
    if (std::fseek(stream_, 0, SEEK_SET) != 0) fail("seek");
  }
  void publish() {
    if (std::fflush(stream_) != 0) fail("write");
    if (::fsync(::fileno(stream_)) != 0) fail("fsync");
    if (std::fclose(std::exchange(stream_, nullptr)) != 0) fail("close");
    if (std::rename(temporary_.c_str(), file_.c_str()) != 0) fail("rename");
    published_ = true;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw IoError(temporary_ + ": " + what + " failed: " + std::generic_category().message(errno));
  }

  std::string file_;
  std::string temporary_;
  std::FILE* stream_ = nullptr;
  bool published_ = false;
};

TokenFileWriter::TokenFileWriter(std::string file, const Format& format)
    : file_(std::move(file)), format_(format) {
  if (format.vocabulary < 1 || size_of(format.type) < size_of(token_type_for(format.vocabulary))) {
    throw ConfigError(file_ + ": ids of a vocabulary of " + std::to_string(format.vocabulary) +
                      " do not fit into tokens of " + std::to_string(size_of(format.type)) +
                      " bytes");
  }
  output_ = std::make_unique<Output>(file_);
  const token_file::Header place_holder;
  output_->write(&place_holder, sizeof place_holder);
}

TokenFileWriter::~TokenFileWriter() = default;

void TokenFileWriter::append(std::span<const std::int32_t> tokens) {
  for (const std::int32_t id : tokens) {
    if (id < 0 || id >= format_.vocabulary) {
      throw IoError(file_ + ": token id " + std::to_string(id) +
                    " is outside of the vocabulary of " + std::to_string(format_.vocabulary));
    }
  }
  write_tokens(tokens);
  tokens_ += static_cast<std::int64_t>(tokens.size());
}

void TokenFileWriter::write_tokens(std::span<const std::int32_t> tokens) {
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

void TokenFileWriter::finish() {
  end_document();
  const auto tokens = static_cast<std::uint64_t>(tokens_);
  const std::size_t token_bytes = size_of(format_.type);
  const std::size_t padding = token_file::ends_offset(tokens, token_bytes) -
                              sizeof(token_file::Header) - tokens * token_bytes;
  constexpr std::array<std::byte, token_file::kEndBytes> kZeros{};
  output_->write(kZeros.data(), padding);
  output_->write(document_ends_.data(), document_ends_.size() * token_file::kEndBytes);
  output_->rewind();
  const token_file::Header header{.bytes_per_token = static_cast<std::uint32_t>(token_bytes),
                                  .tokens = tokens,
                                  .documents = document_ends_.size(),
                                  .vocabulary = static_cast<std::uint64_t>(format_.vocabulary),
                                  .tokenizer_hash = format_.tokenizer_hash};
  output_->write(&header, sizeof header);
  output_->publish();
}

}  // namespace strata
