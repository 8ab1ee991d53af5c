// Fills batches. One task of the thread pool fills one sub-batch: it reads its rows from the
// source, marks the ends of documents, lists the segments that attention may see and sorts the
// positions by id for the embedding's backward. Sub-batches touch nothing in common.

#include "strata/data/batch.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "data/sort_positions.h"
#include "strata/base/error.h"
#include "strata/base/narrow.h"
#include "strata/data/sample_order.h"

namespace strata {

namespace {

std::span<std::int32_t> part(std::span<std::int32_t> whole, std::int64_t index, std::int64_t size) {
  return whole.subspan(static_cast<std::size_t>(index * size), static_cast<std::size_t>(size));
}

/// Appends runs of tokens to a sub-batch's segment table; every query sees its own run.
class SegmentTable {
 public:
  explicit SegmentTable(std::span<std::int32_t> table) : table_(table) {}

  void add(std::int64_t begin, std::int64_t length) {
    const auto row = table_.subspan(next_, kSegmentColumns);
    row[0] = row[1] = static_cast<std::int32_t>(begin);
    row[2] = row[3] = static_cast<std::int32_t>(length);
    row[4] = 0;
    next_ += kSegmentColumns;
  }
  void clear_rest() { std::ranges::fill(table_.subspan(next_), 0); }

 private:
  std::span<std::int32_t> table_;
  std::size_t next_ = 0;
};

void check_options(const BatchOptions& o) {
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

BatchLoader::BatchLoader(const TokenSource& source, const BatchOptions& options, ThreadPool& pool)
    : source_(source), options_(options), pool_(pool) {
  check_options(options);
  const BatchShape& shape = options_.shape;
  samples_ = (source.size() - 1) / shape.tokens;
  if (source.size() <= shape.tokens) {
    throw IoError(source.name() + ": holds " + std::to_string(source.size()) +
                  " tokens; a row of " + std::to_string(shape.tokens) + " takes " +
                  std::to_string(shape.tokens + 1) + ". Use shorter rows or more text");
  }
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
  if (options_.mask == DocumentMask::kOff) return;  // every token has one
  const std::int64_t length = options_.shape.tokens;
  std::vector<std::int64_t> ends;
  for (std::int64_t sample = 0; sample < std::min(samples, samples_); ++sample) {
    ends.clear();
    source_.document_ends_in(sample * length, (sample + 1) * length, ends);
    if (std::ssize(ends) < length) return;
  }
  throw IoError(source_.name() + ": has no target that counts: with data.document_mask the last " +
                "token of a document has none, and every token that would be read is one. Use " +
                "longer documents, the right data.eos_token, or no mask");
}

std::int64_t BatchLoader::samples_per_step() const {
  const BatchShape& shape = options_.shape;
  return options_.step_rows.value_or(options_.passes * shape.sub_batches * options_.ranks *
                                     shape.rows);
}

void BatchLoader::check_sizes(const PassBuffers& out) const {
  const BatchShape& shape = options_.shape;
  const auto check = [](const char* name, std::span<const std::int32_t> buffer,
                        std::int64_t expected) {
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
}

std::int64_t BatchLoader::fill_pass(std::int64_t first_sample, int pass, const PassBuffers& out) {
  check_sizes(out);
  if (first_sample < 0 || pass < 0 || pass >= options_.passes) {
    throw ConfigError("batch: sample " + std::to_string(first_sample) + ", pass " +
                      std::to_string(pass) + " of " + std::to_string(options_.passes) +
                      " does not exist");
  }
  const BatchShape& shape = options_.shape;
  const std::int64_t tokens = shape.sub_batch_tokens();
  const std::int64_t segments = segment_entries(shape, options_.mask) * kSegmentColumns;
  pool_.parallel_for(shape.sub_batches, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      const PassBuffers sub_batch{.ids = part(out.ids, s, tokens),
                                  .targets = part(out.targets, s, tokens),
                                  .positions = part(out.positions, s, tokens),
                                  .segments = part(out.segments, s, segments),
                                  .order = part(out.order, s, tokens)};
      Scratch& scratch = scratch_[static_cast<std::size_t>(s)];
      scratch.valid_targets =
          fill_sub_batch(first_sample, first_sample_of(options_, pass, s), sub_batch, scratch);
    }
  });
  return std::accumulate(scratch_.begin(), scratch_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Scratch& s) { return sum + s.valid_targets; });
}

/// Fills a sub-batch whose row 0 is row `first_row` of the step that begins with `step_sample`.
std::int64_t BatchLoader::fill_sub_batch(std::int64_t step_sample, std::int64_t first_row,
                                         const PassBuffers& out, Scratch& scratch) {
  const std::int64_t length = options_.shape.tokens;
  SegmentTable segments(out.segments);
  std::int64_t valid = 0;
  for (std::int64_t r = 0; r < options_.shape.rows; ++r) {
    const std::int64_t index = step_sample + first_row + r;
    const bool beyond_step = options_.step_rows && first_row + r >= *options_.step_rows;
    const bool beyond_set = options_.sample_order == SampleOrder::kOnce && index >= samples_;
    const auto ids = part(out.ids, r, length);
    const auto targets = part(out.targets, r, length);
    const auto positions = part(out.positions, r, length);
    std::vector<std::int64_t>& ends = scratch.document_ends;
    ends.clear();
    if (beyond_step || beyond_set) {
      std::ranges::fill(ids, 0);
      std::ranges::fill(targets, kIgnoreTarget);
    } else {
      const std::int64_t position = options_.sample_order == SampleOrder::kOnce
                                        ? index
                                        : sample(options_.seed, index, samples_).position;
      const std::int64_t begin = position * length;
      read_row(begin, ids, targets);
      if (options_.mask == DocumentMask::kOn) {
        source_.document_ends_in(begin, begin + length, ends);
      }
      for (std::int64_t& end : ends) end -= begin;
      for (const std::int64_t end : ends)
        targets[static_cast<std::size_t>(end - 1)] = kIgnoreTarget;
      valid += length - std::ssize(ends);
    }
    // The last run ends with the row, whether its document does or not.
    if (ends.empty() || ends.back() != length) ends.push_back(length);
    std::int64_t start = 0;
    for (const std::int64_t end : ends) {
      segments.add(r * length + start, end - start);
      std::iota(positions.begin() + start, positions.begin() + end, 0);
      start = end;
    }
  }
  segments.clear_rest();
  sort_positions(out.ids, options_.vocabulary, out.order, scratch.sorted);
  return valid;
}

void BatchLoader::read_row(std::int64_t begin, std::span<std::int32_t> ids,
                           std::span<std::int32_t> targets) const {
  source_.read(begin, ids);
  source_.read(begin + std::ssize(ids), targets.last(1));
  std::copy(ids.begin() + 1, ids.end(), targets.begin());
  check_ids(begin, ids);
  check_ids(begin + std::ssize(ids), targets.last(1));
}

void BatchLoader::check_ids(std::int64_t begin, std::span<const std::int32_t> ids) const {
  const std::int64_t known = source_.vocabulary();
  const std::int64_t bound = known > 0 ? std::min(known, options_.vocabulary) : options_.vocabulary;
  const auto vocabulary = static_cast<std::uint32_t>(bound);
  // As unsigned numbers, so that ids above 2^31 are refused too.
  const auto bad = std::ranges::find_if(
      ids, [=](std::int32_t id) { return static_cast<std::uint32_t>(id) >= vocabulary; });
  if (bad == ids.end()) return;
  throw IoError(source_.name() + ": token " + std::to_string(begin + (bad - ids.begin())) +
                " has id " + std::to_string(static_cast<std::uint32_t>(*bad)) +
                ", but the model's vocabulary is " + std::to_string(options_.vocabulary) +
                (known > 0 ? " and the file's " + std::to_string(known)
                           : std::string(" and the file does not tell its own")) +
                ". Tokenizer, data.dtype and model.vocab_size must belong together");
}

}  // namespace strata
