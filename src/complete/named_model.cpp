// The folder of a model is read before anybody knows how much will be asked of the model, and the
// weights are loaded once that is known.

#include "strata/complete/named_model.h"

#include <utility>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/checkpoint/base_weights.h"
#include "strata/checkpoint/files.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/complete/sequence_length.h"
#include "strata/launch/backend_choice.h"
#include "strata/model/families.h"
#include "strata/model/layout.h"
#include "strata/model/safetensors.h"
#include "strata/runfiles/find_checkpoint.h"
#include "strata/runfiles/named_adapter.h"

namespace strata {

namespace {

std::optional<FoundCheckpoint> checkpoint_of(const std::filesystem::path& named) {
  const std::unique_ptr<Files> files = make_system_files();
  NamedFolder found = find_named_folder(*files, named);
  if (found.checkpoint) warn_of_unsaved_steps(*found.checkpoint, named);
  return std::move(found.checkpoint);
}

}  // namespace

NamedModel::NamedModel(std::string_view command, const ModelOptions& options)
    : command_(command),
      options_(options),
      checkpoint_(checkpoint_of(options.model)),
      trained_(checkpoint_ ? adapter_of(*checkpoint_) : std::nullopt),
      folder_(checkpoint_ ? checkpoint_->folder / kModelFolder : options.model),
      config_(load_llama_config(folder_ / "config.json")),
      defaults_(load_generation_defaults(folder_)),
      text_(std::make_unique<ModelText>(ModelTextOptions{.folder = folder_.string(),
                                                         .tokenizer = options.tokenizer,
                                                         .chat_template = options.chat_template,
                                                         .vocabulary = config_.vocab_size})),
      end_tokens_(defaults_.end_tokens) {
  require_built(options.backend, "--backend");
  if (trained_ && !options.adapter.empty()) {
    throw ConfigError("--adapter: " + options.model.string() +
                      " has adapters of its own; name the model that they are for, or leave " +
                      "--adapter out");
  }
  if (end_tokens_.empty()) {
    if (const auto end = text_->end_token()) end_tokens_.push_back(*end);
  }
}

void NamedModel::warn_of_endless_answers() const {
  const TurnEnd& end = text_->turn_end();
  if (end.id) return;
  if (end.text.empty()) {
    log::warn(
        "the chat template ends answers with no token, so that they may go on until --max-tokens; "
        "name a text that ends them by --stop");
  } else {
    log::warn(
        "the chat template ends answers with {}, for which the tokenizer has no token; they end "
        "here at that text, and other programs need it as a stop",
        shortened(printable_name(end.text)));
  }
}

std::optional<RunConfig> NamedModel::run() const {
  if (!checkpoint_) return std::nullopt;
  return parse_run_config(checkpoint_->manifest.config,
                          (checkpoint_->folder / kManifestName).string());
}

std::uint64_t NamedModel::weights_hash() const {
  if (trained_ || !options_.adapter.empty()) {
    throw ConfigError("--reference: " + options_.model.string() +
                      " is used with adapters, and no run starts from both; export the merged " +
                      "model by `strata export --merge` and name that");
  }
  return hash_of_model(hash_of_base(SafetensorsDirectory(folder_), make_layout(spec_of(config_))),
                       config_);
}

PromptSettings NamedModel::settings(const DrawOptions& options) const {
  const bool filtered = options.top_k || options.top_p || options.min_p;
  const bool samples = defaults_.do_sample || filtered;
  const double usual = defaults_.do_sample ? defaults_.temperature.value_or(1) : 1;
  const auto either = [&](const auto& given, const auto& from_file, auto otherwise) {
    if (given) return *given;
    return defaults_.do_sample ? from_file.value_or(otherwise) : otherwise;
  };
  PromptSettings settings{
      .sampling = {.temperature = options.temperature.value_or(samples ? usual : 0),
                   .top_p = either(options.top_p, defaults_.top_p, 1.0),
                   .min_p = either(options.min_p, defaults_.min_p, 0.0),
                   .repeat_penalty =
                       options.repeat_penalty.value_or(defaults_.repetition_penalty.value_or(1)),
                   .top_k = either(options.top_k, defaults_.top_k, std::int64_t{0}),
                   .seed = options.seed},
      .most_tokens = options.max_tokens.value_or(defaults_.max_new_tokens.value_or(0)),
      .end_tokens = options.ignore_eos ? std::vector<std::int32_t>() : end_tokens_,
      .stops = options.stops};
  const std::string problem = settings.sampling.problem();
  if (!problem.empty()) throw ConfigError(problem);
  return settings;
}

MergedWeights NamedModel::open_weights() const {
  if (trained_) return merged_weights_of(*checkpoint_, *trained_);
  MergedWeights weights{SafetensorsDirectory(folder_)};
  if (!options_.adapter.empty()) add_named_adapter(options_.adapter, config_, weights);
  return weights;
}

std::unique_ptr<GenerationSession> NamedModel::load(const GenerationNeeds& needs,
                                                    const GenerationLoad& load) const {
  // What is scored last goes through no layer, so it needs no position.
  if (needs.context - (needs.scores ? 1 : 0) > config_.context_limit()) {
    throw ConfigError(too_few_positions(needs.context, config_.context_limit(),
                                        "lower --context, or shorten what is given",
                                        config_.context_limit_name()));
  }
  return std::make_unique<GenerationSession>(
      GenerationOptions{.folder = folder_,
                        .command = command_,
                        .open_weights = [this] { return open_weights(); },
                        .backend = options_.backend,
                        .dtype = options_.dtype,
                        .threads = options_.threads,
                        .memory = options_.memory,
                        .needs = needs,
                        .sequences = options_.sequences,
                        .load = load});
}

std::unique_ptr<GenerationSession> NamedModel::load(std::int64_t context,
                                                    const GenerationLoad& load,
                                                    bool penalties) const {
  return this->load({.kv_dtype = options_.kv_dtype, .context = context, .penalties = penalties},
                    load);
}

std::unique_ptr<GenerationSession> NamedModel::load_to_score(std::int64_t context,
                                                             std::int64_t sequences) const {
  GenerationNeeds needs{.kv_dtype = options_.kv_dtype,
                        .context = context,
                        .scores = true,
                        .products = options_.products};
  if (const auto config = needs.products == Products::kPlain ? std::nullopt : run()) {
    needs.plain_products = config->run.products_bf16;
  }
  return load(needs, {.sequences = sequences, .prompt_tokens = context, .drawn_tokens = 0});
}

}  // namespace strata
