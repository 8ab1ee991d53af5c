// Reads and writes PEFT's adapter_config.json. Keys that are not written have the values in PEFT
// that say what strata does. Keys that are read and not known say something that strata does not do
// unless they are null, false or empty: PEFT gets more of them with each version.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/base/text.h"
#include "strata/model/peft_config.h"

namespace strata {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kWeight = ".weight";

/// Returns a number as PEFT writes it: a whole one without a fraction.
OrderedJson number(double value) {
  constexpr double kExact = 9007199254740992;  // 2^53
  if (value == std::floor(value) && std::abs(value) < kExact) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

/// Returns entries such as "down_proj=16" as an object. Of one name the first entry counts.
OrderedJson pattern(const std::vector<std::string>& entries) {
  OrderedJson object = OrderedJson::object();
  for (const std::string& entry : entries) {
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    double value = 0;
    std::from_chars(entry.data() + equals + 1, entry.data() + entry.size(), value);
    if (!object.contains(name)) object[name] = number(value);
  }
  return object;
}

/// Returns the last names of the modules that have an adapter in some layer, each once.
std::vector<std::string> adapted_names(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (int layer = 0; layer < spec.layers(); ++layer) {
    for (const Linear& linear : spec.layer(layer).linears) {
      for (const Adapter& adapter : linear.adapters) {
        const std::string& source = linear.sources.at(adapter.source).name;
        const std::string module = source.substr(0, source.size() - kWeight.size());
        const std::string name = module.substr(module.rfind('.') + 1);
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      }
    }
  }
  return names;
}

/// Returns the names of the modules that are trained whole. That of the norm is the full one, since
/// PEFT takes all modules that end like a name.
std::vector<std::string> whole_names(const ModelSpec& spec) {
  std::vector<std::string> names;
  if (spec.whole.embedding) names.emplace_back("embed_tokens");
  if (spec.whole.projection) names.emplace_back("lm_head");
  if (spec.whole.final_norm) {
    names.push_back(spec.final_norm.substr(0, spec.final_norm.size() - kWeight.size()));
  }
  return names;
}

/// Keys that say nothing of what the adapters compute, or that are read for themselves.
constexpr std::string_view kOtherKeys[] = {
    "alpha_pattern",  "auto_mapping",      "base_model_name_or_path", "bias",
    "inference_mode", "init_lora_weights", "layers_pattern",          "layers_to_transform",
    "lora_alpha",     "lora_dropout",      "megatron_core",           "modules_to_save",
    "peft_type",      "peft_version",      "qalora_group_size",       "r",
    "rank_pattern",   "revision",          "runtime_config",          "target_modules",
    "task_type",      "use_rslora",        "ensure_weight_tying",     "loftq_config"};

/// Ways to begin that leave the weights of the model as they are.
constexpr std::string_view kPlainBeginnings[] = {"gaussian", "orthogonal", "eva"};

/// Takes the keys of an adapter_config.json, and collects what is wrong with them.
class PeftReader {
 public:
  PeftReader(const OrderedJson& json, ConfigProblems& problems)
      : json_(json), problems_(problems) {}

  AdapterConfig read() {
    check_kind();
    AdapterConfig adapter;
    const double rank = number_at("r", kUsual, kLeastRank, kMostRank);
    if (rank != std::floor(rank)) {
      problems_.add("r", "must be a whole number, found " + shown(at("r")));
    }
    adapter.rank = static_cast<std::int64_t>(rank);
    adapter.alpha = number_at("lora_alpha", kUsual, kLeastAlpha, kMostAlpha);
    adapter.rslora = at("use_rslora") == true;
    adapter.targets = targets();
    adapter.rank_pattern = pattern_at("rank_pattern");
    adapter.alpha_pattern = pattern_at("alpha_pattern");
    adapter.layers = layers();
    adapter.modules_to_save = modules_to_save();
    adapter.ensures_tying = at("ensure_weight_tying") == true;
    adapter.dropout = number_at("lora_dropout", 0, 0, 1);
    return adapter;
  }

 private:
  static constexpr double kUsual = 8;  // of PEFT, for both rank and alpha
  static constexpr double kLeastRank = 1;
  static constexpr double kMostRank = 65536;
  static constexpr double kLeastAlpha = 1e-6;
  static constexpr double kMostAlpha = 1e6;

  [[nodiscard]] OrderedJson at(std::string_view key) const {
    const auto found = json_.find(key);
    return found == json_.end() ? OrderedJson() : *found;
  }

  /// Refuses what is no LoRA as strata computes it.
  void check_kind() {
    if (at("peft_type") != "LORA") {
      problems_.add("peft_type", "only \"LORA\" is supported, found " + shown(at("peft_type")));
    }
    const auto expect = [&](const char* key, std::initializer_list<OrderedJson> values) {
      const OrderedJson found = at(key);
      const auto is_found = [&](const OrderedJson& value) { return value == found; };
      if (found.is_null() || std::ranges::any_of(values, is_found)) return;
      problems_.add(key, "only " + shown(*values.begin()) + " is supported, found " + shown(found));
    };
    expect("task_type", {"CAUSAL_LM"});
    expect("bias", {"none"});
    expect("layers_pattern", {"layers", OrderedJson::array({"layers"}), OrderedJson::array(), ""});
    const OrderedJson beginning = at("init_lora_weights");
    const auto is_its_name = [&](std::string_view name) { return beginning == OrderedJson(name); };
    const bool plain = beginning.is_null() || beginning.is_boolean() ||
                       std::ranges::any_of(kPlainBeginnings, is_its_name);
    if (!plain) {
      problems_.add("init_lora_weights",
                    shown(beginning) +
                        " changes the weights of the model, too; save the adapters converted to "
                        "LoRA, as PEFT's documentation says");
    }
    for (const auto& [key, value] : json_.items()) {
      if (std::ranges::find(kOtherKeys, key) != std::end(kOtherKeys)) continue;
      const bool says_nothing = value.is_null() || value == false ||
                                (value.is_string() && value.get<std::string>().empty()) ||
                                ((value.is_object() || value.is_array()) && value.empty());
      if (says_nothing) continue;
      problems_.add(shortened(printable_name(key)),
                    "is not supported, found " + shown(value) + "; strata adds scale * B A to W");
    }
  }

  double number_at(std::string_view key, double otherwise, double least, double most) {
    const OrderedJson found = at(key);
    if (found.is_null()) return otherwise;
    const double value = found.is_number() ? found.get<double>() : most + 1;
    if (value >= least && value <= most) return value;
    problems_.add(key, "must be a number from " + shown(number(least)) + " to " +
                           shown(number(most)) + ", found " + shown(found));
    return otherwise;
  }

  std::vector<std::string> targets() {
    const OrderedJson found = at("target_modules");
    if (found == "all-linear") return {std::string(AdapterConfig::kAllLinear)};
    std::vector<std::string> names;
    if (found.is_array()) {
      for (const OrderedJson& name : found) {
        if (name.is_string()) names.push_back(name.get<std::string>());
      }
    }
    if (names.empty() || names.size() != found.size()) {
      problems_.add("target_modules",
                    "expected a list of names of modules (a text is a regular expression, which "
                    "is not supported), found " +
                        shown(found));
    }
    return names;
  }

  std::vector<std::string> pattern_at(std::string_view key) {
    const OrderedJson found = at(key);
    std::vector<std::string> entries;
    if (found.is_null()) return entries;
    for (const auto& [name, value] : found.items()) {
      if (found.is_object() && value.is_number() && name.find('=') == name.npos) {
        entries.push_back(name + "=" + json_text(value));
      }
    }
    if (!found.is_object() || entries.size() != found.size()) {
      problems_.add(key, "expected names of modules with a number each, found " + shown(found));
    }
    return entries;
  }

  std::vector<double> layers() {
    const OrderedJson found = at("layers_to_transform");
    if (found.is_number()) return {found.get<double>()};
    std::vector<double> numbers;
    if (found.is_array()) {
      for (const OrderedJson& layer : found) {
        if (layer.is_number()) numbers.push_back(layer.get<double>());
      }
    }
    if (!found.is_null() && numbers.size() != found.size()) {
      problems_.add("layers_to_transform",
                    "expected a list of numbers of layers, found " + shown(found));
    }
    return numbers;
  }

  /// PEFT takes all modules whose names end so, which of "norm" are those of layers, too.
  std::vector<std::string> modules_to_save() {
    const OrderedJson found = at("modules_to_save");
    std::vector<std::string> names;
    if (found.is_array()) {
      for (const OrderedJson& name : found) {
        if (name.is_string() && name != "norm") names.push_back(name.get<std::string>());
      }
    }
    if (!found.is_null() && (!found.is_array() || names.size() != found.size())) {
      problems_.add("modules_to_save",
                    "expected a list of embed_tokens, lm_head and model.norm (\"norm\" alone means "
                    "those of layers, too, which are not trained), found " +
                        shown(found));
    }
    return names;
  }

  const OrderedJson& json_;
  ConfigProblems& problems_;
};

OrderedJson read_object(const std::filesystem::path& file) {
  std::string problem = "not a JSON object";
  try {
    OrderedJson json = parse_json<OrderedJson>(read_text_file(file, 16 * kMiB, Links::kOfModel));
    if (json.is_object()) return json;
  } catch (const OrderedJson::exception& error) {
    problem = "not valid JSON: " + json_problem(error);
  }
  throw ConfigError(file.string() + ": " + problem);
}

}  // namespace

AdapterConfig read_peft_config(const std::filesystem::path& file) {
  const OrderedJson json = read_object(file);
  ConfigProblems problems;
  AdapterConfig adapter = PeftReader(json, problems).read();
  problems.throw_if_any(file.string());
  return adapter;
}

std::string peft_name(std::string_view tensor, std::string_view matrix) {
  const std::string_view module = tensor.substr(0, tensor.size() - kWeight.size());
  std::string name = "base_model.model.";
  name.append(module).append(".").append(matrix).append(kWeight);
  return name;
}

std::string peft_name(std::string_view tensor) { return "base_model.model." + std::string(tensor); }

std::vector<std::string> peft_modules(ModelSpec spec, const std::vector<std::string>& modules) {
  add_adapters(spec, {.modules_to_save = modules});
  return whole_names(spec);
}

std::string peft_config_text(const AdapterConfig& config, const ModelSpec& spec,
                             const std::string& base) {
  const bool takes_all = config.targets.front() == AdapterConfig::kAllLinear;
  OrderedJson layers;
  for (const double layer : config.layers) layers.push_back(number(layer));
  const std::vector<std::string> modules = whole_names(spec);
  OrderedJson json{{"alpha_pattern", pattern(config.alpha_pattern)},
                   {"base_model_name_or_path", base.empty() ? OrderedJson() : OrderedJson(base)},
                   {"bias", "none"},
                   {"fan_in_fan_out", false},
                   {"inference_mode", true},
                   {"init_lora_weights", true},
                   {"layers_to_transform", layers},
                   {"lora_alpha", number(config.alpha)},
                   {"lora_dropout", config.dropout},
                   {"modules_to_save", modules.empty() ? OrderedJson() : OrderedJson(modules)},
                   {"peft_type", "LORA"},
                   {"r", config.rank},
                   {"rank_pattern", pattern(config.rank_pattern)},
                   {"target_modules", takes_all ? adapted_names(spec) : config.targets},
                   {"task_type", "CAUSAL_LM"},
                   {"use_dora", false},
                   {"use_rslora", config.rslora}};
  if (spec.tied() && spec.whole.embedding) json["ensure_weight_tying"] = true;
  return json_text(json, 2) + '\n';
}

}  // namespace strata
