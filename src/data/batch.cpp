// Fills batches. One task of the thread pool fills one sub-batch: it reads its rows from their
// sources, marks the ends of documents, lists the segments that attention may see and sorts the
// positions by id for the embedding's backward. Sub-batches touch nothing in common.

#include "strata/data/batch.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "data/sort_positions.h"
#include "strata/base/error.h"
#include "strata/base/narrow.h"

namespace strata {

namespace {

template <class T>
std::span<T> part(std::span<T> whole, std::int64_t index, std::int64_t size) {
  return whole.subspan(static_cast<std::size_t>(index * size), static_cast<std::size_t>(size));
}

/// Appends rows of numbers to a sub-batch's table.
template <std::int64_t kColumns>
class Table {
 public:
  explicit Table(std::span<std::int32_t> table) : table_(table) {}

  void add(const std::array<std::int64_t, kColumns>& row) {
    for (const std::int64_t value : row) table_[next_++] = static_cast<std::int32_t>(value);
  }
  void clear_rest() { std::ranges::fill(table_.subspan(next_), 0); }
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(next_) / kColumns; }

 private:
  std::span<std::int32_t> table_;
  std::size_t next_ = 0;
};
using SegmentTable = Table<kSegmentColumns>;
using PairTable = Table<kPairColumns>;

/// Takes the documents of a row two by two; padding behind them is one that is left over.
void add_pairs(std::int64_t row_begin, std::span<const std::int64_t> ends, PairTable& pairs) {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i + 1 < ends.size(); i += 2) {
    pairs.add({row_begin + begin, row_begin + ends[i], row_begin + ends[i + 1]});
    begin = ends[i + 1];
  }
}

/// Writes what the reference makes of pairs [first, end) of the sub-batch, whose token 0 would be
/// token `begin` of their source.
void add_logs(const TokenSource& source, std::int64_t begin, std::int64_t first, std::int64_t end,
              const PassBuffers& out) {
  for (auto p = static_cast<std::size_t>(first); p < static_cast<std::size_t>(end); ++p) {
    const auto pair = out.pairs.subspan(p * kPairColumns, kPairColumns);
    const PairLogs logs = source.reference_logs(
        {.begin = begin + pair[0], .middle = begin + pair[1], .end = begin + pair[2]});
    out.reference_logs[2 * p] = logs.chosen;
    out.reference_logs[2 * p + 1] = logs.rejected;
  }
}

const BatchOptions& checked(const BatchOptions& o) {
  const auto at_least_one = [](const char* what, std::int64_t value) {
    if (value < 1) {
      throw ConfigError(std::string("batch: ") + what + " must be at least 1, not " +
                        std::to_string(value));
    }
  };
  at_least_one("rows of a sub-batch", o.shape.rows);
  at_least_one("tokens of a row", o.shape.tokens);
  at_least_one("sub-batches", o.shape.sub_batches);
  at_least_one("passes", o.passes);
  at_least_one("ranks", o.ranks);
  at_least_one("vocabulary", o.vocabulary);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (o.shape.rows > kMost / o.shape.tokens || o.vocabulary > kMost) {
    throw ConfigError("batch: tokens of a sub-batch and vocabulary must fit into 31 bits");
  }
  if (o.step_rows) at_least_one("rows of a step", *o.step_rows);
  if (o.rank < 0 || o.rank >= o.ranks) {
    throw ConfigError("batch: rank " + std::to_string(o.rank) + " is not one of " +
                      std::to_string(o.ranks));
  }
  return o;
}

/// Ignores targets, which are tokens of `source` from `begin` on, whose loss does not count.
void ignore_without_loss(const TokenSource& source, std::int64_t begin,
                         std::span<std::int32_t> targets) {
  std::array<std::uint8_t, 4096> buffer;
  while (!targets.empty()) {
    const auto loss = std::span(buffer).first(std::min(buffer.size(), targets.size()));
    source.read_loss(begin, loss);
    for (std::size_t i = 0; i < loss.size(); ++i) {
      if (loss[i] == 0) targets[i] = kIgnoreTarget;
    }
    begin += std::ssize(loss);
    targets = targets.subspan(loss.size());
  }
}

/// Returns how many documents can end in a row, the last one cut off by it.
std::size_t most_ends(const BatchShape& shape, DocumentMask mask) {
  return mask == DocumentMask::kOn ? static_cast<std::size_t>(shape.tokens) + 1 : 1;
}

}  // namespace

std::int64_t segment_entries(const BatchShape& shape, DocumentMask mask) {
  return mask == DocumentMask::kOn ? shape.sub_batch_tokens() : shape.rows;
}

std::int64_t first_sample_of(const BatchOptions& options, int pass, std::int64_t sub_batch) {
  const BatchShape& shape = options.shape;
  return ((pass * shape.sub_batches + sub_batch) * options.ranks + options.rank) * shape.rows;
}

BatchLoader::BatchLoader(std::vector<SourceShare> sources, const BatchOptions& options,
                         ThreadPool& pool)
    : options_(checked(options)),
      map_(std::move(sources),
           {.tokens = options.shape.tokens, .order = options.sample_order, .seed = options.seed}),
      pool_(pool) {}

void BatchLoader::take_memory() {
  if (!scratch_.empty()) return;
  const BatchShape& shape = options_.shape;
  scratch_.resize(static_cast<std::size_t>(shape.sub_batches));
  for (Scratch& s : scratch_) {
    s.sorted.resize(static_cast<std::size_t>(shape.sub_batch_tokens()));
    s.document_ends.reserve(most_ends(shape, options_.mask));
  }
}

std::size_t BatchLoader::scratch_bytes(const BatchShape& shape, DocumentMask mask) {
  const std::size_t each =
      static_cast<std::size_t>(shape.sub_batch_tokens()) * sizeof(std::int32_t) +
      most_ends(shape, mask) * sizeof(std::int64_t) + sizeof(Scratch);
  return static_cast<std::size_t>(shape.sub_batches) * each;
}

void BatchLoader::require_target(std::int64_t samples) const {
  for (std::size_t source = 0; source < map_.sources().size(); ++source) {
    require_target(source, std::min(samples, map_.samples(source)));
  }
}

void BatchLoader::require_target(std::size_t source, std::int64_t samples) const {
  const TokenSource& tokens = *map_.sources()[source].tokens;
  if (options_.mask == DocumentMask::kOff && !tokens.has_loss()) return;  // every token has one
  const std::int64_t length = options_.shape.tokens;
  std::vector<std::int32_t> targets(static_cast<std::size_t>(length));
  std::vector<std::int64_t> ends;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    std::ranges::fill(targets, 0);
    ends.clear();
    ignore_targets({.source = source, .first_token = sample * length}, targets, ends);
    if (std::ranges::count(targets, kIgnoreTarget) < length) return;
  }
  throw IoError(tokens.name() + ": has no target that counts: with data.document_mask the last " +
                "token of a document has none, where a file has loss bits only tokens with the " +
                "bit have one, and none is left of what would be read. Use longer documents, the " +
                "right data.eos_token, other loss bits, or no mask");
}

std::int64_t BatchLoader::samples_per_step() const {
  const BatchShape& shape = options_.shape;
  return options_.step_rows.value_or(options_.passes * shape.sub_batches * options_.ranks *
                                     shape.rows);
}

void BatchLoader::check_sizes(const PassBuffers& out) const {
  const BatchShape& shape = options_.shape;
  const auto check = [](const char* name, const auto& buffer, std::int64_t expected) {
    if (std::ssize(buffer) == expected) return;
    throw ShapeError(std::string("batch: the buffer for ") + name + " must have " +
                     std::to_string(expected) + " elements, it has " +
                     std::to_string(buffer.size()));
  };
  check("ids", out.ids, shape.pass_tokens());
  check("targets", out.targets, shape.pass_tokens());
  check("positions", out.positions, shape.pass_tokens());
  check("order", out.order, shape.pass_tokens());
  check("segments", out.segments,
        shape.sub_batches * segment_entries(shape, options_.mask) * kSegmentColumns);
  check("counts of segments", out.segment_counts, shape.sub_batches);
  if (!options_.pairs) return;
  check("pairs", out.pairs, shape.sub_batches * pair_entries(shape) * kPairColumns);
  check("counts of pairs", out.pair_counts, shape.sub_batches);
  if (out.reference_logs.empty()) return;
  check("logs of the reference", out.reference_logs, shape.sub_batches * pair_entries(shape) * 2);
}

std::int64_t BatchLoader::fill_pass(std::int64_t first_sample, int pass, const PassBuffers& out) {
  check_sizes(out);
  if (first_sample < 0 || pass < 0 || pass >= options_.passes) {
    throw ConfigError("batch: sample " + std::to_string(first_sample) + ", pass " +
                      std::to_string(pass) + " of " + std::to_string(options_.passes) +
                      " does not exist");
  }
  take_memory();
  const BatchShape& shape = options_.shape;
  const std::int64_t tokens = shape.sub_batch_tokens();
  const std::int64_t segments = segment_entries(shape, options_.mask) * kSegmentColumns;
  pool_.parallel_for(shape.sub_batches, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      PassBuffers sub_batch{.ids = part(out.ids, s, tokens),
                            .targets = part(out.targets, s, tokens),
                            .positions = part(out.positions, s, tokens),
                            .segments = part(out.segments, s, segments),
                            .order = part(out.order, s, tokens),
                            .segment_counts = part(out.segment_counts, s, 1)};
      if (options_.pairs) {
        sub_batch.pairs = part(out.pairs, s, pair_entries(shape) * kPairColumns);
        sub_batch.pair_counts = part(out.pair_counts, s, 1);
        if (!out.reference_logs.empty()) {
          sub_batch.reference_logs = part(out.reference_logs, s, 2 * pair_entries(shape));
        }
      }
      Scratch& scratch = scratch_[static_cast<std::size_t>(s)];
      scratch.valid =
          fill_sub_batch(first_sample, first_sample_of(options_, pass, s), sub_batch, scratch);
    }
  });
  return std::accumulate(scratch_.begin(), scratch_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Scratch& s) { return sum + s.valid; });
}

/// Fills a sub-batch whose row 0 is row `first_row` of the step that begins with `step_sample`.
std::int64_t BatchLoader::fill_sub_batch(std::int64_t step_sample, std::int64_t first_row,
                                         const PassBuffers& out, Scratch& scratch) {
  const std::int64_t length = options_.shape.tokens;
  SegmentTable segments(out.segments);
  PairTable pairs(out.pairs);
  std::int64_t valid = 0;
  for (std::int64_t r = 0; r < options_.shape.rows; ++r) {
    const std::int64_t index = step_sample + first_row + r;
    const bool beyond_step = options_.step_rows && first_row + r >= *options_.step_rows;
    const auto ids = part(out.ids, r, length);
    const auto targets = part(out.targets, r, length);
    const auto positions = part(out.positions, r, length);
    std::vector<std::int64_t>& ends = scratch.document_ends;
    ends.clear();
    if (beyond_step || !map_.has(index)) {
      std::ranges::fill(ids, 0);
      std::ranges::fill(targets, kIgnoreTarget);
    } else {
      fill_row(map_.at(index), ids, targets, ends);
      valid += length - std::count(targets.begin(), targets.end(), kIgnoreTarget);
    }
    // The last run ends with the row, whether its document does or not.
    if (ends.empty() || ends.back() != length) ends.push_back(length);
    if (options_.pairs) {
      const std::int64_t before = pairs.count();
      add_pairs(r * length, ends, pairs);
      if (pairs.count() > before && !out.reference_logs.empty()) {
        const SamplePlace place = map_.at(index);
        add_logs(*map_.sources()[place.source].tokens, place.first_token - r * length, before,
                 pairs.count(), out);
      }
    }
    std::int64_t start = 0;
    for (const std::int64_t end : ends) {
      // Every query sees its own run.
      segments.add({r * length + start, r * length + start, end - start, end - start, 0});
      std::iota(positions.begin() + start, positions.begin() + end, 0);
      start = end;
    }
  }
  segments.clear_rest();
  out.segment_counts[0] = segments.count();
  sort_positions(out.ids, options_.vocabulary, out.order, scratch.sorted);
  if (!options_.pairs) return valid;
  pairs.clear_rest();
  out.pair_counts[0] = pairs.count();
  if (!out.reference_logs.empty()) {
    std::ranges::fill(out.reference_logs.subspan(static_cast<std::size_t>(2 * pairs.count())), 0);
  }
  return pairs.count();
}

/// Reads the row of a sample. With masks, `ends` gets the ends of documents, from the row's start.
void BatchLoader::fill_row(const SamplePlace& place, std::span<std::int32_t> ids,
                           std::span<std::int32_t> targets, std::vector<std::int64_t>& ends) const {
  const TokenSource& source = *map_.sources()[place.source].tokens;
  const std::int64_t end = place.first_token + std::ssize(ids);
  source.read(place.first_token, ids);
  source.read(end, targets.last(1));
  std::copy(ids.begin() + 1, ids.end(), targets.begin());
  check_ids(source, place.first_token, ids);
  check_ids(source, end, targets.last(1));
  ignore_targets(place, targets, ends);
}

/// Ignores the targets of a row that do not count.
void BatchLoader::ignore_targets(const SamplePlace& place, std::span<std::int32_t> targets,
                                 std::vector<std::int64_t>& ends) const {
  const TokenSource& source = *map_.sources()[place.source].tokens;
  const std::int64_t begin = place.first_token;
  if (source.has_loss()) ignore_without_loss(source, begin + 1, targets);
  if (options_.mask == DocumentMask::kOff) return;
  source.document_ends_in(begin, begin + std::ssize(targets), ends);
  for (std::int64_t& end : ends) {
    end -= begin;
    targets[static_cast<std::size_t>(end - 1)] = kIgnoreTarget;
  }
}

void BatchLoader::check_ids(const TokenSource& source, std::int64_t begin,
                            std::span<const std::int32_t> ids) const {
  const std::int64_t known = source.vocabulary();
  const std::int64_t bound = known > 0 ? std::min(known, options_.vocabulary) : options_.vocabulary;
  const auto vocabulary = static_cast<std::uint32_t>(bound);
  // As unsigned numbers, so that ids above 2^31 are refused too.
  const auto bad = std::ranges::find_if(
      ids, [=](std::int32_t id) { return static_cast<std::uint32_t>(id) >= vocabulary; });
  if (bad == ids.end()) return;
  const TokenPlace place = source.place_of(begin + (bad - ids.begin()));
  throw IoError(place.file + ": token " + std::to_string(place.token) + " has id " +
                std::to_string(static_cast<std::uint32_t>(*bad)) +
                ", but the model's vocabulary is " + std::to_string(options_.vocabulary) +
                (known > 0 ? " and the file's " + std::to_string(known)
                           : std::string(" and the file does not tell its own")) +
                ". Tokenizer, data.dtype and model.vocab_size must belong together");
}

}  // namespace strata
