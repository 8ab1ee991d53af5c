// The order in which MPI's ranks and ranks in threads add: exact sums, to the bit.
#include <vector>

#include "comm/check_values.h"
#include "comm/checks.h"

namespace strata {

namespace {

template <class T>
T ordered_sum(int ranks, std::int64_t index) {
  T sum = contribution<T>(0, index);
  for (int r = 1; r < ranks; ++r) sum += contribution<T>(r, index);
  return sum;
}

template <class T>
void check_reduce_scatter(Ranks& ranks, std::int64_t shard) {
  CommLane lane(ranks);
  std::vector<T> full = contributions<T>(ranks.rank(), 0, shard * ranks.size());
  lane.collectives->reduce_scatter(lane.comm, view_of(full), {});
  lane.device->synchronize();
  const std::int64_t begin = ranks.rank() * shard;
  expect_each<T>(
      std::span(full).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(shard)),
      [&](std::int64_t i) { return ordered_sum<T>(ranks.size(), begin + i); },
      "reduce_scatter of shards of " + std::to_string(shard) + " " +
          std::string(name_of(kDTypeOf<T>)),
      ranks);
}

void reduce_scatter_adds_in_rank_order(Ranks& ranks) {
  for (const std::int64_t shard : {0, 1, 1023}) {
    check_reduce_scatter<float>(ranks, shard);
    check_reduce_scatter<double>(ranks, shard);
  }
  // More than a rank receives from another at once (a few MiB for all), and not a multiple of it.
  check_reduce_scatter<float>(ranks, 2'500'001 / ranks.size());
}

void all_reduce_adds_in_rank_order(Ranks& ranks) {
  for (const std::int64_t count : {1, 1023, 2'500'001}) {
    CommLane lane(ranks);
    std::vector<float> values = contributions<float>(ranks.rank(), 0, count);
    lane.collectives->all_reduce(lane.comm, view_of(values), {});
    lane.device->synchronize();
    expect_each<float>(
        values, [&](std::int64_t i) { return ordered_sum<float>(ranks.size(), i); }, "all_reduce",
        ranks);
  }
}

void all_reduce_sum_adds_in_rank_order(Ranks& ranks) {
  for (const std::int64_t count : {1, 5, 3001}) {
    std::vector<double> values = contributions<double>(ranks.rank(), 0, count);
    ranks.all_reduce_sum(values, Channel::kSubmit);
    expect_each<double>(
        values, [&](std::int64_t i) { return ordered_sum<double>(ranks.size(), i); },
        "all_reduce_sum", ranks);
  }
}

constexpr RanksCheck kRankOrderChecks[] = {
    {"reduce_scatter adds in rank order", reduce_scatter_adds_in_rank_order},
    {"all_reduce adds in rank order", all_reduce_adds_in_rank_order},
    {"all_reduce_sum adds in rank order", all_reduce_sum_adds_in_rank_order},
};

}  // namespace

std::span<const RanksCheck> rank_order_checks() { return kRankOrderChecks; }

}  // namespace strata
