// How fast a machine does what submissions ask for. The planner takes these numbers from the
// config or from what is known of a GPU and hands them to a Timeline; docs/prediction.md says how
// each was measured. Plain data and pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "strata/device/cost.h"

namespace strata {

/// An operator that moves bytes at a rate of its own, as a share of the common one on the device
/// and on the host.
struct OperatorShare {
  std::string_view name;
  double device = 1;
  double host = 1;
};

/// What a collective of one name takes, on the group of ranks that it is called on.
struct CollectiveRate {
  std::string_view name;  ///< "all_gather"
  double start_us = 0;    ///< what it takes beyond its bytes
  /// Bytes that each rank sends to the next one for each byte of the buffer: (n - 1) / n among n
  /// ranks, twice that for an all_reduce.
  double sent = 1;
  double gbs = 0;  ///< at which it sends them: what nccl-tests calls bus bandwidth
  /// The share of its rate that remains to it beside kernels.
  double own_share = 1;
  /// The share of theirs that remains to kernels beside one that lasts, and what each one that
  /// begins costs them besides.
  double kernel_share = 1;
  double kernel_loss_us = 0;
  /// The share of a rank's link to the host that it takes, in [0, 1]; 0 where it has its own.
  double link_use = 0;
};

/// The rates of one machine, for one rank of those that share it. They are those that hold in a run
/// of many steps, each measured while nothing else of the rank ran; what they lose to each other
/// stands at the end.
struct Rates {
  double product_tflops = 0;  ///< large matrix products of bf16
  /// What products of codes in e4m3 have of that rate. A config or a run gives none of its own.
  double codes_product_gain = 1;
  double attention_forward_tflops = 0;   ///< for endless rows with a head dim of 128
  double attention_backward_tflops = 0;  ///< for the same, but for attention_backward_gain
  double device_gbs = 0;                 ///< kernels and copies within device memory
  double link_gbs = 0;                   ///< copies each way, but for
  double link_out_share = 1;             ///< the share of it that copies to the host have
  double host_gbs = 0;                   ///< work of many threads: AdamW, sums, kPooled
  /// FLOPs of attention of single queries for each byte of host_gbs, where computing is the bound
  double host_attention_flops = 0;
  /// Billions of parameters a second whose moments become codes of 8 bits on the host, where that
  /// is the bound; 0: it never is.
  double coded_gparams = 0;
  double task_gbs = 0;                        ///< other host tasks, of one thread
  double disk_gbs = 0;                        ///< tasks of the save lane; each disk has its own
  std::vector<OperatorShare> operators;       ///< those that are not near device_gbs or host_gbs
  std::vector<CollectiveRate> collectives{};  ///< one for each name; empty for one rank

  /// The length of rows at which attention has half of its rate.
  double attention_forward_length = 0;
  double attention_backward_length = 0;
  /// What backward gains beyond that on endless rows, as a share of its rate. Rows up to
  /// kShortRows gain nothing, those that are longer by kHalfGain half of it.
  double attention_backward_gain = 0;
  static constexpr double kShortRows = 4096, kHalfGain = 26000;
  /// The share of the rate of attention that a head dim of 64 has.
  double attention_head_share = 1;

  int multiprocessors = 0;     ///< of the device; 0: nobody says, and kernels leave none idle
  double kernel_us = 0;        ///< what starting and ending a kernel takes after the one before
  double thin_product_us = 0;  ///< the same, beside it, of a product whose time goes to its bytes
  double copy_us = 0;          ///< the same for a copy
  double task_us = 0;          ///< the same for a task of the host or the save lane
  double submit_us = 0;        ///< the submitting thread's time for one submission

  /// The share of its rate that remains while copies run both ways; one way takes half of the loss.
  double device_under_copies = 1;
  double host_under_copies = 1;
  /// The share of its rate that remains to a copy beside one the other way, and beside work of the
  /// host lane; a copy in also beside attention there.
  double link_both_ways = 1;
  double link_in_under_host = 1;
  double link_in_under_attention = 1;
  double link_out_under_host = 1;
};

/// Returns the share of its rate that attention of this kind, forward or backward, has for rows of
/// this length and this head dim; above 1 for long rows of a kind that gains on them.
[[nodiscard]] double attention_share(const Rates& rates, CostKind kind, std::int64_t length,
                                     std::int64_t head_dim);
/// Returns the shares of an operator that moves bytes; 1 and 1 if it has none of its own.
[[nodiscard]] OperatorShare operator_share(const Rates& rates, std::string_view name);
/// Returns the rate of the collective of this name. Throws std::invalid_argument if there is none.
[[nodiscard]] const CollectiveRate& collective_rate(const Rates& rates, std::string_view name);
/// Returns what a collective on a buffer of so many bytes takes alone, in seconds, beyond its
/// start.
[[nodiscard]] double collective_s(const CollectiveRate& rate, double bytes);
/// Returns the share of their rate that remains to kernels beside a collective that takes so long
/// alone; no less than half.
[[nodiscard]] double kernel_share_beside(const CollectiveRate& rate, double alone_s);

}  // namespace strata
