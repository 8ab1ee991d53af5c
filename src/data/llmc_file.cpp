// Reads the token files of llm.c. Only the first three numbers of the header mean something.

#include "data/llmc_file.h"

#include <array>
#include <cstring>

#include "strata/base/error.h"

namespace strata {

namespace {

constexpr std::size_t kHeaderBytes = 256 * sizeof(std::int32_t);

struct Variant {
  std::int32_t magic;
  std::int32_t version;
  TokenType type;
};
constexpr std::array kVariants{Variant{20240520, 1, TokenType::kU16},
                               Variant{20240801, 7, TokenType::kU32}};

const Variant* find_variant(std::int32_t magic) {
  for (const Variant& variant : kVariants) {
    if (variant.magic == magic) return &variant;
  }
  return nullptr;
}

}  // namespace

bool LlmcFile::is(std::string_view beginning) {
  std::int32_t magic = 0;
  if (beginning.size() < sizeof magic) return false;
  std::memcpy(&magic, beginning.data(), sizeof magic);
  return find_variant(magic) != nullptr;
}

LlmcFile::LlmcFile(const std::string& name, std::optional<Separator> separator)
    : name_(name), file_(name), separator_(separator) {
  const auto refuse = [&](const std::string& what) {
    throw IoError(name_ + ": is a token file of llm.c, and " + what + ". Copy or make it again");
  };
  const std::uint64_t found = file_.bytes();
  if (found < kHeaderBytes) {
    refuse("torn: its header takes " + std::to_string(kHeaderBytes) + " bytes, it has " +
           std::to_string(found));
  }
  std::array<std::int32_t, 3> header{};
  file_.read(0, std::as_writable_bytes(std::span(header)));
  const auto [magic, version, tokens] = header;
  const Variant* variant = find_variant(magic);
  if (variant == nullptr || version != variant->version) {
    refuse("has version " + std::to_string(version) + " of its format, which is not known here");
  }
  if (tokens < 0) refuse("damaged: its header says " + std::to_string(tokens) + " tokens");
  type_ = variant->type;
  size_ = tokens;
  const std::uint64_t expected = kHeaderBytes + static_cast<std::uint64_t>(tokens) * size_of(type_);
  if (found != expected) {
    refuse("torn: its header tells of " + std::to_string(expected) + " bytes, it has " +
           std::to_string(found));
  }
}

TokenStorage LlmcFile::storage() const {
  return {.kind = "llm.c",
          .version = type_ == TokenType::kU16 ? 1 : 7,
          .id_bytes = size_of(type_),
          .tells_documents = separator_.has_value()};
}

void LlmcFile::read(std::int64_t begin, std::span<std::int32_t> out) const {
  check_range(*this, begin, static_cast<std::int64_t>(out.size()));
  read_ids(file_, kHeaderBytes + static_cast<std::size_t>(begin) * size_of(type_), type_, out);
}

void LlmcFile::document_ends_in(std::int64_t begin, std::int64_t end,
                                std::vector<std::int64_t>& ends) const {
  check_range(*this, begin, end - begin);
  if (separator_) append_ends_by_id(*this, *separator_, begin, end, ends);
}

}  // namespace strata
