// Rows are cut as BatchLoader cuts them (strata/data/batch.h), so that both find the same loss.

#include "strata/complete/scored_windows.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/text.h"

namespace strata {

std::vector<std::int32_t> read_model_ids(const TokenSource& tokens, std::int64_t vocabulary,
                                         std::int64_t begin, std::int64_t count) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  tokens.read(begin, ids);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocabulary) continue;
    const TokenPlace place = tokens.place_of(begin + static_cast<std::int64_t>(i));
    throw ConfigError(place.file + ": token " + format_count(place.token) + " is " +
                      std::to_string(ids[i]) + ", and the model's vocabulary is " +
                      format_count(vocabulary));
  }
  return ids;
}

std::vector<std::uint8_t> read_loss(const TokenSource& tokens, std::int64_t begin,
                                    std::int64_t count) {
  std::vector<std::uint8_t> loss(static_cast<std::size_t>(count));
  tokens.read_loss(begin, loss);
  return loss;
}

OverlappingWindows::OverlappingWindows(const TokenSource& tokens, std::int64_t vocabulary,
                                       const Cut& cut)
    : tokens_(tokens),
      vocabulary_(vocabulary),
      cut_(cut),
      count_(1 + (tokens.size() - cut.context + cut.stride - 1) / cut.stride) {}

std::optional<ScoredWindow> OverlappingWindows::next() {
  if (taken_ == count_) return std::nullopt;
  const std::int64_t number = taken_++;
  const std::int64_t begin = std::min(number * cut_.stride, tokens_.size() - cut_.context);
  const std::int64_t from = std::exchange(scored_to_, begin + cut_.context);
  ScoredWindow window;
  window.request.ids = read_model_ids(tokens_, vocabulary_, begin, cut_.context);
  window.request.from = static_cast<std::size_t>(from - begin);
  window.loss = read_loss(tokens_, from, scored_to_ - from);
  window.number = number;
  window.goes_on = number > 0;
  return window;
}

OverlappingWindows::Cut cut_windows(const TokenSource& tokens, const WindowOptions& options) {
  if (tokens.size() < 2) {
    throw ConfigError(tokens.name() + ": has less than two tokens, so none that follows another");
  }
  const std::int64_t wanted = options.context.value_or(options.usual_context);
  const std::int64_t stride = options.stride.value_or(wanted - 1);
  if (wanted < 2) throw ConfigError("--context must be at least 2: a token and what follows it");
  if (stride >= wanted) {
    throw ConfigError("--stride " + format_count(stride) +
                      " must be less than the tokens of a window, " + format_count(wanted) +
                      ": the first of each has nothing that it follows");
  }
  const std::int64_t context = std::min(wanted, tokens.size());
  return {.context = context, .stride = std::min(stride, context - 1)};
}

ValidationRows::ValidationRows(const TokenSource& tokens, std::int64_t vocabulary, const Cut& cut)
    : tokens_(tokens),
      vocabulary_(vocabulary),
      cut_(cut),
      count_((tokens.size() - 1) / cut.row_tokens) {
  if (count_ > 0) return;
  throw ConfigError(tokens.name() + ": has " + format_count(tokens.size()) +
                    " tokens, and a row of the run's validation takes " + format_count(context()) +
                    "; take a longer file, or windows of another length by --context");
}

std::optional<ScoredWindow> ValidationRows::next() {
  while (waiting_.empty()) {
    if (taken_ == count_) return std::nullopt;
    read_row();
  }
  ScoredWindow window = std::move(waiting_.front());
  waiting_.pop_front();
  return window;
}

void ValidationRows::read_row() {
  const std::int64_t number = taken_++;
  const std::int64_t begin = number * cut_.row_tokens;
  const std::vector<std::int32_t> ids =
      read_model_ids(tokens_, vocabulary_, begin, cut_.row_tokens + 1);
  const std::vector<std::uint8_t> loss = read_loss(tokens_, begin, cut_.row_tokens + 1);
  std::vector<std::int64_t> ends;  // the token behind the row is a target unless a document ends
  if (cut_.document_mask) tokens_.document_ends_in(begin, begin + cut_.row_tokens, ends);
  for (std::int64_t& end : ends) end -= begin;
  if (ends.empty() || ends.back() != cut_.row_tokens) ends.push_back(cut_.row_tokens + 1);
  std::int64_t start = 0;
  for (const std::int64_t end : ends) {
    const std::int64_t first = std::exchange(start, end);
    const auto counts = std::span(loss).subspan(static_cast<std::size_t>(first),
                                                static_cast<std::size_t>(end - first));
    const bool goes_on = std::exchange(open_, false) && first == 0;
    if (std::ranges::count(counts.subspan(1), 1) == 0) continue;
    open_ = end > cut_.row_tokens;
    ScoredWindow& window = waiting_.emplace_back();
    window.request.ids.assign(ids.begin() + first, ids.begin() + end);
    window.loss.assign(counts.begin() + 1, counts.end());
    window.number = number;
    window.goes_on = goes_on;
  }
}

}  // namespace strata
