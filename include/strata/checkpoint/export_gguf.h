// Writes a model as one GGUF file, which llama.cpp and the programs around it read. Weights are
// read and written piece by piece, so that a model of any size takes the same memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "strata/base/gguf.h"
#include "strata/base/thread_pool.h"
#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/checkpoint/files.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/model/gguf_model.h"
#include "strata/model/layout.h"
#include "strata/model/merged_weights.h"

namespace strata {

/// What is written.
struct GgufExport {
  const LlamaConfig& model;
  const GgufModel& gguf;  ///< the model's
  GgufKeys keys;          ///< all of them
  /// Of matrices. Vectors are f32, and so are rows that blocks of kQ80 do not cut evenly bf16.
  GgufType type = GgufType::kBF16;
  FileWriter& to;  ///< an empty file
  OnModelProgress progress;
};

/// Writes the model of a checkpoint: its exact masters where it has them. Throws IoError as
/// export_model() does, and NumericalError that names a tensor as store_gguf() does.
void export_gguf(const Files& files, const FoundCheckpoint& checkpoint, const GgufExport& what,
                 ThreadPool& pool);
/// Writes a model of the weights of a Hugging Face folder, in which check_weights() finds no fault.
void export_gguf(const MergedWeights& weights, const GgufExport& what, ThreadPool& pool);

}  // namespace strata
