// The token files of one set: a single file, or shards of about as many tokens each, cut where
// documents end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "strata/data/token_file.h"

namespace strata {

/// Returns the shards of an output that are there, by their names alone, in order.
[[nodiscard]] std::vector<std::string> find_shards(const std::string& output);

/// Writes the files of a set one behind another. A shard gets its name when it is whole; before the
/// first one does, all shards of an earlier run are removed, so that never two runs are mixed.
class TokenShards {
 public:
  /// Throws as TokenFileWriter's constructor. With `shard_tokens` 0 there is one file, `output`.
  TokenShards(std::string output, const TokenFileWriter::Format& format, std::int64_t shard_tokens);

  /// Returns where a document of so many tokens goes: to the next shard if this one has not the
  /// room. One that is longer than a shard has one to itself. Throws Error if writing fails.
  [[nodiscard]] TokenFileWriter& writer_for(std::int64_t tokens);
  /// Closes the last file. Only publish() may come after it.
  void close() { writer_->close(); }
  void publish();

  [[nodiscard]] std::int64_t documents() const { return documents_ + writer_->documents(); }
  [[nodiscard]] std::int64_t tokens() const { return tokens_ + writer_->tokens(); }
  [[nodiscard]] std::int64_t learnt_tokens() const {
    return learnt_tokens_ + writer_->learnt_tokens();
  }
  /// Returns the shards in all, or 0 if there is one file.
  [[nodiscard]] std::int64_t shards() const { return shard_tokens_ > 0 ? shard_ + 1 : 0; }

 private:
  void open();

  std::string output_;
  TokenFileWriter::Format format_;
  std::int64_t shard_tokens_;
  std::int64_t shard_ = 0;  ///< the one that is written
  std::unique_ptr<TokenFileWriter> writer_;
  std::int64_t documents_ = 0;  ///< of the shards before
  std::int64_t tokens_ = 0;
  std::int64_t learnt_tokens_ = 0;
};

}  // namespace strata
