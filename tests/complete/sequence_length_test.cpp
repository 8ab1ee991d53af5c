// Tests what is said about sequences that are too long.

#include "strata/complete/sequence_length.h"

#include "support/catch.h"

namespace strata::test {

TEST_CASE("a sequence that has as many tokens as it may is not too long") {
  CHECK(too_long({.tokens = 9, .to_follow = 7, .most = 16}, "shorten it") == "");
  CHECK(too_long({.tokens = 16, .most = 16}, "shorten it") == "");
}

TEST_CASE("a sequence that is too long is told by its numbers, what limits it and a remedy") {
  CHECK(
      too_long({.tokens = 1009, .to_follow = 8, .most = 16, .limit = "--context"}, "shorten it") ==
      "has 1,009 tokens and up to 8 are to follow, but a sequence may have 16 (--context); "
      "shorten it");
  CHECK(too_long({.tokens = 17, .most = 16}, "raise --context") ==
        "has 17 tokens, and a sequence may have 16; raise --context");
  CHECK(too_few_positions(40, 32, "lower --context") ==
        "a sequence would have 40 tokens, and the model has positions for 32 "
        "(max_position_embeddings); lower --context");
  CHECK_THAT(too_few_positions(40, 32, "lower --context", "another"),
             ContainsSubstring("positions for 32 (another); lower --context"));
}

}  // namespace strata::test
