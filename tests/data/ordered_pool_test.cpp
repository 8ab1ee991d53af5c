// The pool that encodes documents: what becomes of it where the system refuses one of its threads.

#include "data/ordered_pool.h"

#include <cstddef>

#include "support/catch.h"
#include "support/limited_child.h"

namespace strata {
namespace {

TEST_CASE("a pool of which some threads are refused ends, and says so") {
  const auto nothing = [](int&) {};
  const auto no_work = [](int&, std::size_t) {};
  const test::Ended ended =
      test::with_few_threads([&] { const OrderedPool<int> pool(16, no_work, nothing); });
  if (ended.skipped) return;
  CHECK(ended.exit_code == 3);
  CHECK_THAT(ended.text, ContainsSubstring("cannot start the thread \"tokenize "));
}

}  // namespace
}  // namespace strata
