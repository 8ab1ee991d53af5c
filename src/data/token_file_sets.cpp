// Writes the training and the validation set of `strata tokenize`. Nothing is published before both
// sets are complete on the disk, but for shards.

#include "data/token_file_sets.h"

#include <iterator>
#include <string>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/text.h"

namespace strata {

namespace {

/// Returns whether a document belongs to the validation set: 53 bits of its hash, as a number in
/// [0, 1), are below the fraction.
bool is_validation(std::uint64_t hash, double fraction) {
  return static_cast<double>(hash >> 11) * 0x1.0p-53 < fraction;
}

/// Says if the validation set is too small to measure by, or is another share than was asked for: a
/// document goes to one side as a whole, however many tokens it has.
void warn_of_share(const TokenizeOptions& options, const TokenizeStatistics& made) {
  constexpr std::int64_t kFewDocuments = 10;
  constexpr double kSmallShare = 0.01;
  constexpr double kFarOff = 2;  // times
  const auto tokens = static_cast<double>(made.validation_tokens);
  const double share = tokens / (tokens + static_cast<double>(made.tokens));
  const double asked = options.validation_fraction;
  const bool few = made.validation_documents < kFewDocuments;
  const bool off = share > kFarOff * asked || share * kFarOff < asked;
  if (!few && share >= kSmallShare && !off) return;
  log::warn(
      "tokenize: {}: {} document{} with {:.2g} % of all tokens fell to it, of {:.3g} % asked "
      "for; {}",
      options.validation_output, format_count(made.validation_documents),
      made.validation_documents == 1 ? "" : "s", 100 * share, 100 * asked,
      few || !off ? "its losses may be of few texts. Give more and smaller documents, or a "
                    "larger --validation-fraction"
                  : "some documents are much longer than others: give smaller ones");
}

}  // namespace

TokenFileSets::TokenFileSets(const TokenizeOptions& options, const TokenFileWriter::Format& format)
    : options_(options) {
  training_ = std::make_unique<TokenShards>(options.output, format, options.shard_tokens);
  if (options.validation_fraction > 0) {
    validation_ =
        std::make_unique<TokenShards>(options.validation_output, format, options.shard_tokens);
  }
}

TokenFileWriter& TokenFileSets::writer_for(std::uint64_t hash, std::int64_t tokens) {
  const bool validation = validation_ && is_validation(hash, options_.validation_fraction);
  return (validation ? validation_ : training_)->writer_for(tokens);
}

void TokenFileSets::add(const EncodedDocument& document, std::uint64_t hash) {
  const bool pair = document.chosen > 0;
  if (pairs_.value_or(pair) != pair) {
    throw IoError(options_.output +
                  ": would mix pairs of answers with other documents, and a run " +
                  "trains on either. Tokenize them into files of their own");
  }
  pairs_ = pair;
  TokenFileWriter& set = writer_for(hash, std::ssize(document.ids));
  if (pair) {
    set.mark_pairs();
    set.append(document.ids.first(document.chosen), document.loss.first(document.chosen));
    set.end_document();
    set.append(document.ids.subspan(document.chosen), document.loss.subspan(document.chosen));
  } else if (document.loss.empty()) {
    set.append(document.ids);
  } else {
    set.append(document.ids, document.loss);
  }
  set.end_document();
}

void TokenFileSets::finish(TokenizeStatistics& statistics) {
  if (training_->documents() == 0) {
    throw IoError(options_.output + ": no text for it was found in the inputs. Name other files, " +
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
  statistics.learnt_tokens = training_->learnt_tokens();
  statistics.shards = training_->shards();
  if (!validation_) return;
  statistics.validation_documents = validation_->documents();
  statistics.validation_tokens = validation_->tokens();
  statistics.validation_learnt_tokens = validation_->learnt_tokens();
  statistics.validation_shards = validation_->shards();
  warn_of_share(options_, statistics);
}

}  // namespace strata
