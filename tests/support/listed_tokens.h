// A token source whose tokens are listed in memory, for tests of what reads token sources.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strata/data/token_source.h"

namespace strata {

/// Tokens in memory; document ends by an id, and loss bits if there are any.
class ListedTokens final : public TokenSource {
 public:
  explicit ListedTokens(std::vector<std::int32_t> ids, std::int32_t end_of_document = -1,
                        std::vector<std::uint8_t> loss = {}, bool pairs = false)
      : ids_(std::move(ids)),
        end_of_document_(end_of_document),
        loss_(std::move(loss)),
        pairs_(pairs) {}
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::int64_t size() const override { return std::ssize(ids_); }
  [[nodiscard]] std::int64_t vocabulary() const override { return 471'100; }
  [[nodiscard]] std::uint64_t tokenizer_hash() const override { return 0; }
  void read(std::int64_t begin, std::span<std::int32_t> out) const override {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = ids_.at(static_cast<std::size_t>(begin) + i);
    }
  }
  void document_ends_in(std::int64_t begin, std::int64_t end,
                        std::vector<std::int64_t>& ends) const override {
    for (std::int64_t i = begin; i < end; ++i) {
      if (ids_.at(static_cast<std::size_t>(i)) == end_of_document_) ends.push_back(i + 1);
    }
  }
  [[nodiscard]] bool has_loss() const override { return !loss_.empty(); }
  [[nodiscard]] bool has_pairs() const override { return pairs_; }
  void read_loss(std::int64_t begin, std::span<std::uint8_t> out) const override {
    if (loss_.empty()) return TokenSource::read_loss(begin, out);
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = loss_.at(static_cast<std::size_t>(begin) + i);
    }
  }

 private:
  std::vector<std::int32_t> ids_;
  std::int32_t end_of_document_;
  std::vector<std::uint8_t> loss_;
  bool pairs_;
  std::string name_ = "listed tokens";
};

}  // namespace strata
