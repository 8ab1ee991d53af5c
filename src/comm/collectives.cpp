// The half of the collectives that all implementations share: the check of the buffer and the
// submission that the trace sees. Beside it stand the collectives that move nothing, for one rank
// and for the dry machine, and the table that chooses an implementation for a device.
#include "strata/comm/collectives.h"

#include <string>

#include "comm/nccl_collectives.h"
#include "strata/base/error.h"

namespace strata {

namespace {

constexpr std::string_view kAllGather = "all_gather";
constexpr std::string_view kReduceScatter = "reduce_scatter";
constexpr std::string_view kAllReduce = "all_reduce";

/// Returns the buffer as shards, or throws ShapeError as the header says.
Shards shards_of(std::string_view collective, const TensorView& full, int ranks) {
  const bool absent = full.data == nullptr && full.elements() > 0;
  if (absent || !full.contiguous() || full.elements() % ranks != 0) {
    throw ShapeError(std::string(collective) + ": needs a contiguous buffer of " +
                     std::to_string(ranks) + " equal shards, not " + full.shape.to_string() +
                     (absent              ? ", absent"
                      : full.contiguous() ? ""
                                          : " with gaps between its rows"));
  }
  const auto elements = static_cast<std::size_t>(full.elements() / ranks);
  return {.data = static_cast<std::byte*>(full.data),
          .shard_bytes = elements * size_of(full.dtype),
          .ranks = ranks,
          .dtype = full.dtype};
}

void require_summable(std::string_view collective, DType dtype) {
  if (dtype == DType::kF32 || dtype == DType::kF64) return;
  throw ShapeError(std::string(collective) + ": sums f32 or f64, not " +
                   std::string(name_of(dtype)));
}

/// The collectives of one rank, which has everything already, and those of the dry machine, where
/// the submission is all there is.
class RecordedCollectives final : public Collectives {
 public:
  RecordedCollectives(int rank, int ranks) : Collectives(rank, ranks) {}

 private:
  void enqueue_all_gather(Stream&, const Shards&) override {}
  void enqueue_reduce_scatter(Stream&, const Shards&) override {}
  void enqueue_all_reduce(Stream&, const Shards&) override {}
};

}  // namespace

void Collectives::all_gather(Stream& comm, const TensorView& full, const Tag& tag) {
  const Shards shards = shards_of(kAllGather, full, ranks_);
  if (ranks_ == 1) return;
  comm.submit(
      {.name = kAllGather, .kind = SubmissionKind::kCollective, .tag = tag},
      [&] { return Footprint{.accesses = {{shards.range(rank_)}, {shards.all()}}}; },
      [&] { enqueue_all_gather(comm, shards); });
}

void Collectives::reduce_scatter(Stream& comm, const TensorView& full, const Tag& tag) {
  require_summable(kReduceScatter, full.dtype);
  const Shards shards = shards_of(kReduceScatter, full, ranks_);
  if (ranks_ == 1) return;
  comm.submit(
      {.name = kReduceScatter, .kind = SubmissionKind::kCollective, .tag = tag},
      [&] { return Footprint{.accesses = {{shards.all()}, {shards.all()}}}; },
      [&] { enqueue_reduce_scatter(comm, shards); });
}

void Collectives::all_reduce(Stream& comm, const TensorView& values, const Tag& tag) {
  require_summable(kAllReduce, values.dtype);
  const Shards whole = shards_of(kAllReduce, values, 1);
  if (ranks_ == 1) return;
  comm.submit(
      {.name = kAllReduce, .kind = SubmissionKind::kCollective, .tag = tag},
      [&] { return Footprint{.accesses = {{whole.all()}, {whole.all()}}}; },
      [&] { enqueue_all_reduce(comm, whole); });
}

std::unique_ptr<Collectives> make_collectives(Ranks& ranks, Device& device) {
  const std::string backend = device.info().backend;
  if (ranks.size() == 1 || backend == "dry") {
    return std::make_unique<RecordedCollectives>(ranks.rank(), ranks.size());
  }
  if (backend == "cpu") return ranks.make_host_collectives();
  if (backend == "cuda") return make_nccl_collectives(load_nccl(), ranks, device);
  throw BackendError("this program has no collectives for " + std::to_string(ranks.size()) +
                     " ranks on the " + backend +
                     " backend; start one rank, or set run.backend = \"cpu\"");
}

NcclFound find_nccl() { return find_nccl(kNcclLibrary); }

NcclFound find_nccl(const std::string& library) {
  try {
    const NcclApi api = load_nccl(library);
    int version = 0;
    check_nccl(api, api.get_version(&version), "tell its version", nullptr);
    return {.version = nccl_version_text(version)};
  } catch (const BackendError& error) {
    return {.problem = error.what()};
  }
}

}  // namespace strata
