// The properties that communicator_checks.h lists, with sums in rank order written out as the
// reference. Ranks compute what the others contribute, so no messages are needed to know the
// answer.

#include "comm/communicator_checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "strata/base/random.h"

namespace strata {

namespace {

void expect(bool holds, const std::string& what, const Communicator& c) {
  if (holds) return;
  throw std::runtime_error("rank " + std::to_string(c.rank()) + " of " + std::to_string(c.size()) +
                           ": " + what);
}

/// What rank `rank` contributes at `index`. The magnitudes differ so much that sums in another
/// order round to other bits.
template <class T>
T value(int rank, std::int64_t index) {
  const std::uint64_t bits =
      random_bits(7, static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(index));
  const double mantissa = static_cast<double>(bits >> 11) - 0x1p52;
  return static_cast<T>(std::ldexp(mantissa, static_cast<int>(bits % 24)));
}

template <class T>
T ordered_sum(int ranks, std::int64_t index) {
  T sum = value<T>(0, index);
  for (int r = 1; r < ranks; ++r) sum += value<T>(r, index);
  return sum;
}

/// values[i] must have the bits of expected(i).
template <class T, class Expected>
void expect_each(std::span<const T> values, const Expected& expected, const std::string& what,
                 const Communicator& c) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T wanted = expected(static_cast<std::int64_t>(i));
    if (std::memcmp(&values[i], &wanted, sizeof wanted) != 0) {
      expect(false, what + ": wrong value at " + std::to_string(i), c);
    }
  }
}

template <class T>
TensorView view_of(std::vector<T>& values) {
  return {values.data(), kDTypeOf<T>, {std::ssize(values)}};
}

/// A device of this rank, and its comm lane.
struct Lanes {
  std::unique_ptr<Device> device = make_cpu_device({});
  Stream& comm = device->stream(Lane::kComm);
};

std::byte byte_of(int rank, std::int64_t index) {
  return static_cast<std::byte>(
      random_bits(3, static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(index)));
}

std::vector<std::byte> bytes_of(int rank, std::int64_t count) {
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < count; ++i) bytes.push_back(byte_of(rank, i));
  return bytes;
}

void all_gather_of(Communicator& c, std::int64_t shard) {
  Lanes lanes;
  std::vector<std::byte> full(static_cast<std::size_t>(shard * c.size()));
  std::ranges::copy(bytes_of(c.rank(), shard), full.begin() + c.rank() * shard);
  c.all_gather(lanes.comm, {full.data(), DType::kU8, {std::ssize(full)}}, {});
  lanes.device->synchronize();
  expect_each<std::byte>(
      full, [&](std::int64_t i) { return byte_of(static_cast<int>(i / shard), i % shard); },
      "all_gather of shards of " + std::to_string(shard) + " bytes", c);
}

void all_gather_fills_every_shard(Communicator& c) {
  for (const std::int64_t shard : {0, 1, 7, 4097, 500'001}) all_gather_of(c, shard);
}

template <class T>
void reduce_scatter_of(Communicator& c, std::int64_t shard) {
  Lanes lanes;
  std::vector<T> full(static_cast<std::size_t>(shard * c.size()));
  for (std::int64_t i = 0; i < std::ssize(full); ++i) {
    full[static_cast<std::size_t>(i)] = value<T>(c.rank(), i);
  }
  c.reduce_scatter(lanes.comm, view_of(full), {});
  lanes.device->synchronize();
  const std::int64_t begin = c.rank() * shard;
  expect_each<T>(
      std::span(full).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(shard)),
      [&](std::int64_t i) { return ordered_sum<T>(c.size(), begin + i); },
      "reduce_scatter of shards of " + std::to_string(shard) + " " +
          std::string(name_of(kDTypeOf<T>)),
      c);
}

void reduce_scatter_adds_in_rank_order(Communicator& c) {
  for (const std::int64_t shard : {0, 1, 1023}) {
    reduce_scatter_of<float>(c, shard);
    reduce_scatter_of<double>(c, shard);
  }
  // More than a rank receives from another at once (a few MiB for all), and not a multiple of it.
  reduce_scatter_of<float>(c, 2'500'001 / c.size());
}

void all_reduce_sum_adds_in_rank_order(Communicator& c) {
  for (const std::int64_t count : {1, 5, 3001}) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(value<double>(c.rank(), i));
    c.all_reduce_sum(values, Channel::kSubmit);
    expect_each<double>(
        values, [&](std::int64_t i) { return ordered_sum<double>(c.size(), i); }, "all_reduce_sum",
        c);
  }
}

void broadcast_gives_everybody_the_bytes_of_the_root(Communicator& c) {
  for (int root = 0; root < c.size(); ++root) {
    for (const std::int64_t count : {1, 200'003}) {
      std::vector<std::byte> bytes = bytes_of(c.rank(), count);
      c.broadcast(bytes, root, Channel::kSubmit);
      expect_each<std::byte>(
          bytes, [&](std::int64_t i) { return byte_of(root, i); },
          "broadcast from " + std::to_string(root), c);
    }
  }
}

void all_gather_host_concatenates_in_rank_order(Communicator& c) {
  const std::array<std::byte, 3> own{static_cast<std::byte>(c.rank()), std::byte{42},
                                     static_cast<std::byte>(2 * c.rank())};
  const std::vector<std::byte> all = c.all_gather_host(own, Channel::kHost);
  expect(all.size() == 3 * static_cast<std::size_t>(c.size()), "all_gather_host: wrong size", c);
  for (int r = 0; r < c.size(); ++r) {
    const auto i = 3 * static_cast<std::size_t>(r);
    expect(all[i] == static_cast<std::byte>(r) && all[i + 1] == std::byte{42} &&
               all[i + 2] == static_cast<std::byte>(2 * r),
           "all_gather_host: wrong bytes of rank " + std::to_string(r), c);
  }
  expect(c.all_gather_host({}, Channel::kHost).empty(), "all_gather_host: nothing gave something",
         c);
}

void any_failed_is_true_everywhere_if_one_rank_failed(Communicator& c) {
  expect(!c.any_failed(false, Channel::kSubmit), "any_failed: nobody failed", c);
  for (int failing = 0; failing < c.size(); ++failing) {
    expect(c.any_failed(c.rank() == failing, Channel::kSubmit),
           "any_failed: rank " + std::to_string(failing) + " failed", c);
  }
}

/// The submitting thread, the host lane and the comm lane talk at the same time, each in its own
/// order; none may take another's message, and no order between them may block.
void channels_and_lane_do_not_meet(Communicator& c) {
  constexpr int kTurns = 20;
  Lanes lanes;
  std::vector<std::vector<float>> buffers(
      kTurns, std::vector<float>(static_cast<std::size_t>(100 * c.size())));
  std::vector<double> on_host(kTurns, 1000.0 + c.rank());
  for (std::size_t t = 0; t < kTurns; ++t) {
    for (float& x : buffers[t]) x = static_cast<float>(t + 1);
    const auto reduce = [&] { c.reduce_scatter(lanes.comm, view_of(buffers[t]), {}); };
    const auto sum_on_host = [&] {
      lanes.device->stream(Lane::kHost).host_task("sum", {}, {}, [&c, &on_host, t] {
        c.all_reduce_sum({&on_host[t], 1}, Channel::kHost);
      });
    };
    // Ranks submit to their lanes in different orders.
    c.rank() % 2 == 0 ? (reduce(), sum_on_host()) : (sum_on_host(), reduce());
    std::array<double, 1> own{static_cast<double>(t)};
    c.all_reduce_sum(own, Channel::kSubmit);
    expect(own[0] == static_cast<double>(t) * c.size(), "submit channel: wrong sum", c);
  }
  lanes.device->synchronize();
  const double ranks = c.size();
  for (std::size_t t = 0; t < kTurns; ++t) {
    const auto own = static_cast<std::size_t>(100 * c.rank());
    expect(buffers[t][own] == static_cast<float>((static_cast<double>(t) + 1) * ranks) &&
               buffers[t][own + 99] == buffers[t][own],
           "comm lane: wrong sum", c);
    expect(on_host[t] == 1000.0 * ranks + ranks * (ranks - 1) / 2, "host channel: wrong sum", c);
  }
}

/// Runs in lane order behind what it waits for, like every other submission.
void collectives_take_their_place_among_the_lanes(Communicator& c) {
  Lanes lanes;
  Stream& compute = lanes.device->stream(Lane::kCompute);
  std::vector<float> full(static_cast<std::size_t>(3 * c.size()));
  double sum = 0;
  for (int turn = 0; turn < 30; ++turn) {
    compute.wait(lanes.comm.record(), WaitFor::kTaken);
    compute.host_task("produce", {}, {}, [&full, &c, turn] {
      for (std::size_t i = 0; i < full.size(); ++i) {
        full[i] = static_cast<float>(turn + c.rank());
      }
    });
    lanes.comm.wait(compute.record(), WaitFor::kGathered);
    c.reduce_scatter(lanes.comm, view_of(full), {});
    c.all_gather(lanes.comm, view_of(full), {});
    compute.wait(lanes.comm.record(), WaitFor::kGathered);
    compute.host_task("consume", {}, {}, [&full, &sum] {
      for (const float x : full) sum += x;
    });
  }
  lanes.device->synchronize();
  const double ranks = c.size();
  const double turns = 30.0 * 29.0 / 2;
  const double expected = 3 * ranks * (turns * ranks + 30.0 * ranks * (ranks - 1) / 2);
  expect(sum == expected, "a collective ran out of order", c);
}

void buffers_that_do_not_fit_are_refused(Communicator& c) {
  Lanes lanes;
  const auto refused = [&](const auto& call) {
    try {
      call();
    } catch (const ShapeError&) {
      return true;
    }
    return false;
  };
  std::vector<Bf16> bf16(static_cast<std::size_t>(c.size()));
  expect(refused([&] { c.reduce_scatter(lanes.comm, view_of(bf16), {}); }),
         "reduce_scatter took bf16", c);
  expect(refused([&] { c.all_gather(lanes.comm, TensorView{}, {}); }),
         "all_gather took an absent buffer", c);
  std::vector<float> gaps(static_cast<std::size_t>(8 * c.size()));
  const TensorView strided(gaps.data(), DType::kF32, {2, 2 * c.size()}, 4 * c.size());
  expect(refused([&] { c.all_gather(lanes.comm, strided, {}); }),
         "all_gather took a buffer with gaps", c);
  std::vector<float> uneven(static_cast<std::size_t>(c.size()) + 1);
  expect(c.size() == 1 || refused([&] { c.all_gather(lanes.comm, view_of(uneven), {}); }),
         "all_gather took uneven shards", c);
}

void barriers_come_between_sums(Communicator& c) {
  for (int turn = 0; turn < 50; ++turn) c.barrier(Channel::kSubmit);
  std::array<double, 1> passed{1.0};
  c.all_reduce_sum(passed, Channel::kSubmit);
  expect(passed[0] == c.size(), "barriers and sums got mixed up", c);
}

constexpr CommunicatorCheck kChecks[] = {
    {"all_gather fills every shard", all_gather_fills_every_shard},
    {"reduce_scatter adds in rank order", reduce_scatter_adds_in_rank_order},
    {"all_reduce_sum adds in rank order", all_reduce_sum_adds_in_rank_order},
    {"broadcast gives everybody the bytes of the root",
     broadcast_gives_everybody_the_bytes_of_the_root},
    {"all_gather_host concatenates in rank order", all_gather_host_concatenates_in_rank_order},
    {"any_failed is true everywhere if one rank failed",
     any_failed_is_true_everywhere_if_one_rank_failed},
    {"channels and lane do not meet", channels_and_lane_do_not_meet},
    {"collectives take their place among the lanes", collectives_take_their_place_among_the_lanes},
    {"buffers that do not fit are refused", buffers_that_do_not_fit_are_refused},
    {"barriers come between sums", barriers_come_between_sums},
};

}  // namespace

std::span<const CommunicatorCheck> communicator_checks() { return kChecks; }

}  // namespace strata
