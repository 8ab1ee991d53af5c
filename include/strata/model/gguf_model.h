// A model as llama.cpp has it in a GGUF file: the name of its architecture, the keys that describe
// it, and the name and row order of every tensor. All of it is derived from the model's spec.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "strata/base/gguf.h"
#include "strata/model/config.h"

namespace strata {

/// A tensor of the model, as both programs call it.
struct GgufPlace {
  std::string source;               ///< its name in a Hugging Face folder
  std::string name;                 ///< e.g. "blk.3.attn_q.weight"
  std::vector<std::int64_t> shape;  ///< [rows, cols], or [rows] of a norm or a bias
  /// Rows of a head of queries or keys whose two halves are interleaved in the file: row 2i there
  /// is row i of the head, and row 2i + 1 is row D/2 + i. 0: rows stay in order.
  std::int64_t interleaved_rows = 0;
  double offset = 0;  ///< is added to each element: 1 where a model stores norms' weights less 1
};

/// A tensor that is no weight of the model.
struct GgufVector {
  std::string name;
  std::vector<float> values;
};

struct GgufModel {
  std::string architecture;  ///< "llama", the value of general.architecture
  GgufKeys keys;             ///< those that begin with the architecture's name
  std::vector<GgufPlace> tensors;
  /// What frequencies of pairs are divided by, each [E/2]; empty: by nothing.
  std::vector<GgufVector> rope_factors;
};

/// Returns how llama.cpp has the model of a valid config. Throws ConfigError that names what its
/// architecture cannot express, and the remedy.
[[nodiscard]] GgufModel gguf_model_of(const LlamaConfig& config);

}  // namespace strata
