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
#include "kernels/cuda/rows/sampling_row.cuh"
#include "kernels/cuda/rows/sampling_team.cuh"

namespace strata::cuda {

namespace sampling {

namespace {

constexpr unsigned kBlocksOfRow = 8;  ///< whatever the vocabulary and the rows: sums have an order

template <class T>
struct Arguments {
  Rows<const T> logits;
  const SamplingRow* rows;
  const std::int32_t* seen;
  std::int32_t* token;
  float* logprob;
  int vocabulary;
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

template <class T, int W>
void launch_sampling(cudaStream_t stream, const SampleTokens& op) {
  const std::int64_t vocabulary = op.logits.shape[1];
  const Arguments<T> arguments{.logits = Rows<const T>(op.logits),
                               .rows = data<SamplingRow>(op.rows),
                               .seen = data<std::int32_t>(op.seen),
                               .token = data<std::int32_t>(op.token),
                               .logprob = data<float>(op.logprob),
                               .vocabulary = static_cast<int>(vocabulary)};
  const unsigned blocks = has_clusters() ? kBlocksOfRow : 1;
  launch({.name = op.kName,
          .stream = stream,
          .grid = blocks_for(op.logits.rows() * blocks, 1),
          .block = kThreads,
          .shared_bytes = op.seen ? seen_bytes(vocabulary) : 0,
          .cluster = blocks,
          .chained = true},
         sample_tokens<T, W>, arguments);
}

}  // namespace

}  // namespace sampling

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
    sampling::launch_sampling<T, W>(context.stream, op);
  });
}

const void* sampling_module() {
  return reinterpret_cast<const void*>(&sampling::sample_tokens<float, 1>);
}

}  // namespace strata::cuda
