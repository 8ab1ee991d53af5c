// The checks read numbers as the parser does that converts them afterwards, by strtoll and strtod,
// but for what these report as out of range.

#include "command_line/number_range.h"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/config/size_rules.h"

namespace strata {

namespace {

CLI::Validator checked_by(const std::function<std::string(const std::string&)>& problem) {
  return CLI::Validator([problem](const std::string& text) { return problem(text); }, "");
}

/// Returns the number that is all of `text`, or nothing. `convert` is of the family of strtol.
template <class Convert>
auto number_in(const std::string& text,
               const Convert& convert) -> std::optional<decltype(convert("", nullptr))> {
  char* end = nullptr;
  errno = 0;
  const auto value = convert(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size() || errno == ERANGE) return std::nullopt;
  return value;
}

std::optional<double> double_in(const std::string& text) { return number_in(text, std::strtod); }

}  // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return checked_by([least, most](const std::string& text) -> std::string {
    constexpr int kAnyBase = 0;
    const auto value = number_in(
        text, [](const char* begin, char** end) { return std::strtoll(begin, end, kAnyBase); });
    if (value && *value >= least && *value <= most) return {};
    return "must be a whole number from " + format_count(least) + " to " + format_count(most) +
           ", not " + printable_name(shortened(text));
  });
}

CLI::Validator number(double least, double most) {
  return checked_by([least, most](const std::string& text) -> std::string {
    const std::optional<double> value = double_in(text);
    if (value && *value >= least && *value <= most) return {};
    return fmt::format("must be a number from {} to {}, not {}", least, most,
                       printable_name(shortened(text)));
  });
}

CLI::Validator sampling_number(double Sampling::*member) {
  return checked_by([member](const std::string& text) -> std::string {
    Sampling sampling;
    const std::optional<double> value = double_in(text);
    if (!value) return "must be a number, not " + printable_name(shortened(text));
    sampling.*member = *value;
    return sampling.problem();
  });
}

CLI::Validator size_in_bytes() {
  return checked_by([](const std::string& text) -> std::string {
    try {
      const std::size_t bytes = parse_bytes(text);
      return bytes > 0 ? size_problem(bytes) : "must be above 0";
    } catch (const ConfigError& error) {
      return error.what();
    }
  });
}

}  // namespace strata
