// Reads a token source piece by piece for what `strata inspect` tells of it, and finds documents in
// it.

#include "strata/data/token_survey.h"

#include <algorithm>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/text.h"

namespace strata {

namespace {

constexpr std::int64_t kPieceTokens = std::int64_t{1} << 18;

/// Calls `take(begin, end)` for pieces of a source, until it returns false.
template <class Take>
void for_each_piece(const TokenSource& source, const Take& take) {
  for (std::int64_t begin = 0; begin < source.size(); begin += kPieceTokens) {
    if (!take(begin, std::min(source.size(), begin + kPieceTokens))) return;
  }
}

/// Takes ids of a piece as the 32 bits that a file has.
void note_ids(const std::vector<std::int32_t>& ids, TokenSurvey& survey) {
  for (const std::int32_t signed_id : ids) {
    const std::int64_t id = static_cast<std::uint32_t>(signed_id);
    survey.smallest_id = survey.smallest_id < 0 ? id : std::min(survey.smallest_id, id);
    survey.largest_id = std::max(survey.largest_id, id);
  }
}

void note_lengths(std::vector<std::int64_t>& lengths, TokenSurvey& survey) {
  if (lengths.empty()) return;
  const auto middle = lengths.begin() + (std::ssize(lengths) - 1) / 2;
  std::nth_element(lengths.begin(), middle, lengths.end());
  survey.documents = std::ssize(lengths);
  survey.median = *middle;
  survey.shortest = *std::min_element(lengths.begin(), middle + 1);
  survey.longest = *std::max_element(middle, lengths.end());
}

}  // namespace

TokenSurvey survey_tokens(const TokenSource& source) {
  TokenSurvey survey{.tokens = source.size()};
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> loss;
  std::vector<std::int64_t> ends;
  std::vector<std::int64_t> lengths;
  std::int64_t last = 0;
  for_each_piece(source, [&](std::int64_t begin, std::int64_t end) {
    ids.resize(static_cast<std::size_t>(end - begin));
    loss.resize(ids.size());
    source.read(begin, ids);
    source.read_loss(begin, loss);
    note_ids(ids, survey);
    survey.loss_tokens += std::ssize(loss) - std::count(loss.begin(), loss.end(), 0);
    ends.clear();
    source.document_ends_in(begin, end, ends);
    for (const std::int64_t at : ends) {
      lengths.push_back(at - last);
      last = at;
    }
    return true;
  });
  if (last < source.size()) lengths.push_back(source.size() - last);
  note_lengths(lengths, survey);
  return survey;
}

TokenRange find_document(const TokenSource& source, std::int64_t number) {
  std::int64_t before = 0;  // documents that ended
  std::int64_t last = 0;
  TokenRange found;
  std::vector<std::int64_t> ends;
  for_each_piece(source, [&](std::int64_t begin, std::int64_t end) {
    ends.clear();
    source.document_ends_in(begin, end, ends);
    if (end == source.size() && (ends.empty() ? last : ends.back()) < end) ends.push_back(end);
    for (const std::int64_t at : ends) {
      if (++before == number) found = {.begin = last, .end = at};
      last = at;
    }
    return found.end == 0;
  });
  if (found.end > 0) return found;
  if (before == 0) throw ConfigError("--document: " + source.name() + " has no documents");
  throw ConfigError("--document: " + source.name() + " has documents 1 to " + format_count(before) +
                    ", and none of number " + std::to_string(number));
}

}  // namespace strata
