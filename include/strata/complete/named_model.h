// A model that a user names, to be used and not trained: where its folder is, its texts, how its
// tokens are drawn and end, and a session once it is known how much it has to hold. `generate`,
// `chat` and `evaluate` own one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/complete/generation_session.h"
#include "strata/complete/model_options.h"
#include "strata/complete/model_text.h"
#include "strata/complete/prompts.h"
#include "strata/config/config.h"
#include "strata/model/config.h"
#include "strata/model/generation_defaults.h"
#include "strata/model/merged_weights.h"
#include "strata/runfiles/trained_adapter.h"

namespace strata {

class NamedModel {
 public:
  /// Reads all but the weights, for `command`. Throws IoError and ConfigError naming what is wrong.
  NamedModel(std::string_view command, const ModelOptions& options);

  [[nodiscard]] const ModelText& text() const { return *text_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const LlamaConfig& config() const { return config_; }
  /// Returns the config of the run whose checkpoint the model is; nothing if it is of none. Throws
  /// ConfigError for one that this strata does not read.
  [[nodiscard]] std::optional<RunConfig> run() const;
  /// Returns the hash of the weights by which a run knows that it starts from them. Throws
  /// ConfigError for a model with adapters.
  [[nodiscard]] std::uint64_t weights_hash() const;
  /// Returns how tokens are drawn and where texts end: what the options say, else what the model's
  /// files say.
  [[nodiscard]] PromptSettings settings(const DrawOptions& options) const;
  /// Warns, for one that has conversations answered, if no token ends answers.
  void warn_of_endless_answers() const;

  /// Loads the model for sequences of up to so many tokens. How many there are at once is what the
  /// options say, else what is best for the load.
  [[nodiscard]] std::unique_ptr<GenerationSession> load(std::int64_t context,
                                                        const GenerationLoad& load,
                                                        bool penalties) const;
  /// Loads the model to score so many sequences of at most this length.
  [[nodiscard]] std::unique_ptr<GenerationSession> load_to_score(std::int64_t context,
                                                                 std::int64_t sequences) const;

 private:
  [[nodiscard]] std::unique_ptr<GenerationSession> load(const GenerationNeeds& needs,
                                                        const GenerationLoad& load) const;
  /// Opens the weights, with the adapters of the checkpoint or those that the options name.
  [[nodiscard]] MergedWeights open_weights() const;

  std::string_view command_;
  ModelOptions options_;
  std::optional<FoundCheckpoint> checkpoint_;  ///< absent: a folder of Hugging Face
  std::optional<TrainedAdapter> trained_;      ///< of a checkpoint that holds adapters alone
  std::filesystem::path folder_;
  LlamaConfig config_;
  GenerationDefaults defaults_;
  std::unique_ptr<ModelText> text_;
  std::vector<std::int32_t> end_tokens_;  ///< ids that end texts
};

}  // namespace strata
