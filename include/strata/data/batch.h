// Turns a long run of token ids into the batches that a pass trains on. A session owns one loader
// for training and one for validation and calls fill_pass with pinned buffers of the batch store.
// Which tokens a row gets is a pure function of seed and global sample index, so it does not depend
// on the number of ranks or threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "strata/base/thread_pool.h"
#include "strata/data/sample_map.h"
#include "strata/data/token_source.h"

namespace strata {

/// The target where no loss counts: the source says so of the next token, the next token is of
/// another document (with masks), or the row is empty. Equal to CrossEntropy::kIgnoreIndex of the
/// operators.
inline constexpr std::int32_t kIgnoreTarget = -100;
/// The columns of the segment table: q_begin, k_begin, q_length, k_length, q_offset.
inline constexpr std::int64_t kSegmentColumns = 5;

/// What one rank runs in one pass.
struct BatchShape {
  std::int64_t rows = 1;         ///< B, rows of a sub-batch
  std::int64_t tokens = 0;       ///< T, tokens of a row
  std::int64_t sub_batches = 1;  ///< S
  [[nodiscard]] std::int64_t sub_batch_tokens() const { return rows * tokens; }
  [[nodiscard]] std::int64_t pass_tokens() const { return sub_batches * rows * tokens; }
};

/// Whether attention and loss cross the ends of documents inside a row.
enum class DocumentMask : std::uint8_t {
  kOff,  ///< a row is one run of text: tokens see what stands before them in the row
  kOn,   ///< documents in a row do not see each other, and none predicts the next one's first token
};

/// Returns the entries that a sub-batch's segment table has room for: B without masks, B*T with
/// them.
[[nodiscard]] std::int64_t segment_entries(const BatchShape& shape, DocumentMask mask);

/// The columns of the table of pairs: the first token, the first one of the rejected answer, the
/// end.
inline constexpr std::int64_t kPairColumns = 3;
/// A pair has at least so many tokens: a document without a second token has no target.
inline constexpr std::int64_t kFewestPairTokens = 4;
/// Returns the pairs that a sub-batch has room for.
[[nodiscard]] inline std::int64_t pair_entries(const BatchShape& shape) {
  return shape.sub_batch_tokens() / kFewestPairTokens;
}

/// The caller's memory for one pass; sizes are in elements.
struct PassBuffers {
  std::span<std::int32_t> ids;        ///< [S*B*T]
  std::span<std::int32_t> targets;    ///< [S*B*T] the next token, or kIgnoreTarget: see there
  std::span<std::int32_t> positions;  ///< [S*B*T] 0 at the start of a row, or of a document in it
  std::span<std::int32_t> segments;  ///< [S, segment_entries, 5] relative to the sub-batch's tokens
  std::span<std::int32_t> order;     ///< [S, B*T] positions n sorted by (ids[n], n), per sub-batch
  /// [S] how many entries of a sub-batch's segment table are used; the rest of it is zeros
  std::span<std::int64_t> segment_counts{};
  std::span<std::int32_t>
      pairs{};  ///< [S, pair_entries, 3] as segments, or empty: see BatchOptions
  std::span<std::int64_t> pair_counts{};  ///< [S] how many entries of `pairs` are used
  /// [S, pair_entries, 2] TokenSource::reference_logs() of each pair, or empty: nobody wants them
  std::span<double> reference_logs{};
};

/// What a loader is made for; fixed for the whole run.
struct BatchOptions {
  BatchShape shape;
  int passes = 1;  ///< passes of a step
  int rank = 0;
  int ranks = 1;
  /// Rows that a step trains on, of all ranks; absent: all that there is room for. Those behind are
  /// rows of id 0 with ignored targets, and a rank may have no others.
  std::optional<std::int64_t> step_rows{};
  DocumentMask mask = DocumentMask::kOff;
  /// Documents of a row are pairs of a chosen and a rejected answer. Needs masks and packed
  /// sources.
  bool pairs = false;
  SampleOrder sample_order = SampleOrder::kShuffled;
  std::uint64_t seed = 0;
  std::int64_t vocabulary = 0;  ///< the model's: ids must be below it
};

/// Returns which sample of its step, counted from 0, is row 0 of a sub-batch of options.rank:
/// ((pass*S + s)*R + rank)*B. Row r is r samples behind it; from step_rows on there are none.
[[nodiscard]] std::int64_t first_sample_of(const BatchOptions& options, int pass,
                                           std::int64_t sub_batch);

/// Cuts token sources into rows and fills batches with them. A sample is T + 1 tokens: T inputs
/// and, shifted by one, T targets.
class BatchLoader {
 public:
  /// Sources and `pool` must outlive the loader. Throws what SampleMap throws, ConfigError for
  /// sizes below 1 or a rank that does not exist.
  BatchLoader(std::vector<SourceShare> sources, const BatchOptions& options, ThreadPool& pool);
  /// Makes a loader of one source.
  BatchLoader(const TokenSource& source, const BatchOptions& options, ThreadPool& pool)
      : BatchLoader(std::vector{SourceShare{.tokens = &source}}, options, pool) {}

  /// Returns the bytes of host memory that a loader of this shape takes to fill batches.
  [[nodiscard]] static std::size_t scratch_bytes(const BatchShape& shape, DocumentMask mask);
  /// Takes them. Whoever does not call it has the first fill_pass() do so.
  void take_memory();

  /// Returns where the samples lie.
  [[nodiscard]] const SampleMap& map() const { return map_; }
  /// Returns the samples of all sources.
  [[nodiscard]] std::int64_t samples() const { return map_.samples(); }
  /// Throws IoError for a source of which none of the first `samples` samples has a target that
  /// counts. Takes the memory of a row meanwhile.
  void require_target(std::int64_t samples) const;
  /// Returns G = passes * S * R * B, or step_rows, by which a step moves the run's global sample
  /// index.
  [[nodiscard]] std::int64_t samples_per_step() const;
  [[nodiscard]] const BatchOptions& options() const { return options_; }

  /// Fills the buffers for one pass of the step whose first row is global sample `first_sample`
  /// (step * G as long as G does not change); row r of sub-batch s takes sample first_sample +
  /// first_sample_of(options, pass, s) + r. Returns how many targets are not ignored, or of pairs
  /// how many there are. Blocks while the pool's threads read and sort. Throws IoError naming
  /// source, offset, id and both vocabularies for an id outside of the model's vocabulary or the
  /// source's own, ShapeError for buffers of another size, ConfigError for a pass or sample that
  /// does not exist. Called by one thread at a time.
  std::int64_t fill_pass(std::int64_t first_sample, int pass, const PassBuffers& out);

 private:
  /// What one sub-batch needs while it is filled; each has its own, so that threads share none.
  struct Scratch {
    std::vector<std::int32_t> sorted;         ///< [B*T]
    std::vector<std::int64_t> document_ends;  ///< ends in the row at hand, from its start
    std::int64_t valid = 0;                   ///< targets that are not ignored, or pairs
  };
  void check_sizes(const PassBuffers& out) const;
  std::int64_t fill_sub_batch(std::int64_t step_sample, std::int64_t first_row,
                              const PassBuffers& out, Scratch& scratch);
  void fill_row(const SamplePlace& place, std::span<std::int32_t> ids,
                std::span<std::int32_t> targets, std::vector<std::int64_t>& ends) const;
  void ignore_targets(const SamplePlace& place, std::span<std::int32_t> targets,
                      std::vector<std::int64_t>& ends) const;
  void require_target(std::size_t source, std::int64_t samples) const;
  void check_ids(const TokenSource& source, std::int64_t begin,
                 std::span<const std::int32_t> ids) const;

  BatchOptions options_;
  SampleMap map_;
  ThreadPool& pool_;
  std::vector<Scratch> scratch_;  ///< [S], once the memory is taken
};

}  // namespace strata
