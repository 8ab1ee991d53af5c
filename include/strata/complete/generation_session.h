// A model that is ready to generate: its folder is read, memory is planned and taken, weights are
// loaded. Commands that generate or score make one.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "strata/comm/rank_groups.h"
#include "strata/comm/ranks.h"
#include "strata/config/config.h"
#include "strata/engine/generation_engine.h"
#include "strata/model/merged_weights.h"
#include "strata/ops/backend.h"
#include "strata/plan/choose_generation.h"

namespace strata {

/// What a generation session is told.
struct GenerationOptions {
  std::filesystem::path folder;           ///< of a Hugging Face model
  std::string_view command = "generate";  ///< that makes the session
  /// Opens the weights of the model instead of the folder's, such as some with adapters; may be
  /// null.
  std::function<MergedWeights()> open_weights = nullptr;
  /// A model whose weights are drawn at random, instead of the folder's.
  std::optional<LlamaConfig> random_model{};
  BackendChoice backend = BackendChoice::kAuto;
  std::optional<DType> dtype{};  ///< absent: bf16 if all weights are, else f32
  int threads = 0;               ///< 0: as many as there are usable cores
  MemorySection memory{};
  HardwareSection hardware{};               ///< for predictions, and
  KernelsSection kernels{};                 ///< whose cache has rates that were measured
  GenerationNeeds needs{};                  ///< but the dtype, and the sequences at once
  std::optional<std::int64_t> sequences{};  ///< at once; absent: to be chosen
  GenerationLoad load{};                    ///< for which it is chosen
  DeviceOptions device{};                   ///< for tests
  /// Makes the backend instead of strata::make_backend, for tests; may be null.
  std::function<Backend(BackendKind, const BackendOptions&)> make_backend = nullptr;
};

class GenerationSession {
 public:
  /// Loads the model. Throws IoError and ConfigError naming what is wrong with its files,
  /// BackendError if the backend cannot generate, OutOfMemory with what is needed.
  explicit GenerationSession(const GenerationOptions& options);
  ~GenerationSession();
  GenerationSession(const GenerationSession&) = delete;
  GenerationSession& operator=(const GenerationSession&) = delete;

  [[nodiscard]] const GenerationSetup& setup() const { return setup_; }
  [[nodiscard]] GenerationEngine& engine() { return *engine_; }
  /// Returns the name of the device.
  [[nodiscard]] std::string device_name() const { return backend_.device->info().name; }
  [[nodiscard]] Device& device() { return *backend_.device; }
  /// Returns what is predicted for the load.
  [[nodiscard]] GenerationPrediction predict() const;
  /// Returns a line about what was chosen by predicted time; empty if nothing was.
  [[nodiscard]] const std::string& choice_text() const { return choice_text_; }

 private:
  struct Unstarted {};
  /// Makes a session that has a machine and no model, and can be destroyed.
  GenerationSession(const GenerationOptions& options, Unstarted);

  /// Decides what is open, has products prepared for it, and makes the engine.
  void take_memory(const LlamaConfig& model, GenerationNeeds needs);

  GenerationOptions options_;
  std::unique_ptr<Ranks> ranks_;
  RankGroups groups_;
  Backend backend_;
  GroupCollectives collectives_;
  RatedDevice rated_;
  GenerationSetup setup_;
  std::string choice_text_;
  std::unique_ptr<GenerationEngine> engine_;
};

}  // namespace strata
