// Makes a folder as strata writes models of another one in the format of Hugging Face, with
// adapters added to its weights if there are any: one file for each block, numbered, in one dtype.
// Tensors are read slice by slice, so that a model of any size takes the same memory.
#pragma once

#include <filesystem>

#include "strata/base/dtype.h"
#include "strata/base/thread_pool.h"
#include "strata/checkpoint/files.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/model/config.h"
#include "strata/model/layout.h"
#include "strata/model/merged_weights.h"

namespace strata {

/// What is made of which folder.
struct ModelImport {
  std::filesystem::path from;    ///< has the config.json, and may have a tokenizer
  const MergedWeights& weights;  ///< of the model; check_weights() finds no fault in its files
  LlamaConfig model;             ///< the folder's
  const ModelLayout& layout;     ///< the model's
  DType weight = DType::kBF16;   ///< of the files that are made: bf16 or f32
  std::filesystem::path to;      ///< a folder that is there, without files of these names
  OnModelProgress progress;
};

/// Writes the files of the model to `to` and synchronises them, but not the folder. Weights are
/// converted as MergedWeights::read does it. Takes a window of memory for each thread of the
/// pool. Throws IoError that names the file, and of weights the tensor, that is damaged or cannot
/// be read or written.
void import_model(Files& files, const ModelImport& what, ThreadPool& pool);

}  // namespace strata
