// The self-test of what ranks send each other, by integers, which floating-point sums of any order
// give exactly.

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "doctor/self_test_checks.h"
#include "strata/base/log.h"
#include "strata/comm/collectives.h"
#include "strata/device/arena.h"
#include "strata/launch/rank_agreement.h"

namespace strata {

namespace {

/// Elements of a shard: one, an odd number, and what is cut into pieces on the way.
constexpr std::array<std::int64_t, 3> kShards{1, 1021, 65536};

/// Returns which GPU this rank takes: the one of its place on its host, or the first.
int device_index_of(const SelfTestOptions& options, Ranks& ranks) {
  if (options.backend != BackendKind::kCuda) return 0;
  const std::vector<std::string> hosts = gather_texts(ranks.host(), ranks);
  const auto place =
      static_cast<int>(std::count(hosts.begin(), hosts.begin() + ranks.rank(), ranks.host()));
  return place < cuda_device_count() ? place : 0;
}

/// What rank `rank` puts at place `i`: small enough that sums of thousands of ranks are exact.
double contribution(int rank, std::int64_t i) {
  return static_cast<double>((i * 7 + rank * 31) % 509 - 254);
}

double sum_of_contributions(int ranks, std::int64_t i) {
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += contribution(rank, i);
  return sum;
}

/// Buffers of one rank on its device, and the collectives between them.
class DeviceExchange {
 public:
  DeviceExchange(const SelfTestOptions& options, Ranks& ranks) : ranks_(ranks) {
    const int device_index = device_index_of(options, ranks);
    fail_together(ranks, [&] {
      BackendOptions made = backend_options(options);
      made.device.device_index = device_index;
      backend_ = options.make_backend(options.backend, made);
    });
    collectives_ = make_collectives(ranks, *backend_.device);
    fail_together(ranks, [&] {
      const std::size_t bytes = static_cast<std::size_t>(kShards.back() * ranks.size()) * 4;
      device_.emplace(*backend_.device, Space::kDevice, bytes, "exchange");
      pinned_.emplace(*backend_.device, Space::kPinned, bytes, "exchange staging");
      on_device_ = device_->allocate("values", bytes);
      on_host_ = pinned_->allocate("values", bytes);
    });
  }
  ~DeviceExchange() {
    try {
      backend_.device->synchronize();  // work in flight refers to the collectives
    } catch (const std::exception& error) {
      log::debug("while ending the exchange: {}", error.what());
    }
  }
  DeviceExchange(const DeviceExchange&) = delete;
  DeviceExchange& operator=(const DeviceExchange&) = delete;

  /// Returns the first wrong value of the three collectives, or an empty text.
  [[nodiscard]] std::string first_error() {
    for (const std::int64_t shard : kShards) {
      const std::int64_t all = shard * ranks_.size();
      const std::int64_t begin = shard * ranks_.rank();
      // Only the own shard is there before a gather, and only the own one counts behind a scatter.
      run(
          all, [&](std::int64_t i) { return i / shard == ranks_.rank() ? value_at(i) : -1e6; },
          [&](Stream& comm, const TensorView& full) { collectives_->all_gather(comm, full, {}); });
      std::string error = compare("all_gather", 0, all, [](std::int64_t i) { return value_at(i); });
      run(all, own(), [&](Stream& comm, const TensorView& full) {
        collectives_->reduce_scatter(comm, full, {});
      });
      if (error.empty()) error = compare("reduce_scatter", begin, begin + shard, sums());
      run(all, own(),
          [&](Stream& comm, const TensorView& full) { collectives_->all_reduce(comm, full, {}); });
      if (error.empty()) error = compare("all_reduce", 0, all, sums());
      if (!error.empty()) return error;
    }
    return {};
  }

 private:
  using Values = std::function<double(std::int64_t)>;

  static double value_at(std::int64_t i) { return static_cast<double>(i % 65536); }
  [[nodiscard]] Values own() const {
    return [rank = ranks_.rank()](std::int64_t i) { return contribution(rank, i); };
  }
  [[nodiscard]] Values sums() const {
    return [ranks = ranks_.size()](std::int64_t i) { return sum_of_contributions(ranks, i); };
  }

  /// Puts values on the device, has `exchange` work on them and fetches what is there then.
  void run(std::int64_t count, const Values& values,
           const std::function<void(Stream&, const TensorView&)>& exchange) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
    auto* const floats = reinterpret_cast<float*>(on_host_);
    for (std::int64_t i = 0; i < count; ++i) floats[i] = static_cast<float>(values(i));
    Stream& comm = backend_.device->stream(Lane::kComm);
    Stream& compute = backend_.device->stream(Lane::kCompute);
    compute.copy(on_device_, on_host_, bytes, {});
    comm.wait(compute.record(), WaitFor::kGathered);
    exchange(comm, {on_device_, DType::kF32, {count}});
    compute.wait(comm.record(), WaitFor::kGathered);
    compute.copy(on_host_, on_device_, bytes, {});
    backend_.device->synchronize();
  }

  [[nodiscard]] std::string compare(std::string_view name, std::int64_t begin, std::int64_t end,
                                    const Values& expected) const {
    const auto* const floats = reinterpret_cast<const float*>(on_host_);
    for (std::int64_t i = begin; i < end; ++i) {
      if (static_cast<double>(floats[i]) == expected(i)) continue;
      return fmt::format("{} of {} values: value {} is {}, expected {}", name, end - begin, i,
                         floats[i], expected(i));
    }
    return {};
  }

  Ranks& ranks_;
  Backend backend_;
  std::unique_ptr<Collectives> collectives_;
  std::optional<Arena> device_;
  std::optional<Arena> pinned_;
  std::byte* on_device_ = nullptr;
  std::byte* on_host_ = nullptr;
};

/// Returns the first wrong value of the control plane, or an empty text.
std::string error_of_control(Ranks& ranks) {
  constexpr std::int64_t kValues = 5;
  std::array<double, kValues> values{};
  for (std::int64_t i = 0; i < kValues; ++i) {
    values[static_cast<std::size_t>(i)] = contribution(ranks.rank(), i);
  }
  ranks.all_reduce_sum(values, Channel::kSubmit);
  std::array<int, 1> told{ranks.rank() + 40};
  ranks.broadcast(std::as_writable_bytes(std::span(told)), ranks.size() - 1, Channel::kSubmit);
  for (std::int64_t i = 0; i < kValues; ++i) {
    const double expected = sum_of_contributions(ranks.size(), i);
    const double got = values[static_cast<std::size_t>(i)];
    if (got != expected) return fmt::format("sum on the host is {}, expected {}", got, expected);
  }
  if (told[0] == ranks.size() + 39) return {};
  return fmt::format("broadcast on the host gave {}, expected {}", told[0], ranks.size() + 39);
}

}  // namespace

std::vector<Finding> check_collectives(const SelfTestOptions& options, Ranks& ranks) {
  Finding finding{.name = "collectives"};
  if (ranks.size() == 1) {
    finding.found = "one rank, nothing to send; mpirun -np N strata doctor --self-test tries N";
    return {finding};
  }
  std::string error = error_of_control(ranks);
  {
    std::optional<DeviceExchange> exchange;  // it goes after an error of this rank is told
    std::string on_device;
    fail_for_all(ranks, [&] {
      exchange.emplace(options, ranks);
      on_device = exchange->first_error();
    });
    if (error.empty()) error = on_device;
  }
  const std::string errors = failures_text(gather_texts(error, ranks));
  finding.found = fmt::format("sums and gathers of {} ranks are exact", ranks.size());
  if (!errors.empty()) {
    finding.verdict = Verdict::kBad;
    finding.found = errors;
    finding.remedy =
        remedy_of_wrong_numbers(options.backend,
                                "run this on the ranks of one host, then on one rank of each; "
                                "suspect NCCL (NCCL_DEBUG=WARN "
                                "tells its version and ways; try NCCL_P2P_DISABLE=1) or MPI");
  }
  return {finding};
}

}  // namespace strata
