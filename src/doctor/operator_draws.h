// What the self-test of each operator consists of: a function that fills the operator with tensors
// of a trial and says how far each output may be off. They are declared from the list of all
// operators, so the program does not link before a new one has its own.
#pragma once

#include "doctor/operator_trial.h"
#include "strata/ops/operator_list.h"

namespace strata {

/// Operators that go over a vocabulary for each token are shown no more tokens: they take longest.
inline constexpr std::int64_t kVocabularyRows = 20;

/// Sets all members of an operator.
// NOLINTNEXTLINE(bugprone-macro-parentheses): the argument is a type
#define STRATA_DRAW(Operator) void draw(Operator& op, TrialTensors& t, const TrialShape& s);
STRATA_FOR_EACH_OPERATOR(STRATA_DRAW)
#undef STRATA_DRAW

}  // namespace strata
