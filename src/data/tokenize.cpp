// Walks the inputs, maps one file at a time and feeds its bytes to the writers in pieces of 1 MiB,
// so that memory does not grow with the size of a file. Nothing is published before both sets are
// known to be non-empty.

#include "strata/data/tokenize.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/mapped_file.h"
#include "data/text_hash.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/data/byte_tokenizer.h"
#include "strata/data/token_file.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPieceBytes = kMiB;

void check_options(const TokenizeOptions& options) {
  const double fraction = options.validation_fraction;
  if (options.inputs.empty()) throw ConfigError("tokenize: name at least one file or folder");
  if (options.output.empty()) throw ConfigError("tokenize: name the output file");
  if (!(fraction >= 0 && fraction < 1)) {
    throw ConfigError("tokenize: the validation fraction must be in [0, 1), not " +
                      std::to_string(fraction));
  }
  if ((fraction > 0) == options.validation_output.empty()) {
    throw ConfigError("tokenize: a validation fraction and a validation file need each other");
  }
  if (options.output == options.validation_output) {
    throw ConfigError("tokenize: " + options.output + " cannot be training and validation file");
  }
}

bool is_wanted(const fs::path& file, const std::vector<std::string>& extensions) {
  const std::string name = file.filename().string();
  return extensions.empty() ||
         std::any_of(extensions.begin(), extensions.end(),
                     [&](const std::string& ending) { return name.ends_with(ending); });
}

std::vector<std::string> files_of(const TokenizeOptions& options) {
  std::vector<std::string> files;
  for (const std::string& input : options.inputs) {
    if (!fs::is_directory(input)) {
      files.push_back(input);
      continue;
    }
    std::vector<std::string> found;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(input)) {
      if (entry.is_regular_file() && is_wanted(entry.path(), options.extensions)) {
        found.push_back(entry.path().string());
      }
    }
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

/// Returns whether a document belongs to the validation set: 53 bits of its hash, as a number in
/// [0, 1), are below the fraction.
bool is_validation(std::string_view text, double fraction) {
  return static_cast<double>(hash_text(text) >> 11) * 0x1.0p-53 < fraction;
}

/// The two token files and what has been counted so far.
class Sets {
 public:
  explicit Sets(const TokenizeOptions& options) : options_(options) {
    const TokenFileWriter::Format format{.type = token_type_for(ByteTokenizer::kVocabulary),
                                         .vocabulary = ByteTokenizer::kVocabulary,
                                         .tokenizer_hash = ByteTokenizer::hash()};
    training_ = std::make_unique<TokenFileWriter>(options.output, format);
    if (options.validation_fraction > 0) {
      validation_ = std::make_unique<TokenFileWriter>(options.validation_output, format);
    }
  }

  /// Writes one document to the set that it belongs to. `on_piece` is told the bytes of every piece
  /// that was written.
  template <class OnPiece>
  void add_document(std::string_view text, const OnPiece& on_piece) {
    const bool held_out = validation_ && is_validation(text, options_.validation_fraction);
    TokenFileWriter& set = held_out ? *validation_ : *training_;
    while (!text.empty()) {
      const std::string_view piece = text.substr(0, kPieceBytes);
      text.remove_prefix(piece.size());
      ids_.clear();
      ByteTokenizer::encode(piece, ids_);
      if (text.empty()) ids_.push_back(ByteTokenizer::kEndOfDocument);
      set.append(ids_);
      on_piece(piece.size());
    }
    set.end_document();
  }

  void finish(TokenizeStatistics& statistics) {
    if (training_->documents() == 0) {
      throw IoError(options_.output +
                    ": no text for it was found in the inputs. Name other files, " +
                    "other extensions, or a smaller validation fraction");
    }
    if (validation_ && validation_->documents() == 0) {
      throw IoError(options_.validation_output + ": no document fell to it. Ask for a larger " +
                    "validation fraction, or give more and smaller files");
    }
    training_->finish();
    statistics.documents = training_->documents();
    statistics.tokens = training_->tokens();
    if (!validation_) return;
    validation_->finish();
    statistics.validation_documents = validation_->documents();
    statistics.validation_tokens = validation_->tokens();
  }

 private:
  const TokenizeOptions& options_;
  std::unique_ptr<TokenFileWriter> training_;
  std::unique_ptr<TokenFileWriter> validation_;
  std::vector<std::int32_t> ids_;
};

TokenizeStatistics tokenize_files(const TokenizeOptions& options,
                                  const std::vector<std::string>& files) {
  TokenizeProgress progress;
  progress.files = static_cast<std::int64_t>(files.size());
  for (const std::string& file : files) progress.bytes += fs::file_size(file);
  const auto report = [&] {
    if (options.progress) options.progress(progress);
  };

  Sets sets(options);
  TokenizeStatistics statistics;
  std::string first_skipped;
  for (const std::string& file : files) {
    const MappedFile mapping(file);
    const std::string_view text(reinterpret_cast<const char*>(mapping.data()), mapping.bytes());
    if (text.empty()) {
      ++statistics.empty_files;
    } else if (!is_valid_utf8(text)) {
      if (statistics.skipped_files++ == 0) first_skipped = file;
      progress.bytes_done += text.size();
    } else {
      sets.add_document(text, [&](std::size_t bytes) {
        progress.bytes_done += bytes;
        report();
      });
    }
    ++progress.files_done;
    report();
  }
  if (statistics.skipped_files > 0) {
    log::warn("tokenize: {} of {} files are not valid UTF-8 and were skipped, first {}",
              statistics.skipped_files, files.size(), first_skipped);
  }
  sets.finish(statistics);
  return statistics;
}

}  // namespace

TokenizeStatistics tokenize(const TokenizeOptions& options) {
  check_options(options);
  try {
    return tokenize_files(options, files_of(options));
  } catch (const fs::filesystem_error& error) {
    throw IoError(error.path1().string() + ": cannot be read: " + error.code().message());
  }
}

}  // namespace strata
