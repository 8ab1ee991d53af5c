// Writes the files of a set and names shards, and finds the shards of an earlier call by their
// names.

#include "data/token_shards.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "strata/base/error.h"
#include "strata/data/tokenize.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigits = 5;
constexpr std::int64_t kMostShards = 100'000;  // what the digits count

/// What stands before and behind the number in the names of shards.
struct NameParts {
  std::string before;
  std::string behind;
};

NameParts name_parts(const std::string& output) {
  const fs::path path(output);
  const std::string behind = path.extension().string();
  return {.before = output.substr(0, output.size() - behind.size()) + '-', .behind = behind};
}

bool is_number(const std::string& text) {
  return text.size() == kDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string shard_file(const std::string& output, std::int64_t shard) {
  const NameParts parts = name_parts(output);
  const std::string number = std::to_string(shard);
  return parts.before + std::string(kDigits - std::min(kDigits, number.size()), '0') + number +
         parts.behind;
}

std::vector<std::string> find_shards(const std::string& output) {
  const NameParts parts = name_parts(output);
  const fs::path folder = fs::path(output).parent_path();
  const std::string before = fs::path(parts.before).filename();
  std::vector<std::string> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder.empty() ? fs::path(".") : folder, ignored)) {
    const std::string name = entry.path().filename();
    if (name.size() != before.size() + kDigits + parts.behind.size() || !name.starts_with(before) ||
        !name.ends_with(parts.behind) || !is_number(name.substr(before.size(), kDigits))) {
      continue;
    }
    found.push_back(folder / name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

TokenShards::TokenShards(std::string output, const TokenFileWriter::Format& format,
                         std::int64_t shard_tokens)
    : output_(std::move(output)), format_(format), shard_tokens_(shard_tokens) {
  open();
}

void TokenShards::open() {
  if (shard_ >= kMostShards) {
    throw IoError(output_ + ": would be more than " + std::to_string(kMostShards) +
                  " shards. Ask for larger ones by --shard-tokens; those that are whole are there");
  }
  writer_ = std::make_unique<TokenFileWriter>(
      shard_tokens_ > 0 ? shard_file(output_, shard_) : output_, format_);
}

TokenFileWriter& TokenShards::writer_for(std::int64_t tokens) {
  const std::int64_t written = writer_->tokens();
  if (shard_tokens_ > 0 && written > 0 && tokens > shard_tokens_ - written) {
    close();
    publish();
    documents_ += writer_->documents();
    tokens_ += written;
    learnt_tokens_ += writer_->learnt_tokens();
    ++shard_;
    open();
  }
  return *writer_;
}

void TokenShards::publish() {
  if (shard_tokens_ > 0 && shard_ == 0) {
    for (const std::string& stale : find_shards(output_)) {
      std::error_code error;
      if (!fs::remove(stale, error) && error) {
        throw Error(stale + ": a shard of an earlier run cannot be removed: " + error.message());
      }
    }
  }
  writer_->publish();
}

}  // namespace strata
