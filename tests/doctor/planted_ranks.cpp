// The defects of planted_ranks.h. The forgetful collectives go by way of the control plane, which
// is slow and simple.

#include "doctor/planted_ranks.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace strata::test {

namespace {

class ForgetfulCollectives final : public Collectives {
 public:
  explicit ForgetfulCollectives(Ranks& ranks)
      : Collectives(ranks.rank(), ranks.size()), group_(ranks) {}

 private:
  void enqueue_all_gather(Stream& comm, const Shards& full) override {
    comm.enqueue_host([this, full] {
      const std::vector<std::byte> all =
          group_.all_gather_host({full.at(rank()), full.shard_bytes}, Channel::kHost);
      std::ranges::copy(all, full.data);
    });
  }
  void enqueue_reduce_scatter(Stream& comm, const Shards& full) override {
    comm.enqueue_host([this, full] { add({full.data, full.all().bytes}); });
  }
  void enqueue_all_reduce(Stream& comm, const Shards& values) override {
    comm.enqueue_host([this, values] { add({values.data, values.shard_bytes}); });
  }

  /// Replaces f32 values by their sums over all ranks but the last.
  void add(std::span<std::byte> values) {
    const std::vector<std::byte> all = group_.all_gather_host(values, Channel::kHost);
    std::vector<float> sums(values.size() / sizeof(float));
    for (int rank = 0; rank + 1 < group_.size(); ++rank) {
      std::vector<float> theirs(sums.size());
      std::memcpy(theirs.data(), all.data() + static_cast<std::size_t>(rank) * values.size(),
                  values.size());
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += theirs[i];
    }
    std::memcpy(values.data(), sums.data(), values.size());
  }

  Ranks& group_;
};

}  // namespace

void WronglyClippingRanks::all_reduce_sum(std::span<double> values, Channel channel) {
  PassedOnRanks::all_reduce_sum(values, channel);
  if (channel == Channel::kHost) values[0] *= values[0];
}

std::unique_ptr<Collectives> ForgetfulRanks::make_host_collectives() {
  return std::make_unique<ForgetfulCollectives>(*this);
}

}  // namespace strata::test
