// Groups of ranks with a defect in what they add up.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include "strata/comm/collectives.h"
#include "strata/comm/postbox.h"
#include "strata/comm/ranks.h"

namespace strata::test {

/// Ranks that hand everything on to others.
class PassedOnRanks : public Ranks {
 public:
  explicit PassedOnRanks(Ranks& ranks) : ranks_(ranks) {}

  [[nodiscard]] int rank() const override { return ranks_.rank(); }
  [[nodiscard]] int size() const override { return ranks_.size(); }
  [[nodiscard]] std::string_view name() const override { return ranks_.name(); }
  [[nodiscard]] std::string host() const override { return ranks_.host(); }
  void barrier(Channel channel) override { ranks_.barrier(channel); }
  void all_reduce_sum(std::span<double> values, Channel channel) override {
    ranks_.all_reduce_sum(values, channel);
  }
  void broadcast(std::span<std::byte> bytes, int root, Channel channel) override {
    ranks_.broadcast(bytes, root, channel);
  }
  [[nodiscard]] std::vector<std::byte> all_gather_host(std::span<const std::byte> bytes,
                                                       Channel channel) override {
    return ranks_.all_gather_host(bytes, channel);
  }
  [[nodiscard]] std::unique_ptr<Ranks> split(int group) override { return ranks_.split(group); }
  [[noreturn]] void abort(int code) override {
    ranks_.abort(code);
    std::terminate();  // not reached
  }
  [[nodiscard]] std::unique_ptr<Collectives> make_host_collectives() override {
    return ranks_.make_host_collectives();
  }
  [[nodiscard]] std::unique_ptr<Postbox> make_postbox() override { return ranks_.make_postbox(); }

 private:
  Ranks& ranks_;
};

/// Ranks of which the optimizer learns the square of the gradient norm, so that it clips by
/// clip / norm^2.
class WronglyClippingRanks final : public PassedOnRanks {
 public:
  using PassedOnRanks::PassedOnRanks;
  void all_reduce_sum(std::span<double> values, Channel channel) override;
};

/// Ranks whose collectives on the device forget the last rank when they add.
class ForgetfulRanks final : public PassedOnRanks {
 public:
  using PassedOnRanks::PassedOnRanks;
  [[nodiscard]] std::unique_ptr<Collectives> make_host_collectives() override;
};

}  // namespace strata::test
