// Inputs become batches, which a pool of threads encodes and this thread writes in their order.
// Large plain files that are tokenized by bytes are read in pieces instead, so that memory does not
// grow with them. Nothing is published before both sets are complete on the disk.

#include "strata/data/tokenize.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/byte_stream.h"
#include "data/document_encoder.h"
#include "data/encode_batch.h"
#include "data/ordered_pool.h"
#include "data/record_reader.h"
#include "data/text_files.h"
#include "data/text_survey.h"
#include "data/tokenize_outputs.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/base/thread_pool.h"
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
  Sets(const TokenizeOptions& options, const TokenFileWriter::Format& format) : options_(options) {
    training_ = std::make_unique<TokenFileWriter>(options.output, format);
    if (options.validation_fraction > 0) {
      validation_ = std::make_unique<TokenFileWriter>(options.validation_output, format);
    }
  }

  /// Returns the set of a document by the hash of its text.
  TokenFileWriter& set_of(std::uint64_t hash) {
    return validation_ && is_validation(hash, options_.validation_fraction) ? *validation_
                                                                            : *training_;
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

/// What an input is taken for.
enum class Way : std::uint8_t { kFile, kText, kRecords };

/// Takes all inputs to the sets.
class Tokenization {
 public:
  Tokenization(const TokenizeOptions& options, const std::vector<TextFile>& files)
      : options_(options),
        encoder_(make_document_encoder(options)),
        sets_(options, encoder_->format()),
        caches_(options.threads > 0 ? options.threads : static_cast<std::size_t>(usable_cores())),
        pool_(
            caches_.size(),
            [this](EncodeBatch& batch, std::size_t worker) {
              encode_batch(batch, options_, *encoder_, caches_[worker]);
            },
            [this](EncodeBatch& batch) { take(batch); }) {
    progress_.files = std::ssize(files);
    for (const TextFile& file : files) progress_.bytes += file.bytes;
  }

  void add(const TextFile& file) {
    constexpr std::size_t kLargeFile = 16 * kMiB;  // several of these would be much memory
    std::unique_ptr<PeekStream> stream;
    const Way way = way_of(file, stream);
    if (way == Way::kRecords) return add_records(file, *stream);
    if (way == Way::kText) return add_text(file, *stream);
    const bool large = file.bytes > kLargeFile;
    if (large) pool_.drain();
    if (large && options_.tokenizer.empty()) return add_in_pieces(file);
    pool_.push(batch_of({.file = &file, .input_bytes = file.bytes}));
    if (large) pool_.drain();
  }

  TokenizeStatistics finish() {
    pool_.drain();
    skipped_.summarize(static_cast<std::size_t>(progress_.files));
    statistics_.skipped_files = skipped_.files();
    sets_.finish(statistics_);
    return statistics_;
  }

 private:
  static std::unique_ptr<EncodeBatch> batch_of(EncodeBatch batch) {
    return std::make_unique<EncodeBatch>(std::move(batch));
  }
  void report() const {
    if (options_.progress) options_.progress(progress_);
  }

  /// Tells what an input is taken for, and opens it unless it is a plain file of text. What was
  /// found in a folder must also have a name that promises it.
  Way way_of(const TextFile& file, std::unique_ptr<PeekStream>& stream) const {
    const std::string_view name = without_packing(file.name);
    bool records = options_.format == InputFormat::kRecords;
    bool packed = file.name == kStandardInput;
    std::string beginning;
    if (!packed) {
      beginning = read_beginning(InputFile(file.name));
      packed = is_packed(beginning) && (file.named || name.size() < file.name.size());
    }
    if (packed) {
      stream = open_byte_stream(file.name);
      beginning = stream->peek(kBeginningBytes);
    }
    if (options_.format == InputFormat::kAuto) {
      records = name.ends_with(".jsonl") || name.ends_with(".ndjson") ||
                (file.named && is_like_json_lines(beginning));
    }
    if (records && !stream) stream = open_byte_stream(file.name);
    return records ? Way::kRecords : packed ? Way::kText : Way::kFile;
  }

  void add_records(const TextFile& file, ByteStream& stream) {
    LineBlocks blocks(stream, shown_name(file.name));
    std::size_t consumed = 0;
    while (true) {
      LineBlock block = blocks.next();
      const bool is_last = block.text.empty();
      const std::size_t before = std::exchange(consumed, stream.consumed());
      pool_.push(batch_of({.file = &file,
                           .text = std::move(block.text),
                           .first_line = block.first_line,
                           .input_bytes = consumed - before,
                           .is_last = is_last}));
      if (is_last) return;
    }
  }

  void add_text(const TextFile& file, ByteStream& stream) {
    pool_.drain();
    std::string text = read_stream(stream, shown_name(file.name), kMostDocumentBytes);
    pool_.push(
        batch_of({.file = &file, .text = std::move(text), .input_bytes = stream.consumed()}));
    pool_.drain();
  }

  /// Takes a file by bytes, reading it twice: to see that it is text and to which set it belongs,
  /// and to write it.
  void add_in_pieces(const TextFile& text) {
    const InputFile file(text.name);
    EncodeBatch batch{.file = &text};
    const TextSurvey found =
        survey_text(file, options_.format == InputFormat::kText, [this] { report(); });
    batch.not_text = found.not_text;
    if (found.not_text) {
      batch.input_bytes = file.bytes();
    } else {
      TokenFileWriter& set = sets_.set_of(found.hash);
      std::vector<std::int32_t> ids;
      read_pieces(file, [&](std::string_view piece) {
        ids.clear();
        ByteTokenizer::encode(piece, ids);
        set.append(ids);
        progress_.bytes_done += piece.size();
        report();
        return true;
      });
      set.append(std::array{ByteTokenizer::kEndOfDocument});
      set.end_document();
    }
    take(batch);
  }

  /// Writes what was made of a batch.
  void take(const EncodeBatch& batch) {
    if (batch.not_text && batch.file->named) {
      throw IoError(shown_name(batch.file->name) + ": " + batch.not_text->what + ". " +
                    batch.not_text->remedy);
    }
    if (batch.not_text) skipped_.add(batch.file->name, *batch.not_text);
    std::size_t begin = 0;
    for (const EncodeBatch::Document& document : batch.documents) {
      TokenFileWriter& set = sets_.set_of(document.hash);
      set.append(std::span(batch.ids).subspan(begin, document.end - begin));
      set.end_document();
      begin = document.end;
    }
    statistics_.empty_documents += batch.empty_documents;
    progress_.bytes_done += batch.input_bytes;
    progress_.files_done += batch.is_last ? 1 : 0;
    report();
  }

  const TokenizeOptions& options_;
  std::unique_ptr<DocumentEncoder> encoder_;
  Sets sets_;
  TokenizeProgress progress_{};
  TokenizeStatistics statistics_{};
  Skipped skipped_{};
  std::vector<EncodeCache> caches_;  ///< of the pool's threads
  OrderedPool<EncodeBatch> pool_;
};

}  // namespace

TokenizeStatistics tokenize(const TokenizeOptions& options) {
  check_options(options);
  const std::vector<TextFile> files = find_text_files(options.inputs, options.extensions);
  check_outputs(options, files);
  Tokenization tokenization(options, files);
  for (const TextFile& file : files) tokenization.add(file);
  return tokenization.finish();
}

}  // namespace strata
