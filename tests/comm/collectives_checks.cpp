// Promises of the collectives, on cpu devices.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "comm/check_values.h"
#include "comm/checks.h"
#include "strata/base/error.h"

namespace strata {

namespace {

void all_gather_of(Ranks& ranks, std::int64_t shard) {
  CommLane lane(ranks);
  // Whatever stands in the shards of others before is overwritten.
  std::vector<std::byte> full(static_cast<std::size_t>(shard * ranks.size()), std::byte{0xAA});
  std::ranges::copy(bytes_of(ranks.rank(), shard), full.begin() + ranks.rank() * shard);
  lane.collectives->all_gather(lane.comm, {full.data(), DType::kU8, {std::ssize(full)}}, {});
  lane.device->synchronize();
  expect_each<std::byte>(
      full, [&](std::int64_t i) { return byte_of(static_cast<int>(i / shard), i % shard); },
      "all_gather of shards of " + std::to_string(shard) + " bytes", ranks);
}

void all_gather_fills_every_shard(Ranks& ranks) {
  for (const std::int64_t shard : {0, 1, 7, 4097, 500'001}) all_gather_of(ranks, shard);
}

/// Returns the own shard after a reduce_scatter. What is before and after the buffer must stay.
template <class T>
std::vector<T> reduce_scatter_of(Ranks& ranks, std::int64_t shard) {
  constexpr std::int64_t kGuard = 3;
  const T guard = T{-7};
  CommLane lane(ranks);
  std::vector<T> memory(kGuard, guard);
  const std::vector<T> own = contributions<T>(ranks.rank(), 0, shard * ranks.size());
  memory.insert(memory.end(), own.begin(), own.end());
  memory.insert(memory.end(), kGuard, guard);
  lane.collectives->reduce_scatter(
      lane.comm, {memory.data() + kGuard, kDTypeOf<T>, {shard * ranks.size()}}, {});
  lane.device->synchronize();
  for (std::size_t i = 0; i < kGuard; ++i) {
    expect(memory[i] == guard && memory[memory.size() - 1 - i] == guard,
           "reduce_scatter wrote beside its buffer", ranks);
  }
  const auto first = memory.begin() + kGuard + ranks.rank() * shard;
  return {first, first + shard};
}

template <class T>
void reduce_scatter_sums(Ranks& ranks, std::int64_t shard) {
  const std::string what = "reduce_scatter of shards of " + std::to_string(shard) + " " +
                           std::string(name_of(kDTypeOf<T>));
  const std::vector<T> sums = reduce_scatter_of<T>(ranks, shard);
  expect_sums<T>(sums, ranks.rank() * shard, what, ranks);
  expect(reduce_scatter_of<T>(ranks, shard) == sums, what + ": other bits the second time", ranks);
}

void reduce_scatter_leaves_the_sum_in_the_own_shard(Ranks& ranks) {
  for (const std::int64_t shard : {0, 1, 1023}) {
    reduce_scatter_sums<float>(ranks, shard);
    reduce_scatter_sums<double>(ranks, shard);
  }
  reduce_scatter_sums<float>(ranks, 500'001);
}

template <class T>
void all_reduce_of(Ranks& ranks, std::int64_t count) {
  const std::string what =
      "all_reduce of " + std::to_string(count) + " " + std::string(name_of(kDTypeOf<T>));
  CommLane lane(ranks);
  std::vector<T> values = contributions<T>(ranks.rank(), 0, count);
  lane.collectives->all_reduce(lane.comm, view_of(values), {});
  lane.device->synchronize();
  expect_sums<T>(values, 0, what, ranks);
  std::vector<T> of_root = values;
  ranks.broadcast(std::as_writable_bytes(std::span(of_root)), 0, Channel::kSubmit);
  expect(of_root == values, what + ": other bits than on rank 0", ranks);
}

void all_reduce_gives_every_rank_the_sum(Ranks& ranks) {
  for (const std::int64_t count : {0, 1, 1023}) {
    all_reduce_of<float>(ranks, count);
    all_reduce_of<double>(ranks, count);
  }
  all_reduce_of<float>(ranks, 2'500'001);  // more than is received at once
}

/// Collectives of the parts of a group run at the same time as those of the group.
void parts_sum_among_themselves(Ranks& ranks) {
  const std::unique_ptr<Ranks> part = ranks.split(ranks.rank() % 2);
  const std::unique_ptr<Device> device = make_cpu_device({});
  const auto whole_sums = make_collectives(ranks, *device);
  const auto part_sums = make_collectives(*part, *device);
  std::vector<double> whole_values{1.0 + ranks.rank()};
  std::vector<double> part_values{1.0 + ranks.rank()};
  for (int turn = 0; turn < 5; ++turn) {
    part_sums->all_reduce(device->stream(Lane::kComm), view_of(part_values), {});
    whole_sums->all_reduce(device->stream(Lane::kComm), view_of(whole_values), {});
  }
  device->synchronize();
  double of_part = 0;
  for (int r = ranks.rank() % 2; r < ranks.size(); r += 2) of_part += 1.0 + r;
  const double size = ranks.size();
  expect(part_values[0] == of_part * std::pow(part->size(), 4), "wrong sum of a part", ranks);
  expect(whole_values[0] == size * (size + 1) / 2 * std::pow(size, 4), "wrong sum of all", ranks);
}

/// The submitting thread, both host lanes and the comm lane talk at the same time, each in its own
/// order; none may take another's message, and no order between them may block.
void channels_and_lane_do_not_meet(Ranks& ranks) {
  constexpr int kTurns = 20;
  CommLane lane(ranks);
  std::vector<std::vector<float>> buffers(
      kTurns, std::vector<float>(static_cast<std::size_t>(100 * ranks.size())));
  std::vector<double> on_host(kTurns, 1000.0 + ranks.rank());
  std::vector<double> on_save(kTurns, 2000.0 + ranks.rank());
  for (std::size_t t = 0; t < kTurns; ++t) {
    for (float& x : buffers[t]) x = static_cast<float>(t + 1);
    const auto reduce = [&] {
      lane.collectives->reduce_scatter(lane.comm, view_of(buffers[t]), {});
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
  lane.device->synchronize();
  const double size = ranks.size();
  for (std::size_t t = 0; t < kTurns; ++t) {
    const auto own = static_cast<std::size_t>(100 * ranks.rank());
    expect(buffers[t][own] == static_cast<float>((static_cast<double>(t) + 1) * size) &&
               buffers[t][own + 99] == buffers[t][own],
           "comm lane: wrong sum", ranks);
    expect(on_host[t] == 1000.0 * size + size * (size - 1) / 2, "host channel: wrong sum", ranks);
    expect(on_save[t] == 2000.0 * size + size * (size - 1) / 2, "save channel: wrong sum", ranks);
  }
}

/// A collective runs in lane order after what it waits for, like every other submission.
void collectives_take_their_place_among_the_lanes(Ranks& ranks) {
  CommLane lane(ranks);
  Stream& compute = lane.device->stream(Lane::kCompute);
  std::vector<float> full(static_cast<std::size_t>(3 * ranks.size()));
  double sum = 0;
  for (int turn = 0; turn < 30; ++turn) {
    compute.wait(lane.comm.record(), WaitFor::kTaken);
    compute.host_task("produce", {}, {}, [&full, &ranks, turn] {
      for (std::size_t i = 0; i < full.size(); ++i) {
        full[i] = static_cast<float>(turn + ranks.rank());
      }
    });
    lane.comm.wait(compute.record(), WaitFor::kGathered);
    lane.collectives->reduce_scatter(lane.comm, view_of(full), {});
    lane.collectives->all_gather(lane.comm, view_of(full), {});
    compute.wait(lane.comm.record(), WaitFor::kGathered);
    compute.host_task("consume", {}, {}, [&full, &sum] {
      for (const float x : full) sum += x;
    });
  }
  lane.device->synchronize();
  const double size = ranks.size();
  const double turns = 30.0 * 29.0 / 2;
  const double expected = 3 * size * (turns * size + 30.0 * size * (size - 1) / 2);
  expect(sum == expected, "a collective ran out of order", ranks);
}

void buffers_that_do_not_fit_are_refused(Ranks& ranks) {
  CommLane lane(ranks);
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

constexpr RanksCheck kChecks[] = {
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

std::span<const RanksCheck> collectives_checks() { return kChecks; }

}  // namespace strata
