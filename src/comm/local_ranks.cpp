// Groups of ranks of which only one is in this process and the others, if there are any, exist on
// paper only. make_self_ranks and make_dry_ranks hand them out, for runs of one rank and for dry
// runs. No call waits for anybody, and nothing here knows of a connection.
#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "strata/comm/collectives.h"
#include "strata/comm/postbox.h"
#include "strata/comm/ranks.h"

namespace strata {

namespace {

/// Has nobody to write to.
class LocalPostbox final : public Postbox {
 public:
  void send(const LetterBytes&) override {}
  [[nodiscard]] std::optional<Letter> receive() override { return std::nullopt; }
};

/// The other ranks, if there are any, contribute zeros; so sums are what this rank has.
class LocalRanks final : public Ranks {
 public:
  LocalRanks(std::string_view name, int rank, int ranks) : name_(name), rank_(rank), size_(ranks) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string_view name() const override { return name_; }

  void barrier(Channel) override {}
  void all_reduce_sum(std::span<double>, Channel) override {}
  void broadcast(std::span<std::byte>, int, Channel) override {}
  [[nodiscard]] std::vector<std::byte> all_gather_host(std::span<const std::byte> bytes,
                                                       Channel) override {
    std::vector<std::byte> all(bytes.size() * static_cast<std::size_t>(size_));
    const Shards shards{.data = all.data(), .shard_bytes = bytes.size(), .ranks = size_};
    std::copy(bytes.begin(), bytes.end(), shards.at(rank_));
    return all;
  }
  [[nodiscard]] std::unique_ptr<Ranks> split(int) override {
    if (size_ > 1) throw std::logic_error("ranks on paper do not say which group they would pass");
    return std::make_unique<LocalRanks>(name_, 0, 1);
  }
  // This is not exit(): lanes may still run, and static destructors would pull the ground from
  // under them.
  [[noreturn]] void abort(int code) override { std::_Exit(code); }

  [[nodiscard]] std::unique_ptr<Collectives> make_host_collectives() override {
    throw std::logic_error("ranks \"" + std::string(name_) + "\" have no connection to move data");
  }
  [[nodiscard]] std::unique_ptr<Postbox> make_postbox() override {
    return std::make_unique<LocalPostbox>();
  }

 private:
  std::string_view name_;
  int rank_;
  int size_;
};

}  // namespace

std::unique_ptr<Ranks> make_self_ranks() { return std::make_unique<LocalRanks>("self", 0, 1); }

std::unique_ptr<Ranks> make_dry_ranks(int rank, int ranks) {
  return std::make_unique<LocalRanks>("dry", rank, ranks);
}

}  // namespace strata
