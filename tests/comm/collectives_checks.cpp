// Promises of the collectives, on any machine: values reach them through device memory.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "comm/check_values.h"
#include "comm/checks.h"
#include "device/cpu/cpu_device.h"
#include "strata/base/error.h"

namespace strata {

namespace {

void all_gather_of(Ranks& ranks, const CommMachine& machine, std::int64_t shard) {
  CommLane lane(ranks, machine);
  // Whatever stands in the shards of others before is overwritten.
  std::vector<std::uint8_t> before(static_cast<std::size_t>(shard * ranks.size()), 0xAA);
  const std::vector<std::byte> own = bytes_of(ranks.rank(), shard);
  std::ranges::transform(own, before.begin() + ranks.rank() * shard, std::to_integer<std::uint8_t>);
  DeviceValues<std::uint8_t> full(lane, before);
  lane.collectives->all_gather(lane.comm, full.view(), {});
  expect_each<std::uint8_t>(
      full.read(),
      [&](std::int64_t i) {
        return std::to_integer<std::uint8_t>(byte_of(static_cast<int>(i / shard), i % shard));
      },
      "all_gather of shards of " + std::to_string(shard) + " bytes", ranks);
}

void all_gather_fills_every_shard(Ranks& ranks, const CommMachine& machine) {
  for (const std::int64_t shard : {0, 1, 7, 4097, 500'001}) all_gather_of(ranks, machine, shard);
}

/// Returns the own shard after a reduce_scatter. What is before and after the buffer must stay.
template <class T>
std::vector<T> reduce_scatter_of(Ranks& ranks, const CommMachine& machine, std::int64_t shard) {
  constexpr std::int64_t kGuard = 3;
  const T guard = T{-7};
  CommLane lane(ranks, machine);
  std::vector<T> before(kGuard, guard);
  const std::vector<T> own = contributions<T>(ranks.rank(), 0, shard * ranks.size());
  before.insert(before.end(), own.begin(), own.end());
  before.insert(before.end(), kGuard, guard);
  DeviceValues<T> values(lane, before);
  lane.collectives->reduce_scatter(lane.comm, values.view(kGuard, own.size()), {});
  const std::vector<T> after = values.read();
  for (std::size_t i = 0; i < kGuard; ++i) {
    expect(after[i] == guard && after[after.size() - 1 - i] == guard,
           "reduce_scatter wrote beside its buffer", ranks);
  }
  const auto first = after.begin() + kGuard + ranks.rank() * shard;
  return {first, first + shard};
}

template <class T>
void reduce_scatter_sums(Ranks& ranks, const CommMachine& machine, std::int64_t shard) {
  const std::string what = "reduce_scatter of shards of " + std::to_string(shard) + " " +
                           std::string(name_of(kDTypeOf<T>));
  const std::vector<T> sums = reduce_scatter_of<T>(ranks, machine, shard);
  expect_sums<T>(sums, ranks.rank() * shard, what, ranks);
  expect(reduce_scatter_of<T>(ranks, machine, shard) == sums, what + ": other bits the second time",
         ranks);
}

void reduce_scatter_leaves_the_sum_in_the_own_shard(Ranks& ranks, const CommMachine& machine) {
  for (const std::int64_t shard : {0, 1, 1023}) {
    reduce_scatter_sums<float>(ranks, machine, shard);
    reduce_scatter_sums<double>(ranks, machine, shard);
  }
  reduce_scatter_sums<float>(ranks, machine, 500'001);
}

template <class T>
void all_reduce_of(Ranks& ranks, const CommMachine& machine, std::int64_t count) {
  const std::string what =
      "all_reduce of " + std::to_string(count) + " " + std::string(name_of(kDTypeOf<T>));
  CommLane lane(ranks, machine);
  DeviceValues<T> values(lane, contributions<T>(ranks.rank(), 0, count));
  lane.collectives->all_reduce(lane.comm, values.view(), {});
  const std::vector<T> sums = values.read();
  expect_sums<T>(sums, 0, what, ranks);
  std::vector<T> of_root = sums;
  ranks.broadcast(std::as_writable_bytes(std::span(of_root)), 0, Channel::kSubmit);
  expect(of_root == sums, what + ": other bits than on rank 0", ranks);
}

void all_reduce_gives_every_rank_the_sum(Ranks& ranks, const CommMachine& machine) {
  for (const std::int64_t count : {0, 1, 1023}) {
    all_reduce_of<float>(ranks, machine, count);
    all_reduce_of<double>(ranks, machine, count);
  }
  all_reduce_of<float>(ranks, machine, 500'001);
}

/// Collectives of the parts of a group run in turns with those of the group.
void parts_sum_among_themselves(Ranks& ranks, const CommMachine& machine) {
  const std::unique_ptr<Ranks> part = ranks.split(ranks.rank() % 2);
  CommLane lane(ranks, machine);
  const auto part_sums = part->size() > 1 ? machine.collectives(*part, *lane.device)
                                          : make_collectives(*part, *lane.device);
  DeviceValues<double> whole_values(lane, {1.0 + ranks.rank()});
  DeviceValues<double> part_values(lane, {1.0 + ranks.rank()});
  for (int turn = 0; turn < 5; ++turn) {
    part_sums->all_reduce(lane.comm, part_values.view(), {});
    lane.collectives->all_reduce(lane.comm, whole_values.view(), {});
  }
  const double of_whole = whole_values.read()[0];
  double sum_of_part = 0;
  for (int r = ranks.rank() % 2; r < ranks.size(); r += 2) sum_of_part += 1.0 + r;
  const double size = ranks.size();
  expect(part_values.read()[0] == sum_of_part * std::pow(part->size(), 4), "wrong sum of a part",
         ranks);
  expect(of_whole == size * (size + 1) / 2 * std::pow(size, 4), "wrong sum of all", ranks);
}

/// The submitting thread, both host lanes and the comm lane talk at the same time, each in its own
/// order; none may take another's message, and no order between them may block.
void channels_and_lane_do_not_meet(Ranks& ranks, const CommMachine& machine) {
  constexpr int kTurns = 20;
  CommLane lane(ranks, machine);
  std::vector<std::unique_ptr<DeviceValues<float>>> buffers;
  for (int t = 0; t < kTurns; ++t) {
    buffers.push_back(std::make_unique<DeviceValues<float>>(
        lane, std::vector<float>(static_cast<std::size_t>(100 * ranks.size()),
                                 static_cast<float>(t + 1))));
  }
  std::vector<double> on_host(kTurns, 1000.0 + ranks.rank());
  std::vector<double> on_save(kTurns, 2000.0 + ranks.rank());
  for (std::size_t t = 0; t < kTurns; ++t) {
    const auto reduce = [&] {
      lane.collectives->reduce_scatter(lane.comm, buffers[t]->view(), {});
    };
    const auto sum_on = [&](Lane which, Channel channel, double* value) {
      lane.device->stream(which).host_task(
          "sum", {}, {}, [&ranks, channel, value] { ranks.all_reduce_sum({value, 1}, channel); });
    };
    const auto sum_on_host = [&] { sum_on(Lane::kHost, Channel::kHost, &on_host[t]); };
    const auto sum_on_save = [&] { sum_on(Lane::kSave, Channel::kSave, &on_save[t]); };
    // Ranks submit to their lanes in different orders.
    ranks.rank() % 2 == 0 ? (reduce(), sum_on_host(), sum_on_save())
                          : (sum_on_save(), sum_on_host(), reduce());
    std::array<double, 1> own{static_cast<double>(t)};
    ranks.all_reduce_sum(own, Channel::kSubmit);
    expect(own[0] == static_cast<double>(t) * ranks.size(), "submit channel: wrong sum", ranks);
  }
  const double size = ranks.size();
  for (std::size_t t = 0; t < kTurns; ++t) {
    const std::vector<float> sums = buffers[t]->read();
    const auto own = static_cast<std::size_t>(100 * ranks.rank());
    expect(sums[own] == static_cast<float>((static_cast<double>(t) + 1) * size) &&
               sums[own + 99] == sums[own],
           "comm lane: wrong sum", ranks);
    expect(on_host[t] == 1000.0 * size + size * (size - 1) / 2, "host channel: wrong sum", ranks);
    expect(on_save[t] == 2000.0 * size + size * (size - 1) / 2, "save channel: wrong sum", ranks);
  }
}

/// A collective runs in lane order after what it waits for, like every other submission: one lane
/// brings values, the comm lane sums and gathers them, and a third takes the result away.
void collectives_take_their_place_among_the_lanes(Ranks& ranks, const CommMachine& machine) {
  constexpr std::size_t kTurns = 30;
  CommLane lane(ranks, machine);
  Stream& in = lane.device->stream(Lane::kWeightsIn);
  Stream& out = lane.device->stream(Lane::kOut);
  const auto count = static_cast<std::size_t>(3 * ranks.size());
  const std::size_t bytes = count * sizeof(float);
  Arena host(*lane.device, Space::kPinned, 2 * kTurns * (bytes + Arena::kAlignment), "turns");
  DeviceValues<float> full(lane, std::vector<float>(count));
  std::vector<const float*> results;
  in.wait(lane.comm.record(), WaitFor::kTaken);
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    auto* const source = reinterpret_cast<float*>(host.allocate("source", bytes));
    auto* const result = reinterpret_cast<float*>(host.allocate("result", bytes));
    std::fill_n(source, count, static_cast<float>(turn) + static_cast<float>(ranks.rank()));
    in.copy(full.view().data, source, bytes, {});
    lane.comm.wait(in.record(), WaitFor::kFilled);
    lane.collectives->reduce_scatter(lane.comm, full.view(), {});
    lane.collectives->all_gather(lane.comm, full.view(), {});
    out.wait(in.record(), WaitFor::kFilled);  // one rank submits nothing between
    out.wait(lane.comm.record(), WaitFor::kGathered);
    out.copy(result, full.view().data, bytes, {});
    in.wait(out.record(), WaitFor::kTaken);
    results.push_back(result);
  }
  lane.device->synchronize();
  const int size = ranks.size();
  for (std::size_t turn = 0; turn < kTurns; ++turn) {
    const int of_ranks = size * (size - 1) / 2;
    const auto expected = static_cast<float>(static_cast<int>(turn) * size + of_ranks);
    expect(
        std::all_of(results[turn], results[turn] + count, [&](float x) { return x == expected; }),
        "a collective ran out of order", ranks);
  }
}

void buffers_that_do_not_fit_are_refused(Ranks& ranks, const CommMachine& machine) {
  CommLane lane(ranks, machine);
  const auto refused = [&](const auto& call) {
    try {
      call();
    } catch (const ShapeError&) {
      return true;
    }
    return false;
  };
  Collectives& collectives = *lane.collectives;
  std::vector<Bf16> bf16(static_cast<std::size_t>(ranks.size()));
  expect(refused([&] { collectives.reduce_scatter(lane.comm, view_of(bf16), {}); }),
         "reduce_scatter took bf16", ranks);
  expect(refused([&] { collectives.all_reduce(lane.comm, view_of(bf16), {}); }),
         "all_reduce took bf16", ranks);
  expect(refused([&] { collectives.all_gather(lane.comm, TensorView{}, {}); }),
         "all_gather took an absent buffer", ranks);
  std::vector<float> gaps(static_cast<std::size_t>(8 * ranks.size()));
  const TensorView strided(gaps.data(), DType::kF32, {2, 2 * ranks.size()}, 4 * ranks.size());
  expect(refused([&] { collectives.all_gather(lane.comm, strided, {}); }),
         "all_gather took a buffer with gaps", ranks);
  std::vector<float> uneven(static_cast<std::size_t>(ranks.size()) + 1);
  expect(
      ranks.size() == 1 || refused([&] { collectives.all_gather(lane.comm, view_of(uneven), {}); }),
      "all_gather took uneven shards", ranks);
}

constexpr CollectivesCheck kCollectivesChecks[] = {
    {"all_gather fills every shard", all_gather_fills_every_shard},
    {"reduce_scatter leaves the sum in the own shard",
     reduce_scatter_leaves_the_sum_in_the_own_shard},
    {"all_reduce gives every rank the sum", all_reduce_gives_every_rank_the_sum},
    {"parts sum among themselves", parts_sum_among_themselves},
    {"channels and lane do not meet", channels_and_lane_do_not_meet},
    {"collectives take their place among the lanes", collectives_take_their_place_among_the_lanes},
    {"buffers that do not fit are refused", buffers_that_do_not_fit_are_refused},
};

}  // namespace

CommMachine cpu_machine() {
  return {.device = [] { return make_cpu_device({}); }};
}

std::span<const CollectivesCheck> collectives_checks() { return kCollectivesChecks; }

}  // namespace strata
