// The self-test of the operators: the checks of every operator (strata/op_checks), in f32 and bf16,
// at a few shapes, each run twice.

#include <exception>
#include <map>
#include <string>
#include <vector>

#include "doctor/self_test_checks.h"
#include "strata/base/log.h"
#include "strata/op_checks/check_list.h"

namespace strata {

namespace {

/// Two documents and an unused entry, whose gradients are turned back.
AttentionCase documents(std::int64_t head_dim, std::int64_t window) {
  return {.name = "two documents",
          .queries = 74,
          .keys = 74,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = head_dim,
          .segments = {{0, 0, 24, 24, 0}, {24, 24, 50, 50, 0}, {0, 0, 0, 0, 0}},
          .turned = true,
          .window = window};
}

/// Queries that see one key, fewer than a part has, and more.
AttentionCase single_queries(std::int64_t head_dim, std::int64_t window) {
  return {.name = "single queries",
          .queries = 3,
          .keys = 400,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = head_dim,
          .segments = {{0, 2, 1, 1, 0}, {1, 5, 1, 90, 89}, {2, 100, 1, 280, 279}},
          .parts = 2,
          .window = window};
}

/// Odd sizes with gaps, and what the fast kernels take: heads of 64 and 128, multiples of 8.
CheckShapes shapes_of_self_test() {
  const std::vector<AttentionCase> single{single_queries(8, 0), single_queries(64, 70),
                                          single_queries(128, 0)};
  return {.rows = {{7, 33, 3}, {74, 264, 8}, {130, 96}},
          .vocabularies = {{7, 63, 3}, {20, 518, 8}, {20, 2051}},
          .runs = {232, 12481, 19537},
          .products = {{7, 33, 33, 3}, {74, 264, 128, 8}, {130, 96, 513}},
          .fused = {{4, 66, 32, 3, FusedBefore::kResidualNorm, FusedAfter::kNothing},
                    {3, 66, 32, 3, FusedBefore::kNothing, FusedAfter::kGate},
                    {4, 528, 128, 8, FusedBefore::kResidualNorm, FusedAfter::kGate},
                    {2, 528, 128, 8, FusedBefore::kNothing, FusedAfter::kNothing},
                    {4, 192, 512, 0, FusedBefore::kNorm, FusedAfter::kResidual},
                    {1, 192, 512, 0, FusedBefore::kNothing, FusedAfter::kResidual}},
          .heads = {{7, 4, 8, 24}, {74, 2, 64, 64}, {130, 4, 128, 0}},
          .attention = {causal_case(1, 7, 4, 2, 8), documents(8, 19), causal_case(2, 37, 2, 1, 64),
                        documents(64, 0), causal_case(2, 65, 4, 2, 128), documents(128, 33)},
          .decode = single,
          .fused_attend = single};
}

/// Returns what the check found wrong, or an empty text.
std::string failure_of(const OpCheck& check, OpRunner& runner) {
  try {
    check.run(runner);
  } catch (const CheckFailure& failure) {
    return failure.what();
  } catch (const std::exception& error) {
    return std::string("ended with an error: ") + error.what() + " (" + check.name + ")";
  }
  return {};
}

}  // namespace

std::vector<Finding> check_operators(const SelfTestOptions& options) {
  Backend backend = options.make_backend(options.backend, backend_options(options));
  OpRunner runner(backend, 2);
  std::map<std::string, std::string> failures;  // the first of each operator
  for (const OpCheck& check : op_checks(shapes_of_self_test(), options.backend)) {
    const std::string failure = failure_of(check, runner);
    if (!failure.empty()) failures.emplace(runner.last_operator(), failure);
  }
  std::vector<Finding> findings;
  for (const auto& [name, failure] : failures) {
    findings.push_back({.name = "operator " + name,
                        .verdict = Verdict::kBad,
                        .found = failure,
                        .remedy = remedy_of_wrong_numbers(options.backend, "run this again")});
  }
  if (!findings.empty()) return findings;
  const OpRunner::Nearest& nearest = runner.nearest();
  return {{.name = "operators",
           .found = fmt::format("{} in f32 and bf16 as their formulas in f64, twice the same bits; "
                                "largest error {:.0f} % of what rounding may make ({})",
                                runner.names().size(), 100 * nearest.share, nearest.name)}};
}

}  // namespace strata
