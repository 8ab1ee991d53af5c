// Makes a folder of PEFT of a checkpoint that holds adapters: adapter_config.json, and A and B of
// all layers in one file. Checkpoint files are read window by window and verified.
#pragma once

#include <filesystem>
#include <string>

#include "strata/base/dtype.h"
#include "strata/base/thread_pool.h"
#include "strata/checkpoint/checkpoint_folder.h"
#include "strata/checkpoint/files.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/model/layout.h"

namespace strata {

/// What is made of which checkpoint.
struct AdapterExport {
  const FoundCheckpoint& checkpoint;  ///< its manifest has a base
  const ModelLayout& layout;          ///< of the model with adapters
  const std::string& config;          ///< the text of adapter_config.json
  DType weight = DType::kBF16;        ///< of A and B: bf16 or f32
  std::filesystem::path to;           ///< a folder that is there, without files of these names
  OnModelProgress progress;
};

/// Writes both files to `to` and synchronises them, but not the folder. A and B are as the
/// checkpoint holds them in this dtype, else their masters, rounded to nearest. Takes three windows
/// of memory for each thread of the pool. Throws IoError that names the file that is damaged,
/// missing, of another model or cannot be written.
void export_adapter(Files& files, const AdapterExport& what, ThreadPool& pool);

}  // namespace strata
