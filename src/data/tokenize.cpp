// Inputs become batches, which a pool of threads encodes and this thread writes in their order.
// Large plain files that are tokenized by bytes are read in pieces instead, so that memory does not
// grow with them.

#include "strata/data/tokenize.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/byte_stream.h"
#include "data/document_encoder.h"
#include "data/encode_batch.h"
#include "data/file_kind.h"
#include "data/foreign_record.h"
#include "data/open_input.h"
#include "data/ordered_pool.h"
#include "data/record_reader.h"
#include "data/text_files.h"
#include "data/text_survey.h"
#include "data/token_file_sets.h"
#include "data/tokenize_outputs.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/base/thread_pool.h"
#include "strata/data/byte_tokenizer.h"
#include "strata/data/token_file.h"
#include "strata/data/tokenizer_folder.h"

namespace strata {

namespace {

void check_options(const TokenizeOptions& options) {
  const double fraction = options.validation_fraction;
  if (options.inputs.empty()) throw ConfigError("tokenize: name at least one file or folder");
  refuse_vain_field(options.format, options.text_field);
  if (options.show) return;
  if (options.output.empty())
    throw ConfigError("tokenize: name the output file by --output, or look by --show");
  if (!(fraction >= 0 && fraction < 1)) {
    throw ConfigError("tokenize: the validation fraction must be in [0, 1), not " +
                      std::to_string(fraction));
  }
  if (options.shard_tokens < 0) {
    throw ConfigError("tokenize: --shard-tokens must be above 0, not " +
                      std::to_string(options.shard_tokens));
  }
  if ((fraction > 0) == options.validation_output.empty()) {
    throw ConfigError("tokenize: a validation fraction and a validation file need each other");
  }
}

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

/// Counts conversations that nothing can be learnt from, and names the first of them.
class WithoutLoss {
 public:
  void add(const EncodeBatch& batch) {
    constexpr std::int64_t kNamed = 10;
    for (const std::int64_t line : batch.without_loss) {
      if (conversations_++ >= kNamed) continue;
      log::warn("tokenize: left out {}{}: no token of it has loss",
                record_place(batch.file->name, batch.unit), line);
    }
  }
  void summarize(std::int64_t of, ChatLoss loss) const {
    if (conversations_ == 0) return;
    log::warn("tokenize: {} of {} conversations were left out, since {}", conversations_, of,
              loss == ChatLoss::kCompletion
                  ? "their last message is not the assistant's, or the template drops it"
                  : "no assistant says anything in them, or the template drops it");
  }
  [[nodiscard]] std::int64_t conversations() const { return conversations_; }

 private:
  std::int64_t conversations_ = 0;
};

/// Counts records that are bad and left out, and names each.
class BadRecords {
 public:
  explicit BadRecords(std::int64_t most) : most_(most) {}
  /// Throws IoError for one more than may be left out.
  void add(const std::string& why) {
    if (records_ == most_) {
      throw IoError(why + (most_ == 0 ? ""
                                      : ". " + format_count(most_) +
                                            " bad records were left out "
                                            "before (--skip-bad)"));
    }
    ++records_;
    log::warn("tokenize: left out {}", why);
  }
  void summarize() const {
    if (records_ > 0) log::warn("tokenize: {} bad records were left out", format_count(records_));
  }
  [[nodiscard]] std::int64_t records() const { return records_; }

 private:
  std::int64_t most_;
  std::int64_t records_ = 0;
};

/// Says once of each kind how its records are read, if that is not by their own words.
class Mappings {
 public:
  void add(const EncodeBatch& batch) {
    for (const RecordKind kind : batch.kinds) {
      if (kind == RecordKind::kMessages || !said_.insert(kind).second) continue;
      log::info("tokenize: {}: records are {}", shown_name(batch.file->name), mapping_text(kind));
    }
  }

 private:
  std::set<RecordKind> said_;
};

/// Takes all inputs to the sets.
class Tokenization {
 public:
  Tokenization(const TokenizeOptions& options, const std::vector<TextFile>& files)
      : options_(options),
        encoder_(make_document_encoder(options)),
        bad_(options.skip_bad),
        caches_(options.threads > 0 ? options.threads : static_cast<std::size_t>(usable_cores())),
        pool_(
            caches_.size(),
            [this](EncodeBatch& batch, std::size_t worker) {
              encode_batch(batch, options_, *encoder_, caches_[worker]);
            },
            [this](EncodeBatch& batch) { take(batch); }) {
    if (!options.show) sets_.emplace(options, encoder_->format());
    progress_.files = std::ssize(files);
    for (const TextFile& file : files) progress_.bytes += file.bytes;
  }

  void add(const TextFile& file) {
    constexpr std::size_t kLargeFile = 16 * kMiB;  // several of these would be much memory
    const OpenedInput input =
        open_input(file, {.field = options_.text_field, .format = options_.format});
    if (input.is_records) return add_records(file, input);
    if (input.stream) return add_text(file, *input.stream);
    const bool large = file.bytes > kLargeFile;
    if (large) pool_.drain();
    if (large && options_.tokenizer.empty() && sets_) return add_in_pieces(file);
    pool_.push(batch_of({.file = &file, .input_bytes = file.bytes}));
    if (large) pool_.drain();
  }

  /// Tells whether nobody wants to be shown more documents.
  [[nodiscard]] bool shown_enough() const { return shown_enough_; }

  TokenizeStatistics finish() {
    pool_.drain();
    skipped_.summarize(static_cast<std::size_t>(progress_.files));
    without_loss_.summarize(statistics_.conversations, options_.loss);
    bad_.summarize();
    statistics_.bad_records = bad_.records();
    statistics_.skipped_files = skipped_.files();
    statistics_.conversations_without_loss = without_loss_.conversations();
    if (!sets_) return statistics_;
    const auto folder = make_tokenizer_folder();
    sets_->finish(statistics_);
    if (folder) {
      folder->publish();
    } else {
      remove_tokenizer_folder(options_.output);
    }
    return statistics_;
  }

 private:
  /// Returns what a model that is trained on the conversations will need; null if there are none.
  [[nodiscard]] std::unique_ptr<NewTokenizerFolder> make_tokenizer_folder() const {
    const std::string& named = options_.chat_template;
    if (statistics_.conversations == 0) return nullptr;
    const auto chat_template =
        named.empty() ? ChatTemplate::of_model(options_.tokenizer) : ChatTemplate::load(named);
    if (!chat_template) return nullptr;
    const ConversationEncoder encoder(*encoder_->tokenizer(), *chat_template, options_.loss);
    return std::make_unique<NewTokenizerFolder>(options_.output, options_.tokenizer,
                                                named.empty() ? nullptr : &*chat_template,
                                                encoder.turn_end());
  }
  static std::unique_ptr<EncodeBatch> batch_of(EncodeBatch batch) {
    return std::make_unique<EncodeBatch>(std::move(batch));
  }
  void report() const {
    if (options_.progress) options_.progress(progress_);
  }

  void add_records(const TextFile& file, const OpenedInput& input) {
    ByteStream& stream = *input.stream;
    LineBlocks blocks(stream, record_place(file.name, input.unit));
    std::size_t consumed = 0;
    while (!shown_enough_) {
      LineBlock block = blocks.next();
      const bool is_last = block.text.empty();
      const std::size_t before = std::exchange(consumed, stream.consumed());
      pool_.push(batch_of({.file = &file,
                           .text = std::move(block.text),
                           .first_line = block.first_line,
                           .unit = input.unit,
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
      // With the document's end; a byte order mark is left out.
      const auto tokens = static_cast<std::int64_t>(file.bytes()) + 1;
      TokenFileWriter& set = sets_->writer_for(found.hash, tokens);
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
      refuse_kind(*batch.not_text, shown_name(batch.file->name));
    }
    if (batch.not_text) skipped_.add(batch.file->name, *batch.not_text);
    std::size_t begin = 0;
    for (const EncodeBatch::Document& document : batch.documents) {
      take(batch, document, begin);
      begin = document.end;
    }
    for (const std::string& why : batch.bad_records) bad_.add(why);
    mappings_.add(batch);
    without_loss_.add(batch);
    statistics_.empty_documents += batch.empty_documents;
    statistics_.conversations += batch.conversations;
    progress_.bytes_done += batch.input_bytes;
    progress_.files_done += batch.is_last ? 1 : 0;
    report();
  }

  /// Writes or shows a document, whose ids begin at `begin`.
  void take(const EncodeBatch& batch, const EncodeBatch::Document& document, std::size_t begin) {
    const std::size_t count = document.end - begin;
    EncodedDocument encoded{
        .name = {}, .ids = std::span(batch.ids).subspan(begin, count), .loss = {}};
    if (!batch.loss.empty()) encoded.loss = std::span(batch.loss).subspan(begin, count);
    encoded.chosen = document.chosen;
    if (sets_) return sets_->add(encoded, document.hash);
    if (shown_enough_) return;
    encoded.name = shown_name(batch.file->name);
    if (document.line > 0) {
      encoded.name = record_place(batch.file->name, batch.unit) + std::to_string(document.line);
    }
    shown_enough_ = !options_.show(encoded, encoder_->tokenizer());
  }

  const TokenizeOptions& options_;
  std::unique_ptr<DocumentEncoder> encoder_;
  BadRecords bad_;
  Mappings mappings_{};
  std::optional<TokenFileSets> sets_{};  ///< none if documents are shown
  bool shown_enough_ = false;
  TokenizeProgress progress_{};
  TokenizeStatistics statistics_{};
  Skipped skipped_{};
  WithoutLoss without_loss_{};
  std::vector<EncodeCache> caches_;  ///< of the pool's threads
  OrderedPool<EncodeBatch> pool_;
};

}  // namespace

TokenizeStatistics tokenize(const TokenizeOptions& options) {
  check_options(options);
  const std::vector<TextFile> files = find_text_files(options.inputs, options.extensions);
  if (!options.show) check_outputs(options, files);
  Tokenization tokenization(options, files);
  for (const TextFile& file : files) {
    if (!tokenization.shown_enough()) tokenization.add(file);
  }
  return tokenization.finish();
}

}  // namespace strata
