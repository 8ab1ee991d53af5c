// Tests which tokens windows score, by counting them one by one.

#include "strata/complete/scored_windows.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "support/catch.h"

namespace strata::test {
namespace {

/// Tokens that are their own places, with documents that end before some of them.
class Numbers final : public TokenSource {
 public:
  explicit Numbers(std::int64_t size, std::vector<std::int64_t> ends = {})
      : size_(size), ends_(std::move(ends)) {}
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] std::int64_t vocabulary() const override { return 0; }
  [[nodiscard]] std::uint64_t tokenizer_hash() const override { return 0; }
  void read(std::int64_t begin, std::span<std::int32_t> out) const override {
    check_range(*this, begin, std::ssize(out));
    for (std::int32_t& id : out) id = static_cast<std::int32_t>(begin++);
  }
  void document_ends_in(std::int64_t begin, std::int64_t end,
                        std::vector<std::int64_t>& ends) const override {
    std::ranges::copy_if(ends_, std::back_inserter(ends),
                         [&](std::int64_t at) { return begin < at && at <= end; });
  }

 private:
  std::string name_ = "numbers";
  std::int64_t size_;
  std::vector<std::int64_t> ends_;
};

/// A token that is scored, by its place and that of the first token which it is scored after.
using Scored = std::pair<std::int32_t, std::int32_t>;

std::vector<Scored> scored_by(WindowReader& reader) {
  std::vector<Scored> all;
  while (const auto window = reader.next()) {
    const auto& [ids, from] = window->request;
    CHECK(std::ssize(ids) <= reader.context());
    REQUIRE(window->loss.size() == ids.size() - from);
    for (std::size_t i = from; i < ids.size(); ++i) all.emplace_back(ids[i], ids.front());
  }
  return all;
}

std::string window_complaint(const TokenSource& tokens, const WindowOptions& options) {
  try {
    (void)cut_windows(tokens, options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("windows score each token but the first once, after as many as the cut promises") {
  for (std::int64_t size = 2; size < 25; ++size) {
    for (std::int64_t context = 2; context < 12; ++context) {
      for (std::int64_t stride = 1; stride < context; ++stride) {
        const Numbers tokens(size);
        const OverlappingWindows::Cut cut =
            cut_windows(tokens, {.context = context, .stride = stride, .usual_context = 2});
        OverlappingWindows reader(tokens, size, cut);
        const std::vector<Scored> scored = scored_by(reader);
        INFO(size << " tokens, windows of " << context << " that begin " << stride << " apart");
        REQUIRE(std::ssize(scored) == size - 1);
        for (std::int64_t i = 0; i + 1 < size; ++i) {
          const auto [token, first] = scored[static_cast<std::size_t>(i)];
          CHECK(token == i + 1);
          CHECK(token - first >= std::min(i + 1, cut.context - cut.stride));
        }
      }
    }
  }
}

TEST_CASE("windows that could score nothing are refused by the option that says so") {
  const Numbers tokens(9);
  CHECK(window_complaint(tokens, {.usual_context = 4}).empty());
  CHECK_THAT(window_complaint(tokens, {.context = 1, .usual_context = 4}),
             ContainsSubstring("--context must be at least 2"));
  CHECK_THAT(window_complaint(tokens, {.context = 3, .stride = 3, .usual_context = 4}),
             ContainsSubstring("--stride 3 must be less than the tokens of a window, 3"));
  CHECK_THAT(window_complaint(Numbers(1), {.usual_context = 4}),
             ContainsSubstring("numbers: has less than two tokens"));
}

TEST_CASE("rows of a validation score what follows within a document, and nothing beyond rows") {
  const std::vector<std::int64_t> ends{3, 4, 10};
  const Numbers tokens(14, ends);
  for (const bool mask : {false, true}) {
    ValidationRows reader(tokens, 14, {.row_tokens = 6, .document_mask = mask});
    CHECK(reader.count() == 2);
    std::vector<Scored> expected;
    for (std::int32_t token = 1; token <= 12; ++token) {
      std::int32_t first = (token - 1) / 6 * 6;
      const bool begins = std::ranges::count(ends, token) > 0;
      if (mask && begins) continue;
      for (const std::int64_t end : ends) {
        if (mask && end < token) first = std::max(first, static_cast<std::int32_t>(end));
      }
      expected.emplace_back(token, first);
    }
    CHECK(scored_by(reader) == expected);
  }
  CHECK_THROWS_AS(ValidationRows(tokens, 14, {.row_tokens = 14, .document_mask = false}),
                  ConfigError);
}

TEST_CASE("an id that is none of the model's is refused with its place") {
  const Numbers tokens(9);
  OverlappingWindows reader(tokens, 5, {.context = 9, .stride = 8});
  CHECK_THROWS_WITH(reader.next(), ContainsSubstring("numbers: token 5 is 5") &&
                                       ContainsSubstring("the model's vocabulary is 5"));
}

}  // namespace strata::test
