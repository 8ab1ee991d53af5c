// Finds the modules that a config of adapters names. Layers whose adapters differ become different
// kinds of layers.

#include "strata/model/adapters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "strata/base/fields.h"
#include "strata/base/text.h"
#include "strata/model/named_value.h"
#include "strata/model/resize_vocabulary.h"
#include "strata/ops/nf4_format.h"

namespace strata {
namespace {

constexpr double kMostRank = 65536;
constexpr double kLeastAlpha = 1e-6;
constexpr double kMostAlpha = 1e6;
constexpr double kMostDropout = 0.9;

/// Returns the full name of the module that a tensor is the weight of.
std::string module_of(std::string_view tensor) {
  constexpr std::string_view kWeight = ".weight";
  return std::string(tensor.substr(0, tensor.size() - kWeight.size()));
}

/// Returns that of a source of a layer's linear or norm.
std::string module_of(const ModelSpec& spec, int layer, std::string_view source) {
  return spec.layer_prefix + std::to_string(layer) + "." + module_of(source);
}

/// Returns whether a name means this module.
bool means(std::string_view name, std::string_view module) {
  if (!module.ends_with(name) || name.empty()) return false;
  return module.size() == name.size() || module[module.size() - name.size() - 1] == '.';
}

/// Returns the value that a pattern has for a module, or `otherwise` if it has none.
double pattern_value(const std::vector<std::string>& pattern, std::string_view module,
                     double otherwise) {
  for (const std::string& text : pattern) {
    const std::optional<NamedValue> entry = parse_named_value(text);
    if (entry && means(entry->name, module)) return entry->value;
  }
  return otherwise;
}

bool takes_all(const AdapterConfig& config) {
  return config.targets == std::vector<std::string>{std::string(AdapterConfig::kAllLinear)};
}

/// Returns whether the module of a layer gets an adapter.
bool is_target(const AdapterConfig& config, int layer, std::string_view module) {
  const bool taken =
      config.layers.empty() ||
      std::ranges::find(config.layers, static_cast<double>(layer)) != config.layers.end();
  return taken && (takes_all(config) || std::ranges::any_of(config.targets, [&](const auto& name) {
                     return means(name, module);
                   }));
}

/// Returns the adapters of a linear in a layer.
std::vector<Adapter> adapters_of(const ModelSpec& spec, const AdapterConfig& config, int layer,
                                 const Linear& linear) {
  std::vector<Adapter> adapters;
  for (std::size_t i = 0; i < linear.sources.size(); ++i) {
    const std::string module = module_of(spec, layer, linear.sources[i].name);
    if (!is_target(config, layer, module)) continue;
    const double rank =
        pattern_value(config.rank_pattern, module, static_cast<double>(config.rank));
    const double alpha = pattern_value(config.alpha_pattern, module, config.alpha);
    adapters.push_back({.source = i,
                        .rank = static_cast<std::int64_t>(rank),
                        .scale = alpha / (config.rslora ? std::sqrt(rank) : rank)});
  }
  return adapters;
}

/// Returns whether any linear gets an adapter.
bool adapts_any(const ModelSpec& spec, const AdapterConfig& config) {
  for (int layer = 0; layer < spec.layers(); ++layer) {
    for (const Linear& linear : spec.layer(layer).linears) {
      if (!adapters_of(spec, config, layer, linear).empty()) return true;
    }
  }
  return false;
}

/// Returns whether modules_to_save name the module of a tensor.
bool saves(const AdapterConfig& config, std::string_view tensor) {
  return std::ranges::any_of(config.modules_to_save, [&](const std::string& name) {
    return means(name, module_of(tensor));
  });
}

/// Returns the modules that a config lets be trained whole. Of a tied embedding both names mean it.
WholeModules whole_modules(const ModelSpec& spec, const AdapterConfig& config) {
  const bool head = saves(config, kHeadName);
  return {.embedding = saves(config, spec.embedding) || (spec.tied() && head),
          .final_norm = saves(config, spec.final_norm),
          .projection = !spec.tied() && head};
}

/// Checks what a config says of adapters, against the names of a model's modules.
class AdapterCheck {
 public:
  AdapterCheck(const ModelSpec& spec, ConfigProblems& problems) : problems_(problems) {
    for (int layer = 0; layer < spec.layers(); ++layer) {
      for (const Linear& linear : spec.layer(layer).linears) {
        for (const SourceTensor& source : linear.sources) {
          modules_.push_back(module_of(spec, layer, source.name));
        }
      }
      for (const Norm& norm : spec.layer(layer).norms) {
        norms_.push_back(module_of(spec, layer, norm.source));
      }
    }
  }

  void check_names(const std::vector<std::string_view>& names, const char* key) {
    if (names.size() > kMostNames) {
      problems_.add(key, "names more than " + std::to_string(kMostNames) + " modules; name fewer");
      return;
    }
    for (const std::string_view name : names) {
      const auto is_meant = [&](std::string_view module) { return means(name, module); };
      if (std::ranges::any_of(modules_, is_meant)) continue;
      problems_.add(key, "\"" + shortened(printable_name(std::string(name))) +
                             "\" is no linear of the model's layers; take " + last_names() +
                             ", or full names");
    }
  }

  void check_pattern(const std::vector<std::string>& pattern, const char* key,
                     bool (*may_be)(double)) {
    std::vector<std::string_view> names;
    for (const std::string& text : pattern) {
      const std::optional<NamedValue> entry = parse_named_value(text);
      if (entry && may_be(entry->value)) {
        names.push_back(entry->name);
      } else {
        problems_.add(key, "\"" + shortened(printable_name(text)) +
                               "\" is not a module and its value; write it like "
                               "\"down_proj=16\"");
      }
    }
    check_names(names, key);
  }

  /// Checks the names of modules that are trained whole.
  void check_whole(const AdapterConfig& config, const ModelSpec& spec) {
    const char* const key = "adapter.modules_to_save";
    if (config.modules_to_save.size() > kMostNames) {
      return problems_.add(key, "names more than " + std::to_string(kMostNames) +
                                    " modules; take embed_tokens, lm_head and norm");
    }
    for (const std::string& name : config.modules_to_save) {
      const auto is_meant = [&](std::string_view module) { return means(name, module); };
      if (std::ranges::any_of(std::array{module_of(spec.embedding), module_of(kHeadName),
                                         module_of(spec.final_norm)},
                              is_meant)) {
        continue;
      }
      const std::string shown = "\"" + shortened(printable_name(name)) + "\" is ";
      if (std::ranges::any_of(modules_, is_meant)) {
        problems_.add(key, shown +
                               "a linear of layers, which adapter.targets gives an adapter; "
                               "take it out");
      } else if (std::ranges::any_of(norms_, is_meant)) {
        problems_.add(key, shown + "a norm of layers, and those stay as they are; take it out");
      } else {
        problems_.add(key, shown +
                               "no module that can be trained whole; take embed_tokens, "
                               "lm_head or norm");
      }
    }
    if (spec.tied() && whole_modules(spec, config).embedding && !config.ensures_tying) {
      problems_.add(key,
                    "trains embedding and head apart, which are one matrix of this model "
                    "(tie_word_embeddings); train with ensure_weight_tying");
    }
  }

  /// Returns the last names of all modules, such as "q_proj".
  [[nodiscard]] std::string last_names() const {
    std::vector<std::string> names;
    std::string text;
    for (const std::string& module : modules_) {
      const std::string name = module.substr(module.rfind('.') + 1);
      if (std::ranges::find(names, name) != names.end()) continue;
      text += (names.empty() ? "" : ", ") + name;
      names.push_back(name);
    }
    return text;
  }

 private:
  static constexpr std::size_t kMostNames = 1024;
  std::vector<std::string> modules_;  ///< the linears of layers
  std::vector<std::string> norms_;    ///< likewise
  ConfigProblems& problems_;
};

bool may_be_rank(double rank) { return rank >= 1 && rank <= kMostRank && rank == std::floor(rank); }
bool may_be_alpha(double alpha) { return alpha >= kLeastAlpha && alpha <= kMostAlpha; }

}  // namespace

void AdapterConfig::fields(FieldList& f) {
  f.add("path", path,
        "Names the adapters that training begins with: a folder of PEFT, or a checkpoint or run "
        "with adapters over the same weights. All keys below but base_format and dropout come from "
        "there. Set it to train adapters further; without it A is drawn and B is 0.");
  f.add("rank", rank, "Sets the rank of A and B. Raise it for more to learn; 8 to 64 are usual.")
      .from(1, kMostRank);
  f.add("alpha", alpha,
        "Sets what an adapter adds: B A x, times alpha / rank. Twice the rank is usual.")
      .from(kLeastAlpha, kMostAlpha);
  f.add("rslora", rslora,
        "Divides alpha by the square root of the rank in place of the rank. Set it for ranks of 64 "
        "and more.");
  f.add("targets", targets,
        "Names the modules that get an adapter, as config.json's model has them: q_proj means that "
        "of every layer, a full name one of them. [\"all-linear\"] means all linears of layers.");
  f.add("rank_pattern", rank_pattern,
        "Lists modules with a rank of their own, such as [\"down_proj=16\"]. The first one that "
        "means a module counts.");
  f.add("alpha_pattern", alpha_pattern, "Lists modules with an alpha of their own, likewise.");
  f.add("layers", layers,
        "Lists the numbers of the layers that get adapters, from 0; [] takes all.");
  f.add("modules_to_save", modules_to_save,
        "Names modules outside of layers that are trained whole beside the adapters: embed_tokens, "
        "lm_head, norm. Name the first two for new tokens or another chat template. Each takes the "
        "memory of full training. Where embeddings are tied, either name means the one matrix.");
  f.choice(
      "base_format", base_format, kFormNames,
      "Sets how matrices of layers are held in memory and cross the link: \"plain\", as "
      "run.dtype has them, or rounded when the run starts and decoded on the device: "
      "\"nf4\" to 4 bits (QLoRA), \"fp8\" to 8 as run.products \"fp8\" rounds them, \"int8\" to "
      "8 as LLM.int8 does without outliers. Set \"fp8\" with such products, or else \"int8\", "
      "where the weights do not fit otherwise or the link is too slow for them, and \"nf4\" "
      "where that is not enough.");
  f.add("dropout", dropout,
        "Says how much of what each A reads is dropped at random while it is trained; what stays "
        "is scaled up. Set it, to 0.05 or 0.1 say, where adapters overfit small data.")
      .from(0, kMostDropout);
}

void check_adapters(const AdapterConfig& config, const ModelSpec& spec, ConfigProblems& problems) {
  AdapterCheck check(spec, problems);
  if (config.targets.empty()) {
    problems.add("adapter.targets", "names no module, so nothing would be trained; take " +
                                        check.last_names() + ", or [\"all-linear\"]");
  }
  if (!takes_all(config)) {
    check.check_names({config.targets.begin(), config.targets.end()}, "adapter.targets");
  }
  check.check_pattern(config.rank_pattern, "adapter.rank_pattern", may_be_rank);
  check.check_pattern(config.alpha_pattern, "adapter.alpha_pattern", may_be_alpha);
  check.check_whole(config, spec);
  const auto is_layer = [&](double layer) {
    return layer >= 0 && layer < spec.layers() && layer == std::floor(layer);
  };
  if (std::ssize(config.layers) > spec.layers() || !std::ranges::all_of(config.layers, is_layer)) {
    problems.add("adapter.layers",
                 "must be whole numbers from 0 to model.num_hidden_layers - 1, each once");
  } else if (problems.empty() && !adapts_any(spec, config)) {
    problems.add("adapter.targets",
                 "names modules of layers that adapter.layers leaves out, so nothing would be "
                 "trained; name some of its layers");
  }
}

void check_base_format(const AdapterConfig& config, const ModelSpec& spec,
                       ConfigProblems& problems) {
  if (config.base_format != Form::kNf4) return;
  for (const LayerSpec& layer : spec.kinds) {
    for (const Linear& linear : layer.linears) {
      for (const SourceTensor& source : linear.sources) {
        if (source.rows % kNf4Block * (linear.in % kNf4Block) % kNf4Block == 0) continue;
        problems.add("adapter.base_format",
                     "\"nf4\" needs matrices with a multiple of " + std::to_string(kNf4Block) +
                         " elements, and " + source.name + " has " + std::to_string(source.rows) +
                         " x " + std::to_string(linear.in) +
                         "; set it to \"int8\", \"fp8\" or \"plain\"");
        return;
      }
    }
  }
}

void add_adapters(ModelSpec& spec, const AdapterConfig& config) {
  ConfigProblems problems;
  check_adapters(config, spec, problems);
  problems.throw_if_any("adapter");
  std::vector<LayerSpec> kinds;
  std::vector<std::size_t> kind(spec.kind.size());
  for (std::size_t base = 0; base < spec.kinds.size(); ++base) {
    const std::size_t first = kinds.size();  // of the kinds that come of this one
    for (int number = 0; number < spec.layers(); ++number) {
      const auto layer = static_cast<std::size_t>(number);
      if (spec.kind[layer] != base) continue;
      LayerSpec adapted = spec.kinds[base];
      for (Linear& linear : adapted.linears) {
        linear.adapters = adapters_of(spec, config, number, linear);
      }
      const auto same =
          std::find_if(kinds.begin() + static_cast<std::ptrdiff_t>(first), kinds.end(),
                       [&](const LayerSpec& other) {
                         return std::ranges::equal(other.linears, adapted.linears, {},
                                                   &Linear::adapters, &Linear::adapters);
                       });
      kind[layer] = static_cast<std::size_t>(same - kinds.begin());
      if (same == kinds.end()) kinds.push_back(std::move(adapted));
    }
  }
  spec.kinds = std::move(kinds);
  spec.kind = std::move(kind);
  spec.adapter_dropout = config.dropout;
  spec.whole = whole_modules(spec, config);
}

}  // namespace strata
