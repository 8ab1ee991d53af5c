// Reads the lines of a file as JSON. A line is parsed when it is whole, and read in large pieces:
// runs write a hundred thousand lines.

#include "report/json_lines.h"

#include <cstddef>
#include <limits>
#include <span>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/json.h"

namespace strata {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::size_t kMostDamagedNamed = 5;
/// No line that strata writes is longer; what is, is no line.
constexpr std::size_t kLongestLine = std::size_t{1} << 26;

const Json* find(const Json& object, std::string_view key) {
  const auto at = object.find(key);
  return at == object.end() ? nullptr : &*at;
}

/// Returns what a line holds, or null if it is damaged: no JSON, or nested too deeply.
Json parsed(std::string_view text) {
  try {
    return parse_json<Json>(text);
  } catch (const Json::exception&) {
  } catch (const ConfigError&) {
  }
  return nullptr;
}

class Lines {
 public:
  explicit Lines(const std::function<bool(const Json&)>& take) : take_(take) {}

  void line(std::string_view text) {
    ++read_.lines;
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) return;
    const Json json = parsed(text);
    if (json.is_object() && take_(json)) return;
    if (read_.damaged.size() < kMostDamagedNamed) read_.damaged.push_back(read_.lines);
    ++read_.damaged_count;
  }
  /// A last line without its end counts if it is whole all the same.
  void last(std::string_view text) {
    if (text.empty()) return;
    const Json json = parsed(text);
    if (json.is_object() && take_(json)) {
      ++read_.lines;
    } else {
      read_.torn = true;
    }
  }
  [[nodiscard]] const ReadLines& read() const { return read_; }

 private:
  const std::function<bool(const Json&)>& take_;
  ReadLines read_;
};

}  // namespace

ReadLines read_json_lines(const std::filesystem::path& path,
                          const std::function<bool(const Json&)>& take) {
  const InputFile file(path, Links::kRefuse);
  Lines lines(take);
  std::string text;  // what is read and not yet a whole line
  for (std::uint64_t at = 0;;) {
    const std::size_t before = text.size();
    text.resize(before + kPiece);
    const std::size_t count =
        file.read_some(at, std::as_writable_bytes(std::span(text).subspan(before)));
    at += count;
    text.resize(before + count);
    if (count == 0) break;
    std::size_t begin = 0;
    for (std::size_t end = text.find('\n', before); end != std::string::npos;
         end = text.find('\n', begin)) {
      lines.line(std::string_view(text).substr(begin, end - begin));
      begin = end + 1;
    }
    text.erase(0, begin);
    if (text.size() > kLongestLine) break;
  }
  lines.last(text);
  return lines.read();
}

double number_of(const Json& object, std::string_view key) {
  return known_number(object, key).value_or(std::numeric_limits<double>::quiet_NaN());
}

std::optional<double> known_number(const Json& object, std::string_view key) {
  const Json* value = find(object, key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->get<double>();
}

std::optional<std::int64_t> integer_of(const Json& object, std::string_view key) {
  const Json* value = find(object, key);
  if (value == nullptr || !value->is_number_integer()) return std::nullopt;
  return value->get<std::int64_t>();
}

std::optional<std::int64_t> step_of(const Json& object) {
  const std::optional<std::int64_t> step = integer_of(object, "step");
  return step && *step >= 0 && *step <= kMostCount ? step : std::nullopt;
}

std::string text_of(const Json& object, std::string_view key) {
  const Json* value = find(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

bool truth_of(const Json& object, std::string_view key, bool otherwise) {
  const Json* value = find(object, key);
  return value != nullptr && value->is_boolean() ? value->get<bool>() : otherwise;
}

}  // namespace strata
