// Makes a tokenizer of files of text: what `strata tokenizer train` does after it has read its
// arguments. Files are read in parts, and counted on several threads; the tokenizer does not depend
// on how many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "strata/data/tokenize.h"
#include "strata/tokenizer/train_tokenizer.h"

namespace strata {

/// How far train_tokenizer() has come: first bytes are counted, then merges are learned.
struct TrainTokenizerProgress {
  std::size_t bytes_done = 0;  ///< of the input files, packed or not
  std::size_t bytes = 0;
  std::int64_t ids = 0;  ///< 0 while bytes are counted
};

struct TrainTokenizerOptions {
  std::vector<std::string> inputs{};  ///< as in TokenizeOptions
  /// Endings of the files that are taken from folders; an empty list takes every file.
  std::vector<std::string> extensions{".txt", ".text", ".md", ".rst"};
  InputFormat format = InputFormat::kAuto;  ///< as in TokenizeOptions
  std::string text_field{};                 ///< as in TokenizeOptions; conversations are refused
  TokenizerTraining training{};
  int threads = 0;  ///< 0: one for each usable core
  /// The bytes of memory that counts and training may take; 0: what the host has free.
  std::size_t memory_limit_bytes = 0;
  /// Called by the calling thread now and then; may be empty. If it throws, training ends so.
  std::function<void(const TrainTokenizerProgress&)> progress{};
};

/// What came of it.
struct TrainedOnFiles {
  TrainedTokenizer tokenizer;
  std::int64_t files = 0;  ///< that were read
  std::size_t bytes = 0;   ///< of text
  std::size_t pieces = 0;  ///< distinct ones
};

/// Trains a tokenizer on the texts of files and records, each a text of its own, in which special
/// tokens are ordinary text. A file that is plainly not text is refused if `inputs` name it, and
/// left out with a warning if it was found in a folder; so is a line that is no record. Blocks.
/// Throws IoError for an input that cannot be read or is refused, and if there is no text;
/// ConfigError as check_training() does; OutOfMemory if the distinct pieces of the texts would take
/// more than the memory limit.
[[nodiscard]] TrainedOnFiles train_tokenizer(const TrainTokenizerOptions& options);

}  // namespace strata
