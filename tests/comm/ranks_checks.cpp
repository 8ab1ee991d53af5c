// Promises of the control plane.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/check_values.h"
#include "comm/checks.h"
#include "strata/comm/postbox.h"
#include "support/patience.h"

namespace strata {

namespace {

void all_reduce_sum_gives_every_rank_the_same_bits(Ranks& ranks) {
  for (const std::int64_t count : {0, 1, 5, 3001}) {
    std::vector<double> values = contributions<double>(ranks.rank(), 0, count);
    ranks.all_reduce_sum(values, Channel::kSubmit);
    expect_sums<double>(values, 0, "all_reduce_sum", ranks);
    const std::vector<std::byte> all =
        ranks.all_gather_host(std::as_bytes(std::span<const double>(values)), Channel::kSubmit);
    const auto bytes = static_cast<std::size_t>(count) * sizeof(double);
    for (std::size_t r = 0; r < static_cast<std::size_t>(ranks.size()); ++r) {
      expect(bytes == 0 || std::memcmp(all.data() + r * bytes, values.data(), bytes) == 0,
             "all_reduce_sum: other bits on rank " + std::to_string(r), ranks);
    }
    std::vector<double> again = contributions<double>(ranks.rank(), 0, count);
    ranks.all_reduce_sum(again, Channel::kHost);
    expect(again == values, "all_reduce_sum: other bits the second time", ranks);
  }
}

void broadcast_gives_everybody_the_bytes_of_the_root(Ranks& ranks) {
  for (int root = 0; root < ranks.size(); ++root) {
    for (const std::int64_t count : {1, 200'003}) {
      std::vector<std::byte> bytes = bytes_of(ranks.rank(), count);
      ranks.broadcast(bytes, root, Channel::kSubmit);
      expect_each<std::byte>(
          bytes, [&](std::int64_t i) { return byte_of(root, i); },
          "broadcast from " + std::to_string(root), ranks);
    }
  }
}

void all_gather_host_puts_bytes_by_rank(Ranks& ranks) {
  const std::array<std::byte, 3> own{static_cast<std::byte>(ranks.rank()), std::byte{42},
                                     static_cast<std::byte>(2 * ranks.rank())};
  const std::vector<std::byte> all = ranks.all_gather_host(own, Channel::kHost);
  expect(all.size() == 3 * static_cast<std::size_t>(ranks.size()), "all_gather_host: wrong size",
         ranks);
  for (int r = 0; r < ranks.size(); ++r) {
    const auto i = 3 * static_cast<std::size_t>(r);
    expect(all[i] == static_cast<std::byte>(r) && all[i + 1] == std::byte{42} &&
               all[i + 2] == static_cast<std::byte>(2 * r),
           "all_gather_host: wrong bytes of rank " + std::to_string(r), ranks);
  }
  expect(ranks.all_gather_host({}, Channel::kHost).empty(),
         "all_gather_host: nothing gave something", ranks);
}

void any_failed_is_true_everywhere_if_one_rank_failed(Ranks& ranks) {
  expect(!ranks.any_failed(false, Channel::kSubmit), "any_failed: nobody failed", ranks);
  for (int failing = 0; failing < ranks.size(); ++failing) {
    expect(ranks.any_failed(ranks.rank() == failing, Channel::kSubmit),
           "any_failed: rank " + std::to_string(failing) + " failed", ranks);
  }
}

void barriers_come_between_sums(Ranks& ranks) {
  for (int turn = 0; turn < 50; ++turn) ranks.barrier(Channel::kSubmit);
  std::array<double, 1> passed{1.0};
  ranks.all_reduce_sum(passed, Channel::kSubmit);
  expect(passed[0] == ranks.size(), "barriers and sums got mixed up", ranks);
}

/// Waits for a letter.
Letter next_letter(Postbox& postbox, Ranks& ranks) {
  std::optional<Letter> letter;
  const bool came = test::comes_true([&] {
    letter = postbox.receive();
    return letter.has_value();
  });
  expect(came, "postbox: a letter did not come", ranks);
  return letter.value_or(Letter{});
}

void letters_reach_every_other_rank(Ranks& ranks) {
  const std::unique_ptr<Postbox> postbox = ranks.make_postbox();
  for (const int turn : {1, 2, 3}) {
    LetterBytes own{};
    own.front() = static_cast<std::byte>(ranks.rank());
    own.back() = static_cast<std::byte>(turn);
    postbox->send(own);
    std::vector<bool> heard(static_cast<std::size_t>(ranks.size()));
    for (int i = 1; i < ranks.size(); ++i) {
      const Letter letter = next_letter(*postbox, ranks);
      expect(letter.bytes.front() == static_cast<std::byte>(letter.from) &&
                 letter.bytes.back() == static_cast<std::byte>(turn),
             "postbox: wrong bytes of rank " + std::to_string(letter.from), ranks);
      heard[static_cast<std::size_t>(letter.from)] = true;
    }
    heard[static_cast<std::size_t>(ranks.rank())] = true;
    expect(std::find(heard.begin(), heard.end(), false) == heard.end(),
           "postbox: a rank's letter came twice, and another's not", ranks);
    expect(!postbox->receive(), "postbox: a letter too many", ranks);
    ranks.barrier(Channel::kSubmit);
  }
}

void every_channel_answers(Ranks& ranks) {
  for (int i = 0; i < kChannelCount; ++i) {
    const auto channel = static_cast<Channel>(i);
    const std::string name = "channel " + std::to_string(i);
    ranks.barrier(channel);
    std::array<double, 1> sum{1.0 + i};
    ranks.all_reduce_sum(sum, channel);
    expect(sum[0] == (1.0 + i) * ranks.size(), name + ": wrong sum", ranks);
    std::vector<std::byte> bytes = bytes_of(ranks.rank(), 5);
    ranks.broadcast(bytes, ranks.size() - 1, channel);
    expect_each<std::byte>(
        bytes, [&](std::int64_t j) { return byte_of(ranks.size() - 1, j); }, name, ranks);
    expect(ranks.any_failed(ranks.rank() == 0, channel), name + ": rank 0 failed", ranks);
  }
}

void parts_have_the_ranks_that_asked_for_them(Ranks& ranks) {
  const int number = ranks.rank() % 3 == 0 ? 7 : 2;
  std::vector<int> members;
  for (int r = 0; r < ranks.size(); ++r) {
    if ((r % 3 == 0 ? 7 : 2) == number) members.push_back(r);
  }
  const std::unique_ptr<Ranks> part = ranks.split(number);
  expect(part->size() == std::ssize(members), "split: wrong size", ranks);
  expect(members[static_cast<std::size_t>(part->rank())] == ranks.rank(), "split: wrong rank",
         ranks);
  expect(part->host() == ranks.host(), "split: another host", ranks);
  for (int i = 0; i < kChannelCount; ++i) {
    std::array<double, 1> sum{1.0 + ranks.rank()};
    part->all_reduce_sum(sum, static_cast<Channel>(i));
    double wanted = 0;
    for (const int member : members) wanted += 1.0 + member;
    expect(sum[0] == wanted, "split: wrong sum", ranks);
  }
  const std::unique_ptr<Ranks> alone = part->split(part->rank());
  expect(alone->size() == 1 && alone->rank() == 0, "split: a part of a part", ranks);
  const std::unique_ptr<Ranks> again = ranks.split(number);
  expect(again->size() == part->size(), "split: another size the second time", ranks);
}

constexpr RanksCheck kRanksChecks[] = {
    {"all_reduce_sum gives every rank the same bits",
     all_reduce_sum_gives_every_rank_the_same_bits},
    {"broadcast gives everybody the bytes of the root",
     broadcast_gives_everybody_the_bytes_of_the_root},
    {"all_gather_host puts bytes by rank", all_gather_host_puts_bytes_by_rank},
    {"any_failed is true everywhere if one rank failed",
     any_failed_is_true_everywhere_if_one_rank_failed},
    {"barriers come between sums", barriers_come_between_sums},
    {"letters reach every other rank", letters_reach_every_other_rank},
    {"every channel answers", every_channel_answers},
    {"parts have the ranks that asked for them", parts_have_the_ranks_that_asked_for_them},
};

}  // namespace

std::span<const RanksCheck> ranks_checks() { return kRanksChecks; }

}  // namespace strata
