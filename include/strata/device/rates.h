#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace strata {

/// An operator that moves bytes at a rate of its own, as a share of the common one.
struct OperatorShare {
  std::string_view name;
  double device = 1;
  double host = 1;
};

/// How fast a machine does what submissions ask for. Rates are those that hold in a run of many
/// steps, each measured while nothing else ran; what they lose to each other comes behind them.
struct Rates {
  double product_tflops = 0;             ///< large matrix products of bf16
  double attention_forward_tflops = 0;   ///< of endless rows with a head dim of 128
  double attention_backward_tflops = 0;  ///< likewise
  double device_gbs = 0;                 ///< kernels and copies within device memory
  double link_gbs = 0;                   ///< copies each way
  double host_gbs = 0;                   ///< work of many threads: AdamW, sums, kPooled
  double task_gbs = 0;                   ///< other host tasks, of one thread
  std::vector<OperatorShare> operators;  ///< those that are not near device_gbs or host_gbs

  /// Length of rows at which attention has half of its rate.
  double attention_forward_length = 0;
  double attention_backward_length = 0;
  /// Share of the rate of attention that a head dim of 64 has.
  double attention_head_share = 1;

  double kernel_us = 0;  ///< a kernel's start and end, when the one before it has ended
  double copy_us = 0;    ///< likewise of a copy
  double task_us = 0;    ///< likewise of work of the host lane
  double submit_us = 0;  ///< of the submitting thread, for one submission

  /// Share of its rate that remains when copies run both ways; one way takes half of the loss.
  double device_under_copies = 1;
  double host_under_copies = 1;
  /// Likewise of a copy: beside one the other way, and beside work of the host lane.
  double link_both_ways = 1;
  double link_in_under_host = 1;
  double link_out_under_host = 1;
};

/// Share of its rate that attention has for rows of this length, which is half at `half_length`.
[[nodiscard]] double attention_share(const Rates& rates, std::int64_t length, double half_length,
                                     std::int64_t head_dim);
/// Of an operator that moves bytes.
[[nodiscard]] OperatorShare operator_share(const Rates& rates, std::string_view name);

}  // namespace strata
