// Checks numbers against the limits that the list of fields gives them.

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "strata/base/fields.h"

namespace strata {

namespace {

/// Returns the field's number, or nothing if it is absent.
std::optional<double> number_of(const Field& field) {
  const FieldValue value = field.get();
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* size = std::get_if<ByteSize>(&value)) return static_cast<double>(size->bytes);
  return std::nullopt;
}

bool within(const FieldLimits& limits, double number) {
  const bool enough = limits.above ? number > limits.least : number >= limits.least;
  return enough && number <= limits.most;
}

/// Returns a limit as people write it.
std::string text_of(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.15g", number);
  return text.data();
}

std::string complaint(const Field& field, const FieldLimits& limits) {
  std::string text;
  if (std::isfinite(limits.most)) {
    const bool integer = field.type == FieldType::kInteger;
    text = integer ? "must be from " + text_of(limits.least) + " to " + text_of(limits.most) +
                         ", not " + field_text(field)
                   : "must be in [" + text_of(limits.least) + ", " + text_of(limits.most) + "]";
  } else if (limits.above) {
    text = "must be above " + text_of(limits.least);
  } else {
    text = limits.least == 0 ? "must not be negative" : "must be at least " + text_of(limits.least);
  }
  return limits.remark.empty() ? text : text + "; " + limits.remark;
}

}  // namespace

void check_limits(const FieldList& fields, std::string_view prefix, ConfigProblems& problems) {
  for (const Field& field : fields.all()) {
    const std::optional<double> number = field.limits ? number_of(field) : std::nullopt;
    if (!number || within(*field.limits, *number)) continue;
    const bool missing = field.required && *number == 0;
    problems.add(std::string(prefix) + field.key,
                 missing ? "is required" : complaint(field, *field.limits));
  }
}

}  // namespace strata
