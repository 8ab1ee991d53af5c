// This table says what becomes of every block: where its weight, moments and gradient live, where
// several contributions to its gradient are added, who updates it and when. The planner's choices
// decide the rows (strata/engine/state_choices.h); stores, updaters and reports read them and
// decide nothing themselves. The table is a plain value, and is the same for the whole run.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "strata/base/dtype.h"
#include "strata/device/trace.h"
#include "strata/model/form.h"
#include "strata/model/ids.h"

namespace strata {

/// A home is where a tensor of a block stays while nobody works on it.
enum class Home : std::uint8_t {
  kDevice,    ///< in device memory of its own
  kPinned,    ///< in pinned host memory of its own, from where the device can copy
  kPageable,  ///< in pageable host memory of its own, which only the host touches
  kRing,      ///< gradients: a pinned slot that a gradient has from its arrival to its update
  kPassing,   ///< gradients: a place on the device that the next one overwrites
  kNone,      ///< it has none
};

/// Says where the contributions to a gradient are added: those of several passes, and of both ends
/// of a tied embedding.
enum class SumPlace : std::uint8_t {
  kNone,  ///< nowhere: there is only one
  kDevice,
  kHost,
};

/// Says who updates a block.
enum class UpdatedBy : std::uint8_t {
  kNobody,    ///< it is not trained: it has a weight alone, and nobody makes its gradient
  kHost,      ///< host threads, in the block's home
  kResident,  ///< the device, in the block's home there
  kShuttle,   ///< the device; the state crosses the link for it and goes home again
  kMuon,      ///< host threads, in the block's home; the device makes the directions of matrices
};

/// Says when a block is updated.
enum class UpdateTime : std::uint8_t {
  kNever,       ///< it is not trained
  kOnArrival,   ///< as soon as its gradient is home
  kDecided,     ///< after the whole step's numbers are set, in the order of the next forward;
                ///< where nothing is clipped they do not wait for its norm
  kBeforeLoad,  ///< as kDecided, but submitted just before the next load of its weights
  kSpeculated,  ///< as soon as its gradient is home, and again if the norm asks for another factor
};

/// Return the names that the printed table has for these values.
[[nodiscard]] std::string_view name_of(Home home);
[[nodiscard]] std::string_view name_of(SumPlace place);
[[nodiscard]] std::string_view name_of(UpdatedBy who);
[[nodiscard]] std::string_view name_of(UpdateTime when);

/// Returns the kind of memory of a home that is a tensor's own. Throws std::logic_error for a ring,
/// a passing place or none.
[[nodiscard]] Space space_of(Home home);

/// One row of the table says what becomes of one block.
struct BlockPlan {
  Home weight = Home::kPinned;
  Home moments = Home::kPageable;       ///< of m and v, and of the low half of split weights
  Home gradient = Home::kPinned;        ///< of the complete gradient, until the update has read it
  Form form = Form::kPlain;             ///< of the weights at home and on the link
  DType gradient_dtype = DType::kBF16;  ///< dtype in which the gradient lies at its home
  int contributions = 1;                ///< gradients that arrive in a step: passes times sources
  SumPlace sums = SumPlace::kNone;
  UpdatedBy updated_by = UpdatedBy::kHost;
  UpdateTime updated = UpdateTime::kDecided;

  [[nodiscard]] bool is_trained() const { return updated_by != UpdatedBy::kNobody; }
  /// Returns true if the update runs on the device, where the gradient then stays.
  [[nodiscard]] bool updated_on_device() const {
    return updated_by == UpdatedBy::kResident || updated_by == UpdatedBy::kShuttle;
  }
  bool operator==(const BlockPlan&) const = default;
};

/// This is all that stores and updaters know of the training state of one rank: its dtypes, its
/// share, and the rows of all blocks.
struct StatePlan {
  DType compute = DType::kBF16;   ///< X, dtype of weights: bf16, f32 or f64
  DType gradient = DType::kBF16;  ///< the gradient that the optimizer reads is rounded to this
  DType moment = DType::kF32;     ///< dtype of m and v: kMomentCode, bf16, f32, or f64 with f64
                                  ///< weights
  int moments = 2;                ///< that a parameter has: m, and v if there are two
  bool split = true;              ///< bf16 weights have low halves, else they are all there is
  int rank = 0;                   ///< of those that shard the state together
  int ranks = 1;                  ///< that shard the state together
  int replica = 0;                ///< which copy of the state this rank has a shard of
  int replicas = 1;               ///< copies, whose gradients are added
  int gradient_ring = 0;          ///< slots that gradients whose home is kRing share
  /// The device reads the rows of the embedding that it needs where they live, in memory of the
  /// host too, so that it takes no slot. Of one rank, whose embedding nobody trains.
  bool embedding_at_home = false;
  int chunk_factor = 1;  ///< so many times as long are chunks; more than 1 on paper only
  PerBlock<BlockPlan> blocks;

  /// Returns whether weights have low halves.
  [[nodiscard]] bool has_low() const { return split && compute == DType::kBF16; }
  /// Returns the bytes of a chunk of what is long.
  [[nodiscard]] std::size_t chunk_bytes() const;
  /// Returns the bytes that an update changes of so many parameters: weights, low halves, m and v
  /// with their scales. The last block of codes may be short.
  [[nodiscard]] std::size_t updated_bytes(std::int64_t parameters) const;
  /// Returns the number of all ranks.
  [[nodiscard]] int world() const { return ranks * replicas; }
};

/// Returns the table as text: a line of headings, then a line for all blocks whose rows are equal,
/// with how many they are and which. `names` are those of the blocks.
[[nodiscard]] std::string to_string(const StatePlan& plan, const PerBlock<std::string>& names);

}  // namespace strata
