// This file declares one list of checks that runs every operator, at the shapes that it is given,
// on any backend. The tests that repeat operators on CUDA, those for compute-sanitizer and the
// doctor's self-test take it, and the test of the list of operators fails if an operator is not in
// it. The checks themselves are those of checks.h.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/op_checks/checks.h"

namespace strata {

/// The names of all operators, each of which the list runs.
inline constexpr auto kOperatorNames = std::to_array<std::string_view>({
#define STRATA_NAME(Operator) Operator::kName,
    STRATA_FOR_EACH_OPERATOR(STRATA_NAME)
#undef STRATA_NAME
});

struct OpCheck {
  std::string name;  ///< of the operator and the dtype, for messages
  std::function<void(OpRunner&)> run;
};

/// The shapes of one list: rows of tokens, runs of elements, products, fused ones, rotated heads,
/// attention, and that of single queries (decode_cases, fused_attend_cases).
struct CheckShapes {
  std::vector<RowsCase> rows;
  std::vector<RowsCase> vocabularies;
  std::vector<std::int64_t> runs;
  std::vector<MatmulCase> products;
  std::vector<FusedCase> fused;
  std::vector<RopeCase> heads;
  std::vector<AttentionCase> attention;
  std::vector<AttentionCase> decode;
  std::vector<AttentionCase> fused_attend;
};

/// Returns every path of every kernel that depends on alignment, width or length, as small as it
/// comes. `kind` is the backend that will run them.
[[nodiscard]] CheckShapes smallest_shapes(BackendKind kind);
/// Returns shapes as models have them, of which the naive references take seconds.
[[nodiscard]] CheckShapes model_shapes();

/// Returns the checks of every operator at these shapes, in f32 and bf16. `kind` is the backend
/// that will run them, cpu or cuda: they round attention's intermediate results differently.
/// Attention's backward runs without dq_sum, so that all operators must repeat their results.
[[nodiscard]] std::vector<OpCheck> op_checks(const CheckShapes& shapes, BackendKind kind);

}  // namespace strata
