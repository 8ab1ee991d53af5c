// Goes through the operands of all layers in the order of their rows.

#include "train/fp8_watch.h"

#include <optional>
#include <string_view>

#include "strata/base/log.h"

namespace strata {

namespace {

/// An operand that flushes much.
struct Outlier {
  std::int64_t layer = 0;
  LinearId id{};
  Fp8Operand operand{};
  Fp8Loss loss;
};

bool is_of_columns(Fp8Operand operand) {
  return operand == Fp8Operand::kXColumns || operand == Fp8Operand::kDyColumns;
}

std::string text_of(std::int64_t step, const Outlier& worst, int others) {
  const std::string_view linear = name_of(worst.id);
  return fmt::format(
      "step {}: rounding to e4m3 makes {:.1f} % of {} of layers.{}.{} zero, beside numbers up to "
      "{:.3g}{}; name \"{}\" or \"layers.{}\" in run.products_bf16 if the loss suffers",
      step + 1, 100 * worst.loss.flushed, enum_name(kFp8OperandNames, worst.operand), worst.layer,
      linear, worst.loss.amax,
      others > 0 ? fmt::format(", and more than {:.0f} % of {} other operands, which metrics.jsonl "
                               "has",
                               100 * Fp8Watch::kMostFlushed, others)
                 : "",
      linear, worst.layer);
}

}  // namespace

std::string Fp8Watch::look(const Fp8StepCounts& counted) {
  std::optional<Outlier> worst;
  int count = 0;
  for (std::int64_t layer = 0; layer < counted.layers(); ++layer) {
    for (const auto& linear : kLinearNames) {
      for (const auto& operand : kFp8OperandNames) {
        if (is_of_columns(operand.value)) continue;
        const std::optional<Fp8Loss> loss = fp8_loss(counted, layer, linear.value, operand.value);
        if (!loss || loss->flushed <= kMostFlushed) continue;
        const auto [told, is_new] = told_.insert({layer, static_cast<std::int64_t>(linear.value),
                                                  static_cast<std::int64_t>(operand.value)});
        if (!is_new) continue;
        ++count;
        if (worst && worst->loss.flushed >= loss->flushed) continue;
        worst = {.layer = layer, .id = linear.value, .operand = operand.value, .loss = *loss};
      }
    }
  }
  return worst ? text_of(counted.step, *worst, count - 1) : "";
}

}  // namespace strata
