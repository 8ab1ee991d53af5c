// Reads files of JSON objects, one a line, that may be damaged or still growing.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

/// What became of the lines of a file.
struct ReadLines {
  std::int64_t lines = 0;  ///< that were whole
  std::int64_t damaged_count = 0;
  std::vector<std::int64_t> damaged{};  ///< the numbers of the first few, from 1
  bool torn = false;  ///< the last line ends in the middle: a writer is at work, or was killed
};

/// Calls `take` for each line that is a JSON object. It returns whether the object is one that it
/// understands; if not, the line counts as damaged. Throws IoError if the file cannot be read.
ReadLines read_json_lines(const std::filesystem::path& file,
                          const std::function<bool(const nlohmann::json&)>& take);

/// Returns what a key holds if it is a number, else NaN.
double number_of(const nlohmann::json& object, std::string_view key);
std::optional<double> known_number(const nlohmann::json& object, std::string_view key);
/// Returns what a key holds if it is a whole number.
std::optional<std::int64_t> integer_of(const nlohmann::json& object, std::string_view key);
/// The most that a step or a count of a run may be: scripts tell no greater ones apart, and sums of
/// them would overflow.
inline constexpr std::int64_t kMostCount = std::int64_t{1} << 53;
/// Returns the step of a line, or nothing if it has none that a run can reach.
std::optional<std::int64_t> step_of(const nlohmann::json& object);
/// Returns what a key holds if it is a text, else nothing.
std::string text_of(const nlohmann::json& object, std::string_view key);
/// Returns whether a key holds true, or `otherwise` if it holds neither true nor false.
bool truth_of(const nlohmann::json& object, std::string_view key, bool otherwise);

}  // namespace strata
