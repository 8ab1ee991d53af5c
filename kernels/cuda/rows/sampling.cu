// This file draws tokens from logits on CUDA; CudaKernels launches it through operators.h. Tokens
// that were seen must lie within `seen`, which the device does not check.
//
// token[n], logprob[n]: see strata/ops/sampling.h.
//
// Shapes: logits [N, V] with V <= 2^19, rows [N], token and logprob [N].
// Tile: a cluster of 8 blocks of 1024 threads per row (before sm_90 one block), each with a range
// of its tokens, over which it passes again for every step; logits stay in the L2 cache. Greedy
// rows take two passes. A bit per token in shared memory tells which were seen.
//
// Numerics: adjusted logits are f64, as on the CPU. The mass of a token is exp(x - top) rounded to
// a multiple of 2^-44: sums of integers have no order, so that all sums are consistent, repeat,
// and do not depend on the other rows. The k-th largest logit, and the one at which top_p is
// gathered, are found digit by digit in keys that are ordered as the logits are. Of the log
// probability, exponentials are f32 and their sum is f64, in an order that the vocabulary fixes.
//
// Naive version: kernels/cpu.

#include <cmath>
#include <limits>

#include "kernels/cuda/common/chain.cuh"
#include "kernels/cuda/common/cluster.cuh"
#include "kernels/cuda/common/dispatch.h"
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/rows/sampling_limits.h"

namespace strata::cuda {
namespace {

using sampling::kThreads;
using Mass = unsigned long long;
using Key = unsigned long long;

constexpr double kOne = 17592186044416.0;  ///< the mass of the likeliest token: 2^44
/// What is smaller than the largest by this has no mass: exp(-32) < 2^-46.
constexpr double kNoMass = -32;
constexpr unsigned kBlocksOfRow = 8;  ///< whatever the vocabulary and the rows: sums have an order
constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
constexpr int kDigitsOfLane = kDigits / kWarp;

/// The largest number so far, of equals the first; what is no number wins for good.
struct Largest {
  double value;
  int id;
  int nan;  ///< not 0: there was one
  __device__ static Largest shuffle(Largest x, int distance) {
    return {__shfl_xor_sync(kAllLanes, x.value, distance),
            __shfl_xor_sync(kAllLanes, x.id, distance),
            __shfl_xor_sync(kAllLanes, x.nan, distance)};
  }
};

struct LargerOf {
  __device__ Largest operator()(Largest a, Largest b) const {
    const bool second = b.value > a.value || (b.value == a.value && b.id < a.id);
    Largest result = second ? b : a;
    result.nan = a.nan | b.nan;
    return result;
  }
};

/// Shared memory beside the bits of seen tokens.
struct Scratch {
  Largest largest[kMostWarps];
  Sum<double> sums[kMostWarps];
  Sum<Mass> masses[kMostWarps];
  Mass digits[2][kDigits];  ///< of this block, in turns: others of the cluster read the last ones
  Mass all_digits[kDigits];
  Mass told[2][2];  ///< to the other blocks, in turns likewise
  Mass above;       ///< what is gathered of larger keys
  Key key;
  int token;
};
static_assert(sizeof(Scratch) <= sampling::kStaticBytes);

/// The blocks that share a row, which all call its functions together, in all threads.
class Team {
 public:
  __device__ explicit Team(Scratch& scratch) : scratch_(scratch) {}

  /// Returns, in lane i, what block i gives; lanes without a block get `identity`.
  template <class T>
  __device__ T exchange(const T& own, const T& identity) {
    static_assert(sizeof(T) % sizeof(Mass) == 0 && sizeof(T) <= sizeof(scratch_.told[0]));
    const unsigned lane = threadIdx.x % kWarp;
    if (cluster_blocks() == 1) return lane == 0 ? own : identity;
    Mass* const told = scratch_.told[turn_];
    turn_ ^= 1;
    if (threadIdx.x == 0) *reinterpret_cast<T*>(told) = own;
    __syncwarp();
    cluster_sync();
    if (lane >= cluster_blocks()) return identity;
    struct Words {
      Mass of[sizeof(T) / sizeof(Mass)];
    } words;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T) / sizeof(Mass)); ++i) {
      words.of[i] = load_from_block(in_block(address(told + i), lane));
    }
    return __builtin_bit_cast(T, words);
  }
  /// Returns what `combine` makes of all blocks' results.
  template <class T, class Combine>
  __device__ T reduce(const T& own, const T& identity, const Combine& combine) {
    return warp_reduce(exchange(own, identity), combine);
  }
  /// Returns the sums of all blocks' digits, when all have counted theirs in `digits`.
  __device__ const Mass* sum_digits(const Mass* digits) {
    const unsigned blocks = cluster_blocks();
    if (blocks == 1) {
      __syncthreads();
      return digits;
    }
    cluster_sync();
    for (int i = static_cast<int>(threadIdx.x); i < kDigits; i += kThreads) {
      Mass sum = 0;
      for (unsigned b = 0; b < blocks; ++b) {
        sum += load_from_block(in_block(address(digits + i), b));
      }
      scratch_.all_digits[i] = sum;
    }
    __syncthreads();
    return scratch_.all_digits;
  }
  /// Called last: no block ends while others read what it told.
  __device__ void end() const {
    if (cluster_blocks() > 1) cluster_sync();
  }

 private:
  __device__ static std::uint32_t address(const void* shared) {
    return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  }
  Scratch& scratch_;
  unsigned turn_ = 0;
};

template <class T>
struct Arguments {
  Rows<const T> logits;
  const SamplingRow* rows;
  const std::int32_t* seen;
  std::int32_t* token;
  float* logprob;
  int vocabulary;
};

/// A block's range of the tokens of a row.
struct Range {
  int begin, end;

  template <int W>
  __device__ static Range of_block(int vocabulary) {
    const int blocks = static_cast<int>(cluster_blocks());
    const int pieces = (vocabulary + W * blocks - 1) / (W * blocks);
    const int begin = min(static_cast<int>(cluster_rank()) * pieces * W, vocabulary);
    return {begin, min(begin + pieces * W, vocabulary)};
  }
};

/// Calls body(id, logit) for the tokens of this thread, in ascending order.
template <class T, int W, class Body>
__device__ __forceinline__ void for_each_logit(const T* logits, const Range& range,
                                               const Body& body) {
  for (int first = range.begin + static_cast<int>(threadIdx.x) * W; first < range.end;
       first += kThreads * W) {
    float x[W];
    load(logits + first, x);
#pragma unroll
    for (int i = 0; i < W; ++i) body(first + i, x[i]);
  }
}

/// The logits of a row as the penalty and the temperature leave them.
struct Adjustment {
  const unsigned* seen;  ///< a bit per token; null if there is no penalty
  double penalty;
  double temperature;

  [[nodiscard]] __device__ double penalised(int id, float logit) const {
    const double x = logit;
    if (seen == nullptr || (seen[id / 32] >> (id % 32) & 1u) == 0) return x;
    return x > 0 ? __ddiv_rn(x, penalty) : __dmul_rn(x, penalty);
  }
  [[nodiscard]] __device__ double operator()(int id, float logit) const {
    const double x = penalised(id, logit);
    return temperature == 1 ? x : __ddiv_rn(x, temperature);
  }
};

/// Returns an integer that is ordered as the numbers are; both zeros have the same.
__device__ __forceinline__ Key key_of(double x) {
  const auto bits = static_cast<Key>(__double_as_longlong(x + 0.0));
  return bits >> 63 != 0 ? ~bits : bits | Key{1} << 63;
}

/// Returns exp(difference) in units of 2^-44, rounded to nearest.
__device__ __forceinline__ Mass mass_of(double difference) {
  return difference < kNoMass ? 0 : __double2ull_rn(exp(difference) * kOne);
}

/// Sums over the threads before this one, within a warp, this one included.
__device__ __forceinline__ Mass warp_scan(Mass value) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const Mass other = __shfl_up_sync(kAllLanes, value, distance);
    if (lane >= distance) value += other;
  }
  return value;
}

/// What is gathered of a row: by all blocks, by those with smaller ids, and by this one.
struct Gathered {
  Mass all, before, own;
};

/// One row in the hands of a team. All functions are called by all threads.
template <class T, int W>
struct Row {
  const T* logits;
  int vocabulary;
  Range range;  ///< of this block
  Adjustment adjusted;
  double top;  ///< the largest adjusted logit
  Scratch& scratch;
  Team& team;

  /// Calls body(id, key, difference to the top).
  template <class Body>
  __device__ void for_each(const Body& body) const {
    for_each_logit<T, W>(logits, range, [&](int id, float logit) {
      const double x = adjusted(id, logit);
      body(id, key_of(x), x - top);
    });
  }

  template <class Weight>
  __device__ Gathered total(const Weight& weight) const {
    Mass sum = 0;
    for_each([&](int id, Key key, double difference) { sum += weight(id, key, difference); });
    const Mass own = block_sum(sum, scratch.masses);
    const Sum<Mass> of_block = team.exchange(Sum<Mass>{own}, Sum<Mass>{0});
    const bool earlier = threadIdx.x % kWarp < cluster_rank();
    return {warp_reduce(of_block, Add<Mass>{}).value,
            warp_reduce(Sum<Mass>{earlier ? of_block.value : 0}, Add<Mass>{}).value, own};
  }

  /// Returns the key at which the weights, from the largest key down, reach `wanted`, which is from
  /// 1 to their total; `above` becomes the weight of the keys above it.
  template <class Weight>
  __device__ Key reach(Mass wanted, Mass& above, const Weight& weight) const {
    Key prefix = 0;
    above = 0;
    unsigned turn = 0;
    for (int shift = 64 - kDigitBits; shift >= 0; shift -= kDigitBits) {
      Mass* const digits = scratch.digits[turn];
      turn ^= 1;
      for (int i = static_cast<int>(threadIdx.x); i < kDigits; i += kThreads) digits[i] = 0;
      __syncthreads();
      for_each([&](int id, Key key, double difference) {
        // Shifts by 64 are undefined: the digits above those at hand are all there are.
        if (((key ^ prefix) >> shift) >> kDigitBits != 0) return;
        const Mass own = weight(id, key, difference);
        if (own != 0) atomicAdd(&digits[key >> shift & (kDigits - 1)], own);
      });
      const Mass* const all = team.sum_digits(digits);
      if (threadIdx.x < kWarp) {
        const int highest = kDigits - 1 - static_cast<int>(threadIdx.x) * kDigitsOfLane;
        Mass own = 0;
        for (int i = 0; i < kDigitsOfLane; ++i) own += all[highest - i];
        Mass gathered = above + warp_scan(own) - own;
        if (gathered < wanted && gathered + own >= wanted) {
          int digit = highest;
          while (gathered + all[digit] < wanted) gathered += all[digit--];
          scratch.above = gathered;
          scratch.key = prefix | static_cast<Key>(digit) << shift;
        }
      }
      __syncthreads();
      above = scratch.above;
      prefix = scratch.key;
      __syncthreads();
    }
    return prefix;
  }

  /// Returns the first token at which the weights, by id, add up to more than `target`, which is
  /// less than their total; `gathered` is what total() gives of them.
  template <class Weight>
  __device__ int locate(Mass target, const Gathered& gathered, const Weight& weight) const {
    int token = -1;
    if (target >= gathered.before && target - gathered.before < gathered.own) {
      token = locate_here(target - gathered.before, weight);
    }
    const Mass found = token < 0 ? 0 : static_cast<Mass>(token) + 1;  // in one block
    return static_cast<int>(team.reduce(Sum<Mass>{found}, Sum<Mass>{0}, Add<Mass>{}).value) - 1;
  }

  /// Does the same within the range of this block.
  template <class Weight>
  __device__ int locate_here(Mass target, const Weight& weight) const {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    Mass before = 0;
    if (threadIdx.x == 0) scratch.token = -1;
    for (int chunk = range.begin; chunk < range.end; chunk += kThreads * W) {
      const int first = chunk + static_cast<int>(threadIdx.x) * W;
      Mass weights[W] = {};
      Mass own = 0;
      if (first < range.end) {
        float x[W];
        load(logits + first, x);
#pragma unroll
        for (int i = 0; i < W; ++i) {
          const double value = adjusted(first + i, x[i]);
          weights[i] = weight(first + i, key_of(value), value - top);
          own += weights[i];
        }
      }
      const Mass within = warp_scan(own);
      if (lane == kWarp - 1) scratch.masses[warp].value = within;
      __syncthreads();
      const Mass of_warps = warp_scan(scratch.masses[lane].value);
      const Mass earlier = __shfl_sync(kAllLanes, of_warps, warp == 0 ? 0 : warp - 1);
      Mass sum = before + (warp == 0 ? 0 : earlier) + within - own;
      if (sum <= target && sum + own > target) {
        int token = -1;
#pragma unroll
        for (int i = 0; i < W; ++i) {
          sum += weights[i];
          if (token < 0 && sum > target) token = first + i;
        }
        scratch.token = token;
      }
      before += __shfl_sync(kAllLanes, of_warps, kWarp - 1);
      __syncthreads();
      if (before > target) break;
    }
    const int token = scratch.token;
    __syncthreads();
    return token;
  }

  /// Returns the token that a row with a temperature draws.
  __device__ int draw(const SamplingRow& how) const {
    Key least = 0;          // what has a smaller key is left out,
    int last = vocabulary;  // and of those with this key what has a larger id
    if (how.top_k > 0 && how.top_k < vocabulary) {
      Mass above = 0;
      least = reach(how.top_k, above, [](int, Key, double) { return Mass{1}; });
    }
    if (how.top_p < 1) {
      const auto weight = [=](int, Key key, double difference) {
        return key >= least ? mass_of(difference) : 0;
      };
      const Mass all = total(weight).all;
      const auto share = static_cast<Mass>(__double2ull_ru(how.top_p * static_cast<double>(all)));
      const Mass enough = min(max(share, Mass{1}), all);
      Mass above = 0;
      const Key edge = reach(enough, above, weight);
      const auto at_edge = [=](int, Key key, double) { return Mass{key == edge}; };
      // All of one key have one mass; the first of them are kept, until it is enough.
      const Gathered equals = total(at_edge);
      const Gathered gathered = total(
          [=](int, Key key, double difference) { return key == edge ? mass_of(difference) : 0; });
      const Mass each = gathered.all / equals.all;
      const Mass kept = (enough - above + each - 1) / each;
      if (kept < equals.all) last = locate(kept - 1, equals, at_edge);
      least = edge;
    }
    const double min_p = how.min_p;
    const auto weight = [=](int id, Key key, double difference) -> Mass {
      if (key < least || (key == least && id > last) || difference < kNoMass) return 0;
      const double likely = exp(difference);
      return likely < min_p ? 0 : __double2ull_rn(likely * kOne);
    };
    const Gathered all = total(weight);
    const auto share =
        static_cast<Mass>(__double2ull_rd(how.uniform * static_cast<double>(all.all)));
    return locate(min(share, all.all - 1), all, weight);
  }
};

/// A token, and the natural logarithm of its probability.
struct Drawn {
  int token;
  float logprob;
};

template <class T, int W>
__device__ Drawn draw_row(const Arguments<T>& p, int n, unsigned* seen_bits, Scratch& scratch,
                          Team& team) {
  const Drawn nothing{-1, std::numeric_limits<float>::quiet_NaN()};
  const SamplingRow how = p.rows[n];
  const T* logits = p.logits.row(n);
  const Range range = Range::of_block<W>(p.vocabulary);
  constexpr Largest kNone{-std::numeric_limits<double>::infinity(), std::numeric_limits<int>::max(),
                          0};
  const auto largest_of_all = [&](const Largest& mine) {
    const Largest own = block_reduce(mine, kNone, scratch.largest, LargerOf{});
    return team.reduce(own, kNone, LargerOf{});
  };
  Largest mine = kNone;
  for_each_logit<T, W>(logits, range, [&](int id, float logit) {
    if (logit > mine.value) mine = {logit, id, mine.nan};
    if (isnan(logit)) mine.nan = 1;
  });
  const Largest raw = largest_of_all(mine);
  if (raw.nan != 0 || isinf(raw.value)) return nothing;

  double sum = 0;
  for_each_logit<T, W>(
      logits, range, [&](int, float logit) { sum += expf(static_cast<float>(logit - raw.value)); });
  const Sum<double> own{block_sum(sum, scratch.sums)};
  const double all = team.reduce(own, Sum<double>{0}, Add<double>{}).value;

  Largest top = raw;
  Adjustment adjusted{nullptr, how.repeat_penalty, how.temperature};
  if (how.repeat_penalty != 1 && how.seen_count > 0) {
    const int words = (p.vocabulary + 31) / 32;
    for (int i = static_cast<int>(threadIdx.x); i < words; i += kThreads) seen_bits[i] = 0;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < how.seen_count; i += kThreads) {
      const int id = p.seen[how.seen_begin + i];
      atomicOr(&seen_bits[id / 32], 1u << (id % 32));
    }
    __syncthreads();
    adjusted.seen = seen_bits;
    mine = kNone;
    for_each_logit<T, W>(logits, range, [&](int id, float logit) {
      const double x = adjusted.penalised(id, logit);
      if (x > mine.value) mine = {x, id, 0};
    });
    top = largest_of_all(mine);
  }

  int token = top.id;
  if (how.temperature != 0) {
    const Row<T, W> row{.logits = logits,
                        .vocabulary = p.vocabulary,
                        .range = range,
                        .adjusted = adjusted,
                        .top = __ddiv_rn(top.value, how.temperature),
                        .scratch = scratch,
                        .team = team};
    if (isinf(row.top)) return nothing;
    token = row.draw(how);
  }
  return {token, static_cast<float>(widen(logits[token]) - raw.value - log(all))};
}

template <class T, int W>
__global__ void __launch_bounds__(kThreads) sample_tokens(Arguments<T> p) {
  begin_chained();
  extern __shared__ unsigned seen_bits[];
  __shared__ Scratch scratch;
  Team team(scratch);
  const int n = static_cast<int>(blockIdx.x / cluster_blocks());
  const Drawn drawn = draw_row<T, W>(p, n, seen_bits, scratch, team);
  if (cluster_rank() == 0 && threadIdx.x == 0) {
    p.token[n] = drawn.token;
    p.logprob[n] = drawn.logprob;
  }
  team.end();
}

}  // namespace

void enqueue(const Context& context, const SampleTokens& op) {
  const std::int64_t vocabulary = op.logits.shape[1];
  if (vocabulary > sampling::kMostTokens) {
    throw BackendError("operator " + std::string(op.kName) +
                       ": the cuda backend draws from up to " +
                       std::to_string(sampling::kMostTokens) + " tokens, not " +
                       std::to_string(vocabulary) + "; use the cpu backend for it");
  }
  const bool wide = is_wide(op.logits.dtype, vocabulary, {op.logits});
  with_dtype_and_width(op.kName, op.logits.dtype, wide, [&]<class T, int W>() {
    const Arguments<T> arguments{.logits = Rows<const T>(op.logits),
                                 .rows = data<SamplingRow>(op.rows),
                                 .seen = data<std::int32_t>(op.seen),
                                 .token = data<std::int32_t>(op.token),
                                 .logprob = data<float>(op.logprob),
                                 .vocabulary = static_cast<int>(vocabulary)};
    const unsigned blocks = has_clusters() ? kBlocksOfRow : 1;
    launch({.name = op.kName,
            .stream = context.stream,
            .grid = blocks_for(op.logits.rows() * blocks, 1),
            .block = kThreads,
            .shared_bytes = op.seen ? sampling::seen_bytes(vocabulary) : 0,
            .cluster = blocks,
            .chained = true},
           sample_tokens<T, W>, arguments);
  });
}

const void* sampling_module() { return reinterpret_cast<const void*>(&sample_tokens<float, 1>); }

}  // namespace strata::cuda
