// Translates keys of the config into what the data layer takes.

#include "strata/train/training_data.h"

#include <cstdint>
#include <string>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/narrow.h"
#include "strata/checkpoint/base_weights.h"
#include "strata/data/joined_tokens.h"
#include "strata/data/open_source.h"
#include "strata/model/families.h"
#include "strata/model/layout.h"
#include "strata/runfiles/start_weights.h"

namespace strata {

namespace {

std::unique_ptr<TokenSource> synthetic_tokens(const RunConfig& config) {
  // Long enough that no benchmark sees a row twice.
  constexpr std::int64_t kTokens = std::int64_t{1} << 40;
  return std::make_unique<SyntheticTokens>(kTokens, config.model.llama.vocab_size,
                                           static_cast<std::uint64_t>(config.run.seed));
}

ForeignFormat foreign_format(const DataSection& data) {
  ForeignFormat foreign;
  if (data.dtype != TokenFormat::kAuto) {
    foreign.type = data.dtype == TokenFormat::kU16 ? TokenType::kU16 : TokenType::kU32;
  }
  if (data.eos_token) foreign.end_of_document = narrow<std::int32_t>(*data.eos_token);
  foreign.document_begins = data.document_begins;
  return foreign;
}

/// Returns what identifies the weights of model.path, of which a reference can be stored.
BaseWeights scored_weights(const RunConfig& config) {
  const StartWeights start = open_start_weights(config.model);
  if (!start.resized.empty()) {
    throw ConfigError("train.reference: " + start.resized + ", of which no reference can be " +
                      "stored. Leave model.vocab_size out, or name by model.path a model that " +
                      "has the rows already, as a checkpoint of a run that added them");
  }
  return {.folder = config.model.path,
          .hash = hash_of_base(start.files, make_layout(spec_of(config.model.llama)))};
}

/// Opens the files of a source, with what is stored of a reference.
std::unique_ptr<TokenSource> open_with_reference(const DataSection& data, const FileSource& source,
                                                 const std::optional<ReferenceWish>& wish) {
  std::vector<std::unique_ptr<TokenSource>> parts;
  for (const std::string& file : source.files) {
    parts.push_back(open_token_source(file, foreign_format(data)));
    if (!wish || !parts.back()->has_pairs()) continue;
    parts.back() = std::make_unique<ReferencedTokens>(std::move(parts.back()), *wish);
  }
  if (parts.size() == 1) return std::move(parts[0]);
  return std::make_unique<JoinedTokens>(std::move(parts));
}

std::unique_ptr<PackedTokens> pack(std::unique_ptr<TokenSource> source, const DataSection& data) {
  return std::make_unique<PackedTokens>(
      std::move(source),
      PackingOptions{.row_tokens = data.sequence_length, .overlong = data.overlong});
}

/// Throws IoError unless a source holds pairs where the objective wants them, and none elsewhere.
void require_kind(const TokenSource& source, const RunConfig& config) {
  if (source.has_pairs() == config.train.objective.has_value()) return;
  throw IoError(
      source.name() +
      (source.has_pairs()
           ? ": holds pairs of chosen and rejected answers; set train.objective to one that "
             "learns from pairs, or tokenize the chosen answers alone"
           : ": holds no pairs of answers, which train.objective needs. Make the file with `strata "
             "tokenize` of records with prompt, chosen and rejected, or set train.objective to "
             "\"sft\""));
}

}  // namespace

std::optional<ReferenceWish> reference_wish(const RunConfig& config,
                                            const std::optional<BaseWeights>& started_from) {
  if (config.train.reference != ReferenceFrom::kStored) return std::nullopt;
  const BaseWeights weights = started_from ? *started_from : scored_weights(config);
  return ReferenceWish{.model_folder = weights.folder,
                       .model = hash_of_model(weights.hash, config.model.llama),
                       .longest_answer = config.data.sequence_length - 2};
}

std::unique_ptr<TokenSource> open_files(const DataSection& data, const FileSource& source) {
  return open_with_reference(data, source, {});
}

std::vector<SourceShare> TrainingSet::shares() const {
  std::vector<SourceShare> shares;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    shares.push_back({.tokens = sources[i].get(), .weight = weights[i]});
  }
  return shares;
}

TrainingSet open_training_set(const RunConfig& config,
                              const std::optional<ReferenceWish>& reference) {
  TrainingSet set;
  if (config.data.synthetic) {
    set.sources.push_back(synthetic_tokens(config));
    set.weights.push_back(1);
    return set;
  }
  std::vector<const TokenSource*> opened;
  for (const FileSource& source : config.data.train.list) {
    auto tokens = open_with_reference(config.data, source, reference);
    require_kind(*tokens, config);
    if (config.data.packing) {
      auto packed = pack(std::move(tokens), config.data);
      set.packing.push_back(packed->counts());
      tokens = std::move(packed);
    }
    set.sources.push_back(std::move(tokens));
    set.weights.push_back(source.weight.value_or(1));
    opened.push_back(set.sources.back().get());
  }
  require_one_tokenizer(opened);
  return set;
}

std::unique_ptr<TokenSource> open_validation_set(const RunConfig& config,
                                                 const std::optional<ReferenceWish>& reference) {
  auto tokens = open_with_reference(config.data, config.data.validation.list.at(0), reference);
  require_kind(*tokens, config);
  if (config.data.packing) return pack(std::move(tokens), config.data);
  return tokens;
}

ModelTokenizer tokenizer_of(const ModelSection& model) {
  return {.vocabulary = model.llama.vocab_size,
          .folder = model.path.empty() ? model.tokenizer : model.path,
          .named = model.tokenizer};
}

BatchOptions training_batches(const RunConfig& config, int rank, int ranks) {
  BatchOptions options;
  options.shape = {.rows = config.schedule.rows,
                   .tokens = config.data.sequence_length,
                   .sub_batches = config.schedule.sub_batches};
  options.passes = narrow<int>(config.schedule.passes);
  options.rank = rank;
  options.ranks = ranks;
  if (config.schedule.step_rows) options.step_rows = config.step_rows(ranks);
  options.pairs = config.train.objective.has_value();
  options.mask = config.data.document_mask ? DocumentMask::kOn : DocumentMask::kOff;
  options.sample_order = config.data.shuffle ? SampleOrder::kShuffled : SampleOrder::kInOrder;
  options.seed = static_cast<std::uint64_t>(config.run.seed);
  options.vocabulary = config.model.llama.vocab_size;
  return options;
}

}  // namespace strata
