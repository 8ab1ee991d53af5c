// This file draws a token from the logits of one row, for sampling.cu: what penalty and temperature
// make of logits, the cuts of top_k, top_p and min_p, and the token at which the masses reach a
// random number.

#pragma once

#include <cmath>

#include "kernels/cuda/common/cluster.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/common/vector.cuh"
#include "kernels/cuda/rows/sampling_limits.h"
#include "kernels/cuda/rows/sampling_team.cuh"
#include "strata/ops/sampling.h"

namespace strata::cuda::sampling {

inline constexpr double kOne = 17592186044416.0;  ///< the mass of the likeliest token: 2^44
/// What is smaller than the largest by this has no mass: exp(-32) < 2^-46.
inline constexpr double kNoMass = -32;
inline constexpr int kDigitsOfLane = kDigits / kWarp;

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

}  // namespace strata::cuda::sampling
