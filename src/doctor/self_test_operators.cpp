// The self-test of the operators: every operator of the list, in f32 and bf16, against the plain
// f64 kernels of the cpu backend, twice.

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <string>
#include <vector>

#include "doctor/operator_draws.h"
#include "doctor/self_test_checks.h"
#include "strata/base/log.h"

namespace strata {

namespace {

constexpr std::array kTested{DType::kF32, DType::kBF16};

/// Odd sizes with gaps, and what the fast kernels take: heads of 64 and 128, multiples of 8. Each
/// comes in two flavours; three of a kind see every layout of a matrix product.
std::vector<TrialShape> trial_shapes() {
  const std::array<TrialShape, 3> shapes{{{.tokens = 7,
                                           .width = 33,
                                           .vocabulary = 63,
                                           .heads = 4,
                                           .kv_heads = 2,
                                           .head_dim = 8,
                                           .gap = 3},
                                          {.tokens = 74,
                                           .width = 264,
                                           .vocabulary = 518,
                                           .heads = 2,
                                           .kv_heads = 1,
                                           .head_dim = 64,
                                           .gap = 8},
                                          {.tokens = 130,
                                           .width = 96,
                                           .vocabulary = 2051,
                                           .heads = 4,
                                           .kv_heads = 2,
                                           .head_dim = 128,
                                           .gap = 0}}};
  std::vector<TrialShape> all;
  for (int flavour = 0; flavour < 6; ++flavour) {
    all.push_back(shapes[static_cast<std::size_t>(flavour % 3)]);
    all.back().flavour = flavour;
  }
  return all;
}

/// What came of the trials of one operator.
struct TrialResult {
  std::string name;
  double worst = 0;     ///< largest error as a share of what was allowed
  std::string failure;  ///< the first one; empty if there was none
};

std::string text_of(const TrialShape& s, DType tested) {
  return fmt::format("{}, {} tokens, width {}, vocabulary {}, {} heads of {}, case {}",
                     name_of(tested), s.tokens, s.width, s.vocabulary, s.heads, s.head_dim,
                     s.flavour);
}

struct Comparison {
  double worst = 0;     ///< largest error as a share of what is allowed
  std::string failure;  ///< the first value that is off by more; empty if none is
};

/// Compares one output with the reference.
Comparison compare(const TrialTensors::Output& output, DType tested, const std::vector<double>& got,
                   const std::vector<double>& want) {
  Comparison result;
  double largest = 0;
  for (const double value : want) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  const Allowed& allowed = output.allowed;
  const DType own = output.low ? DType::kF32 : output.view.dtype;
  const double shared = (allowed.accumulator * unit_roundoff(accumulator_of(tested)) +
                         allowed.intermediate * unit_roundoff(tested)) *
                        largest;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    const double bound =
        allowed.last * unit_roundoff(own) * (std::abs(want[i]) + shared) + shared + allowed.steps;
    const double share = std::abs(got[i] - want[i]) / bound;
    if (share <= 1) {
      if (allowed.steps == 0) result.worst = std::max(result.worst, share);
    } else if (result.failure.empty()) {
      result.failure = fmt::format("{}[{}] is {:.9g}, expected {:.9g} within {:.2g}", output.name,
                                   i, got[i], want[i], bound);
    }
  }
  return result;
}

template <Op O>
class OperatorTest {
 public:
  OperatorTest(TrialMachine& subject, TrialMachine& reference)
      : subject_(subject), reference_(reference) {}

  [[nodiscard]] TrialResult run() {
    result_.name = std::string(O::kName);
    for (const DType tested : kTested) {
      for (const TrialShape& shape : trial_shapes()) {
        const std::string failure = failure_of(tested, shape);
        if (failure.empty()) continue;
        result_.failure = failure + " (" + text_of(shape, tested) + ")";
        return result_;
      }
    }
    return result_;
  }

 private:
  [[nodiscard]] std::string failure_of(DType tested, const TrialShape& shape) {
    try {
      return compare_trials(tested, shape);
    } catch (const std::exception& error) {
      return std::string("ended with an error: ") + error.what();
    }
  }

  [[nodiscard]] std::string compare_trials(DType tested, const TrialShape& shape) {
    TrialTensors tensors(subject_.base(), tested, tested);
    TrialTensors expected(reference_.base(), tested, DType::kF64);
    O op;
    O reference;
    draw(op, tensors, shape);
    draw(reference, expected, shape);
    const std::vector<std::byte> wanted = reference_.run(expected.image(), reference);
    const std::vector<std::byte> first = subject_.run(tensors.image(), op);
    for (std::size_t i = 0; i < tensors.outputs().size(); ++i) {
      const TrialTensors::Output& output = tensors.outputs()[i];
      const Comparison found = compare(output, tested, tensors.values_of(output, first),
                                       expected.values_of(expected.outputs().at(i), wanted));
      if (!found.failure.empty()) return found.failure;
      result_.worst = std::max(result_.worst, found.worst);
    }
    if (tensors.stray_byte(first) >= 0) return "wrote beside its outputs";
    if (subject_.run(tensors.image(), op) != first) {
      return "wrote other bits when it ran again on the same bytes";
    }
    return {};
  }

  TrialMachine& subject_;
  TrialMachine& reference_;
  TrialResult result_;
};

Finding finding_of(const TrialResult& result, BackendKind backend) {
  return {.name = "operator " + result.name,
          .verdict = Verdict::kBad,
          .found = result.failure,
          .remedy = remedy_of_wrong_numbers(backend, "run this again")};
}

}  // namespace

std::vector<Finding> check_operators(const SelfTestOptions& options) {
  TrialMachine subject(options.make_backend(options.backend, backend_options(options)));
  BackendOptions plain;
  plain.threads = 1;
  plain.device.execution = Execution::kEager;
  TrialMachine reference(strata::make_backend(BackendKind::kCpu, plain));
  std::vector<TrialResult> results;
#define STRATA_TRY(Operator) results.push_back(OperatorTest<Operator>(subject, reference).run());
  STRATA_FOR_EACH_OPERATOR(STRATA_TRY)
#undef STRATA_TRY
  std::vector<Finding> findings;
  const TrialResult* worst = &results.front();
  for (const TrialResult& result : results) {
    if (!result.failure.empty()) findings.push_back(finding_of(result, options.backend));
    if (result.worst > worst->worst) worst = &result;
  }
  if (!findings.empty()) return findings;
  return {{.name = "operators",
           .found = fmt::format("{} in f32 and bf16 as plain f64 ones, twice the same bits; "
                                "largest error {:.0f} % of what rounding may make ({})",
                                results.size(), 100 * worst->worst, worst->name)}};
}

}  // namespace strata
