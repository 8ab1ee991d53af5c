// Prices submissions: the time of each alone follows from its cost and the rates of a machine.

#include "strata/predict/paper_trace.h"

#include <algorithm>
#include <stdexcept>

#include "strata/base/narrow.h"

namespace strata {

namespace {

/// Work as it would run alone.
struct Demand {
  double start_s = 0;
  double moved_s = 0;  ///< the rest
  Share share = Share::kNone;
  CollectiveShares beside{};
  double tail_s = 0;  ///< of moved_s, while others find multiprocessors that are idle
};

/// Returns the seconds that an amount takes at a rate of so many units a second.
double seconds(double amount, double rate, double unit) {
  if (amount <= 0) return 0;
  if (!(rate > 0)) throw std::invalid_argument("a timeline needs the rate of every kind of work");
  return amount / (rate * unit);
}

double attention_s(const Cost& cost, const Rates& r, double tflops) {
  const double share = attention_share(r, cost.kind, cost.extents[1], cost.extents[2]);
  return seconds(cost.flops, tflops * share, 1e12);
}

bool is_product(CostKind kind) {
  return kind == CostKind::kProduct || kind == CostKind::kCodesProduct;
}

double product_tflops(CostKind kind, const Rates& r) {
  return r.product_tflops * (kind == CostKind::kCodesProduct ? r.codes_product_gain : 1);
}

double device_s(const TraceRecord& record, const Rates& r) {
  const Cost& cost = record.what.cost;
  const double bytes_s = seconds(static_cast<double>(moved_bytes(record.what)),
                                 r.device_gbs * operator_share(r, record.what.name).device, 1e9);
  switch (cost.kind) {
    case CostKind::kProduct:
    case CostKind::kCodesProduct: {
      const double flops_s = seconds(cost.flops, product_tflops(cost.kind, r), 1e12);
      return flops_s >= bytes_s ? flops_s : bytes_s + r.thin_product_us * 1e-6;
    }
    case CostKind::kAttentionForward: return attention_s(cost, r, r.attention_forward_tflops);
    case CostKind::kAttentionBackward: return attention_s(cost, r, r.attention_backward_tflops);
    default: return bytes_s;
  }
}

/// Returns for how long multiprocessors are idle at the end of a product whose tiles do not come
/// out even. A tile is the work of one of them, and takes the longer the more is summed. They come
/// to their last ones at different times, so that is taken to be half of a tile's time.
double tail_s(const Cost& cost, const Rates& r) {
  if (!is_product(cost.kind) || r.multiprocessors == 0) return 0;
  constexpr std::int64_t kTileRows = 128, kTileColumns = 256;
  constexpr double kIdlePart = 0.5;
  const auto tiles_of = [](std::int64_t n, std::int64_t tile) { return (n + tile - 1) / tile; };
  const auto [m, n, k] = cost.extents;
  if (tiles_of(m, kTileRows) * tiles_of(n, kTileColumns) % r.multiprocessors == 0) return 0;
  const double flops = 2.0 * kTileRows * kTileColumns * static_cast<double>(k);
  return kIdlePart * seconds(flops, product_tflops(cost.kind, r) / r.multiprocessors, 1e12);
}

/// Returns what work of many threads takes: its bytes or, of attention and of updates with codes,
/// what is computed with them.
double host_s(const TraceRecord& record, const Rates& r) {
  const Cost& cost = record.what.cost;
  const double share = operator_share(r, record.what.name).host;
  const double bytes_s =
      seconds(static_cast<double>(moved_bytes(record.what)), r.host_gbs * share, 1e9);
  double computed_s = 0;
  if (r.host_attention_flops > 0) {
    computed_s = seconds(cost.flops, r.host_gbs * r.host_attention_flops, 1e9);
  }
  if (r.coded_gparams > 0) {
    computed_s += seconds(static_cast<double>(cost.coded), r.coded_gparams, 1e9);
  }
  return std::max(bytes_s, computed_s);
}

/// Returns likewise what a collective asks for. All of them write the whole buffer they are about.
Demand collective_demand(const TraceRecord& record, const Rates& r) {
  double bytes = 0;
  for (const ByteRange& range : record.what.accesses.writes) {
    bytes += static_cast<double>(range.bytes);
  }
  const CollectiveRate& rate = collective_rate(r, record.what.name);
  Demand demand{.start_s = rate.start_us * 1e-6,
                .moved_s = collective_s(rate, bytes),
                .share = Share::kCollective};
  demand.beside = {.own = rate.own_share,
                   .kernels = kernel_share_beside(rate, demand.start_s + demand.moved_s),
                   .link_use = rate.link_use};
  return demand;
}

/// Returns how long a record would run alone, and what it shares with others. Of its bytes a kernel
/// reads `over_link` in memory of the host.
Demand demand_of(const TraceRecord& record, const Rates& r, std::size_t over_link) {
  if (record.by_submitter) return {};
  if (record.what.kind == SubmissionKind::kCollective) return collective_demand(record, r);
  const auto bytes = static_cast<double>(moved_bytes(record.what));
  const CostKind kind = record.what.cost.kind;
  // Writing to a disk takes next to nothing of the link and of host memory.
  if (record.lane == Lane::kSave) {
    return {r.task_us * 1e-6, seconds(bytes, r.disk_gbs, 1e9), Share::kNone};
  }
  if (record.lane == Lane::kHost) {
    const bool task = record.what.kind == SubmissionKind::kHostTask && kind != CostKind::kPooled;
    if (task) return {r.task_us * 1e-6, seconds(bytes, r.task_gbs, 1e9), Share::kNone};
    const bool attends = record.what.cost.flops > 0;
    return {r.task_us * 1e-6, host_s(record, r), attends ? Share::kHostAttention : Share::kHost};
  }
  if (kind == CostKind::kLinkIn || kind == CostKind::kLinkOut) {
    const bool in = kind == CostKind::kLinkIn;
    const double gbs = r.link_gbs * (in ? 1 : r.link_out_share);
    return {r.copy_us * 1e-6, seconds(bytes, gbs, 1e9), in ? Share::kLinkIn : Share::kLinkOut};
  }
  const double read_s = seconds(static_cast<double>(over_link), r.link_gbs, 1e9);
  Demand demand{.start_s = r.kernel_us * 1e-6,
                .moved_s = std::max(device_s(record, r), read_s),
                .share = Share::kDevice};
  demand.tail_s = std::min(tail_s(record.what.cost, r), demand.moved_s);
  return demand;
}

}  // namespace

std::size_t PaperTrace::read_over_link(const TraceRecord& record) const {
  if (record.what.kind != SubmissionKind::kKernel || record.lane == Lane::kHost) return 0;
  std::size_t over_link = 0;
  for (const ByteRange& read : record.what.accesses.reads) {
    const bool here = std::ranges::any_of(of_host_, [&](const ByteRange& arena) {
      return read.begin >= arena.begin && read.begin < arena.begin + arena.bytes;
    });
    if (here) over_link += read.bytes;
  }
  // It may need few of the bytes that it could read; what it reads it writes to the device.
  return std::min(over_link, moved_bytes(record.what) / 2);
}

void PaperTrace::add(const TraceRecord& record) {
  const Tag& tag = record.what.tag;
  const bool of_layer = tag.unit >= 1 && tag.unit <= weights_.layers;
  const double times = (tag.cell >= 0 ? weights_.cell : 1) * (of_layer ? weights_.layer : 1);
  const double pieces = times * (tag.chunk >= 0 ? weights_.chunk : 1);
  const Demand demand = demand_of(record, rates_, read_over_link(record));
  PaperWork work{.alone_s = pieces * demand.start_s + times * demand.moved_s,
                 .submit_s = pieces * rates_.submit_us * 1e-6,
                 .pieces = pieces,
                 .tail_s = demand.tail_s,
                 .share = demand.share,
                 .lane = record.lane,
                 .by_submitter = record.by_submitter,
                 .pass = tag.pass,
                 .ticket = record.ticket,
                 .first_event = narrow<std::uint32_t>(events_.size())};
  work.beside = demand.beside;
  for (const Wait& wait : record.waits) events_.push_back(wait.event);
  work.waits_end = narrow<std::uint32_t>(events_.size());
  events_.insert(events_.end(), record.joined.begin(), record.joined.end());
  work.joined_end = narrow<std::uint32_t>(events_.size());
  works_.push_back(work);
}

}  // namespace strata
