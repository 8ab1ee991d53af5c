// Reads each file twice, in pieces, so that memory does not grow with the size of a file: once to
// see that it is text and to which set it belongs, and once to write its tokens. Nothing is
// published before both sets are complete on the disk.

#include "strata/data/tokenize.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_files.h"
#include "data/text_survey.h"
#include "data/tokenize_outputs.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/data/byte_tokenizer.h"
#include "strata/data/token_file.h"

namespace strata {

namespace {

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
}

/// Returns whether a document belongs to the validation set: 53 bits of its hash, as a number in
/// [0, 1), are below the fraction.
bool is_validation(std::uint64_t hash, double fraction) {
  return static_cast<double>(hash >> 11) * 0x1.0p-53 < fraction;
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
  void add_document(const InputFile& file, std::uint64_t hash, const OnPiece& on_piece) {
    const bool held_out = validation_ && is_validation(hash, options_.validation_fraction);
    TokenFileWriter& set = held_out ? *validation_ : *training_;
    read_pieces(file, [&](std::string_view piece) {
      ids_.clear();
      ByteTokenizer::encode(piece, ids_);
      set.append(ids_);
      on_piece(piece.size());
      return true;
    });
    set.append(std::array{ByteTokenizer::kEndOfDocument});
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
    training_->close();
    if (validation_) validation_->close();
    training_->publish();
    if (validation_) validation_->publish();
    statistics.documents = training_->documents();
    statistics.tokens = training_->tokens();
    if (!validation_) return;
    statistics.validation_documents = validation_->documents();
    statistics.validation_tokens = validation_->tokens();
  }

 private:
  const TokenizeOptions& options_;
  std::unique_ptr<TokenFileWriter> training_;
  std::unique_ptr<TokenFileWriter> validation_;
  std::vector<std::int32_t> ids_;
};

/// Counts what was found in folders and is not text, and names the first of it.
class Skipped {
 public:
  void add(const std::string& file, const FileKind& kind) {
    constexpr std::int64_t kNamed = 10;
    if (files_++ < kNamed) log::warn("tokenize: left out {}: {}", file, kind.what);
  }
  void summarize(std::size_t of) const {
    if (files_ == 0) return;
    log::warn("tokenize: {} of {} files were left out, since they are not plain text in UTF-8",
              files_, of);
  }
  [[nodiscard]] std::int64_t files() const { return files_; }

 private:
  std::int64_t files_ = 0;
};

}  // namespace

TokenizeStatistics tokenize(const TokenizeOptions& options) {
  check_options(options);
  const std::vector<TextFile> files = find_text_files(options.inputs, options.extensions);
  check_outputs(options, files);

  TokenizeProgress progress;
  progress.files = std::ssize(files);
  for (const TextFile& file : files) progress.bytes += file.bytes;
  const std::function<void()> report = [&] {
    if (options.progress) options.progress(progress);
  };

  Sets sets(options);
  TokenizeStatistics statistics;
  Skipped skipped;
  for (const TextFile& text : files) {
    const InputFile file(text.name);
    const TextSurvey found = survey_text(file, options.as_text, report);
    if (found.not_text && text.named) {
      throw IoError(text.name + ": " + found.not_text->what + ". " + found.not_text->remedy);
    }
    if (file.bytes() == 0) {
      ++statistics.empty_files;
    } else if (found.not_text) {
      skipped.add(text.name, *found.not_text);
      progress.bytes_done += file.bytes();
    } else {
      sets.add_document(file, found.hash, [&](std::size_t bytes) {
        progress.bytes_done += bytes;
        report();
      });
    }
    ++progress.files_done;
    report();
  }
  skipped.summarize(files.size());
  statistics.skipped_files = skipped.files();
  sets.finish(statistics);
  return statistics;
}

}  // namespace strata
