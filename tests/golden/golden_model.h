// A tiny model that PyTorch trained in f64: its weights, its batches and what must come out of five
// steps. Tests of whole training runs compare with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "strata/data/batch.h"

namespace strata::test {

using NamedTensors = std::map<std::string, std::vector<double>>;  ///< by Hugging Face name

/// What PyTorch itself gets wrong in f32 or bf16 (by transformers), against f64; relative.
struct GoldenErrors {
  std::vector<double> losses;  ///< [steps]
  std::vector<double> norms;   ///< [steps]
  double logits = 0;
  double token_losses = 0;
  double gradients = 0;                    ///< all tensors together
  double changes = 0;                      ///< of final - initial weights, all tensors together
  std::map<std::string, double> gradient;  ///< per tensor
  std::map<std::string, double> change;    ///< per tensor
};

/// A global batch, [rows, T] each.
struct GoldenBatch {
  std::vector<std::int32_t> tokens, positions, documents, targets;
};

struct GoldenOptimizer {
  double lr, beta1, beta2, eps;
  double weight_decay;  ///< not on norm weights and biases
  double clip;          ///< global norm; every step is clipped by min(1, clip / norm)
};

/// A tiny model, the batches it is trained on and what must come out, from PyTorch in f64.
struct GoldenModel {
  std::filesystem::path folder;  ///< Hugging Face directory: config.json, model.safetensors
  std::int64_t rows = 0;         ///< of a global batch
  std::int64_t tokens = 0;       ///< T, of a row
  DocumentMask mask = DocumentMask::kOff;
  std::vector<GoldenBatch> steps;
  GoldenOptimizer optimizer{};

  std::vector<double> logits;               ///< [rows, T, V] of step 0
  std::vector<double> token_losses;         ///< [rows, T] of step 0, 0 where ignored
  NamedTensors gradients;                   ///< of step 0, before clipping
  std::vector<double> losses;               ///< [steps] mean over the step's valid targets
  std::vector<double> norms;                ///< [steps] of the gradient, before clipping
  NamedTensors initial;                     ///< weights before step 0
  NamedTensors final;                       ///< weights after the last step
  std::vector<double> inverse_frequencies;  ///< [D/2]
  GoldenErrors f32_errors, bf16_errors;
};

/// One of kGoldenModels.
[[nodiscard]] GoldenModel load_golden_model(const std::string& name);
inline constexpr const char* kGoldenModels[] = {
    "mha",     "gqa_tied_llama3", "odd",     "packed",         "mistral",      "phi3",
    "qwen2",   "biased",          "qwen3",   "granite",        "olmo2",        "seed_oss",
    "gemma",   "phi3_longrope",   "smollm3", "mistral_window", "qwen3_window", "glm4",
    "exaone4", "olmo3",           "gemma2",  "gemma3",         "ministral",    "ministral3"};

/// Does for a step of the golden batches what BatchLoader::fill_pass does for a token source, with
/// the same split of rows over passes, sub-batches and ranks. `options.shape`, `passes`, `rank` and
/// `ranks` are used; they must use up the model's rows exactly. Returns how many targets are valid.
std::int64_t fill_golden_pass(const GoldenModel& model, std::int64_t step, int pass,
                              const BatchOptions& options, const PassBuffers& out);

}  // namespace strata::test
