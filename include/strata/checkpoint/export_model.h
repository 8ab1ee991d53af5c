// Makes a Hugging Face folder of a checkpoint: its weights as they are streamed to the device, or
// the f32 masters that AdamW updates. Files are read window by window and verified, so that what is
// written was read as the manifest says, and a model of any size takes the same memory.
#pragma once

#include <filesystem>

#include "strata/base/dtype.h"
#include "strata/base/thread_pool.h"
#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/checkpoint/files.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/model/config.h"

namespace strata {

/// What is made of which checkpoint.
struct ModelExport {
  const FoundCheckpoint& checkpoint;
  LlamaConfig model;            ///< the checkpoint's
  DType weight = DType::kBF16;  ///< of the files that are made: bf16 or f32
  std::filesystem::path to;     ///< a folder that is there, without files of these names
  OnModelProgress progress;
};

/// Writes the files of the model to `to` and synchronises them, but not the folder. Weights that
/// the checkpoint holds in this dtype are copied with all of model/, byte for byte; others are
/// joined from their halves, which is exact, or rounded to nearest (f64 to bf16 through f32). Takes
/// three windows of memory for each thread of the pool. Throws IoError that names the file that is
/// damaged, missing, of another model or cannot be written, and if the masters are asked for where
/// bf16 weights are alone.
void export_model(Files& files, const ModelExport& what, ThreadPool& pool);

}  // namespace strata
