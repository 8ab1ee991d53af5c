// Reads the generation_config.json of a Hugging Face model. Keys of ways to generate that strata
// does not have are ignored: files are full of defaults of them.

#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/model/generation_defaults.h"

namespace strata {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson parse_object(std::string_view text, const std::string& source) {
  OrderedJson json;
  try {
    json = parse_json<OrderedJson>(text);
  } catch (const OrderedJson::exception& e) {
    throw ConfigError(source + ": not valid JSON: " + json_problem(e));
  }
  if (!json.is_object()) throw ConfigError(source + ": not a JSON object");
  return json;
}

/// The object in a file, or an empty one if there is no file.
class ObjectFile {
 public:
  explicit ObjectFile(const std::filesystem::path& file) : source_(file.string()) {
    if (!is_there(file)) return;
    json_ = parse_object(read_text_file(file, 16 * kMiB, Links::kOfModel), source_);
  }
  ObjectFile(std::string_view text, std::string source)
      : source_(std::move(source)), json_(parse_object(text, source_)) {}

  /// Returns the value at `key`, or null.
  [[nodiscard]] OrderedJson at(std::string_view key) const {
    const auto found = json_.find(key);
    return found == json_.end() ? OrderedJson() : *found;
  }
  [[noreturn]] void fail(std::string_view key, const OrderedJson& value, const char* wanted) const {
    throw ConfigError(source_ + ": " + std::string(key) + " is " + shown(value) + ", and " +
                      wanted + " is expected");
  }
  [[nodiscard]] std::optional<double> number(std::string_view key) const {
    const OrderedJson value = at(key);
    if (value.is_null()) return std::nullopt;
    if (!value.is_number()) fail(key, value, "a number");
    return value.get<double>();
  }
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key) const {
    const OrderedJson value = at(key);
    if (value.is_null()) return std::nullopt;
    if (!value.is_number_integer()) fail(key, value, "a whole number");
    return value.get<std::int64_t>();
  }
  [[nodiscard]] bool flag(std::string_view key) const {
    const OrderedJson value = at(key);
    if (value.is_null()) return false;
    if (!value.is_boolean()) fail(key, value, "true or false");
    return value.get<bool>();
  }
  /// Returns the ids of a key that holds one or a list of them.
  [[nodiscard]] std::vector<std::int32_t> ids(std::string_view key) const {
    const OrderedJson value = at(key);
    std::vector<std::int32_t> ids;
    const auto add = [&](const OrderedJson& id) {
      if (!id.is_number_integer() || id < 0 || id > (std::int64_t{1} << 31) - 1) {
        fail(key, value, "an id, or a list of them");
      }
      ids.push_back(id.get<std::int32_t>());
    };
    if (value.is_array()) {
      for (const OrderedJson& id : value) add(id);
    } else if (!value.is_null()) {
      add(value);
    }
    return ids;
  }

 private:
  std::string source_;
  OrderedJson json_ = OrderedJson::object();
};

}  // namespace

GenerationDefaults load_generation_defaults(const std::filesystem::path& folder) {
  const ObjectFile file(folder / "generation_config.json");
  GenerationDefaults defaults{.end_tokens = file.ids("eos_token_id"),
                              .do_sample = file.flag("do_sample"),
                              .temperature = file.number("temperature"),
                              .top_p = file.number("top_p"),
                              .min_p = file.number("min_p"),
                              .repetition_penalty = file.number("repetition_penalty"),
                              .top_k = file.integer("top_k"),
                              .max_new_tokens = file.integer("max_new_tokens")};
  if (defaults.end_tokens.empty()) {
    defaults.end_tokens = ObjectFile(folder / "config.json").ids("eos_token_id");
  }
  return defaults;
}

std::vector<std::int32_t> end_tokens_in(std::string_view text, const std::string& source) {
  return ObjectFile(text, source).ids("eos_token_id");
}

std::string generation_config_text(std::optional<std::string_view> imported,
                                   const std::string& source, std::optional<std::int32_t> begin,
                                   const std::vector<std::int32_t>& ends) {
  OrderedJson json = OrderedJson::object();
  if (imported) {
    json = parse_object(*imported, source);
  } else if (begin) {
    json["bos_token_id"] = *begin;
  }
  json["eos_token_id"] = ends.size() == 1 ? OrderedJson(ends.front()) : OrderedJson(ends);
  return json_text(json, 2) + '\n';
}

std::string config_text_with_ends(const std::string& text, std::optional<std::int32_t> begin,
                                  std::optional<std::int32_t> end) {
  if (!begin && !end) return text;
  OrderedJson json = parse_object(text, "config.json");
  const auto name = [&](const char* key, std::optional<std::int32_t> id) {
    if (id && (!json.contains(key) || json[key].is_null())) json[key] = *id;
  };
  name("bos_token_id", begin);
  name("eos_token_id", end);
  return json_text(json, 2) + '\n';
}

}  // namespace strata
