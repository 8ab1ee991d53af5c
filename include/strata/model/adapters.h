// Low-rank adapters of a model (LoRA, Hu et al., 2021): which linears get one, how large they are
// and how they are scaled, in the words of PEFT. A family makes a spec without adapters, whatever
// the family; add_adapters() gives it those of a config, and from then on they alone are trained,
// but for modules that the config also names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/field_types.h"
#include "strata/model/form.h"
#include "strata/model/spec.h"

namespace strata {

/// What decides the adapters of a model. A name of a module means all modules whose full name it
/// ends, from a dot on: "q_proj" means "model.layers.3.self_attn.q_proj" and those of other layers.
struct AdapterConfig {
  std::string path{};  ///< adapters that training begins with, and what they are; empty: new ones
  std::int64_t rank = 8;
  double alpha = 16;
  bool rslora = false;  ///< scale by alpha / sqrt(rank), else alpha / rank
  std::vector<std::string> targets{"all-linear"};  ///< names of modules, or kAllLinear alone
  std::vector<std::string> rank_pattern{};   ///< "down_proj=16": ranks of some modules; first wins
  std::vector<std::string> alpha_pattern{};  ///< "down_proj=32": likewise
  std::vector<double> layers{};              ///< numbers, from 0; empty: all
  std::vector<std::string> modules_to_save{};  ///< names of modules that are trained whole
  Form base_format = Form::kPlain;             ///< of the weights that stay
  double dropout = 0;                          ///< of what A reads, in training alone
  /// Whether an embedding among modules_to_save stays one with the head where they are one tensor.
  /// It is no key: of a folder of PEFT, which may have trained them apart.
  bool ensures_tying = true;
  void fields(FieldList& f);

  /// The target that stands for all linears of layers.
  static constexpr std::string_view kAllLinear = "all-linear";
};

/// Adds what is wrong with the adapters of a config for this model; keys begin with "adapter.".
void check_adapters(const AdapterConfig& config, const ModelSpec& spec, ConfigProblems& problems);
/// Adds what hinders a model from having its weights in the format that the config names.
void check_base_format(const AdapterConfig& config, const ModelSpec& spec,
                       ConfigProblems& problems);
/// Gives the linears of a spec their adapters, and says what is trained whole. Throws ConfigError
/// where check_adapters() adds a problem.
void add_adapters(ModelSpec& spec, const AdapterConfig& config);

}  // namespace strata
