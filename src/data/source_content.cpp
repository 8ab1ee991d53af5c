// Hashes what is in a token source, at places that are a function of the number of tokens alone.
// What is read there goes into the hash in the form that the interface has, so that another width
// of ids or another cut into files is no other content.

#include "strata/data/source_content.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "data/text_hash.h"

namespace strata {

namespace {

constexpr std::int64_t kPlaces = 64;
constexpr std::int64_t kPlaceTokens = 4096;

/// Returns where the places of a source begin.
std::vector<std::int64_t> places_of(std::int64_t tokens) {
  std::vector<std::int64_t> begins;
  if (tokens <= kPlaces * kPlaceTokens) {
    for (std::int64_t begin = 0; begin < tokens; begin += kPlaceTokens) begins.push_back(begin);
    return begins;
  }
  const std::int64_t last = tokens - kPlaceTokens;
  constexpr std::int64_t kSteps = kPlaces - 1;
  for (std::int64_t i = 0; i < kPlaces; ++i) {
    begins.push_back(last / kSteps * i + last % kSteps * i / kSteps);
  }
  return begins;
}

}  // namespace

SourceContent content_of(const TokenSource& source) {
  SourceContent content{.tokens = source.size(),
                        .documents = source.storage().documents,
                        .tokenizer_hash = source.tokenizer_hash()};
  TextHash hash;
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> loss;
  std::vector<std::int64_t> ends;
  for (const std::int64_t begin : places_of(source.size())) {
    const std::int64_t end = std::min(begin + kPlaceTokens, source.size());
    ids.resize(static_cast<std::size_t>(end - begin));
    loss.resize(ids.size());
    ends.clear();
    source.read(begin, ids);
    source.read_loss(begin, loss);
    if (content.documents) source.document_ends_in(begin, end, ends);
    add_values<std::int32_t>(hash, ids);
    add_values<std::uint8_t>(hash, loss);
    add_values<std::int64_t>(hash, ends);
  }
  content.digest = hash.value();
  return content;
}

}  // namespace strata
