// What a user says about a model that is used and not trained, and about how its tokens are drawn.
// The command line fills these in; NamedModel reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "strata/base/fields.h"
#include "strata/base/kv_dtype.h"
#include "strata/config/config.h"

namespace strata {

/// What every command with a model is told.
struct ModelOptions {
  std::filesystem::path model;  ///< a Hugging Face folder, a checkpoint, or a run
  std::filesystem::path
      adapter{};                ///< added to the model: a folder of PEFT, a checkpoint, or a run
  std::string tokenizer{};      ///< a file or folder instead of the model's
  std::string chat_template{};  ///< a built-in name or a file instead of the model's
  BackendChoice backend = BackendChoice::kAuto;
  std::optional<DType> dtype{};  ///< absent: bf16 if all weights are, else f32
  KvDType kv_dtype = KvDType::kAuto;
  Products products = Products::kPlain;  ///< of layers, as run.products has it; for scores alone
  int threads = 0;                       ///< 0: as many as there are usable cores
  MemorySection memory{};
  std::optional<std::int64_t> sequences{};  ///< that are continued at once
  std::optional<std::int64_t> context{};    ///< tokens of a sequence, prompt included
};

/// How tokens are drawn; absent: as the model's generation_config.json says.
struct DrawOptions {
  std::optional<double> temperature{};
  std::optional<double> top_p{};
  std::optional<double> min_p{};
  std::optional<double> repeat_penalty{};
  std::optional<std::int64_t> top_k{};
  std::optional<std::int64_t> max_tokens{};
  std::uint64_t seed = 0;
  std::vector<std::string> stops{};
  bool ignore_eos = false;  ///< end tokens end nothing
};

}  // namespace strata
