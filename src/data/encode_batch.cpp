// What a thread of tokenize() does with its part of the input: texts and records become ids here,
// and whatever is wrong with one is kept, by its place, for the thread that writes.

#include "data/encode_batch.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

#include "data/byte_stream.h"
#include "data/open_input.h"
#include "data/record_reader.h"
#include "data/text_hash.h"
#include "data/text_survey.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/file.h"

namespace strata {
namespace {

void add_document(EncodeBatch& batch, std::string_view text, std::uint64_t hash, std::int64_t line,
                  const DocumentEncoder& encoder, EncodeCache& cache) {
  encoder.encode(text, cache, batch.ids);
  if (!batch.loss.empty()) batch.loss.resize(batch.ids.size(), 1);
  batch.documents.push_back({.end = batch.ids.size(), .hash = hash, .line = line});
}

EncodedConversation encoded_conversation(std::string_view json, const DocumentEncoder& encoder,
                                         EncodeCache& cache) {
  EncodedConversation encoded = encoder.encode_conversation(json, cache);
  if (encoded.text.find('\0') != encoded.text.npos) {
    throw IoError(
        "has a zero byte (\\u0000) in what it says, which is no text. Remove it, or the "
        "record");
  }
  return encoded;
}

void append(EncodeBatch& batch, const EncodedConversation& encoded) {
  batch.loss.resize(batch.ids.size(), 1);
  batch.ids.insert(batch.ids.end(), encoded.ids.begin(), encoded.ids.end());
  batch.loss.insert(batch.loss.end(), encoded.loss.begin(), encoded.loss.end());
}

void note_kind(EncodeBatch& batch, RecordKind kind) {
  ++batch.conversations;
  if (std::ranges::find(batch.kinds, kind) == batch.kinds.end()) batch.kinds.push_back(kind);
}

void add_conversation(EncodeBatch& batch, RecordKind kind, std::string_view record,
                      std::int64_t line, const DocumentEncoder& encoder, EncodeCache& cache) {
  const EncodedConversation encoded =
      kind == RecordKind::kMessages
          ? encoded_conversation(record, encoder, cache)
          : encoded_conversation(as_conversation(kind, record), encoder, cache);
  note_kind(batch, kind);
  if (!encoded.teaches()) {
    batch.without_loss.push_back(line);
    return;
  }
  append(batch, encoded);
  batch.documents.push_back(
      {.end = batch.ids.size(), .hash = hash_text(encoded.text), .line = line});
}

void add_pair(EncodeBatch& batch, std::string_view record, std::int64_t line,
              const DocumentEncoder& encoder, EncodeCache& cache) {
  const ConversationPair pair = as_pair(record);
  const EncodedConversation chosen = encoded_conversation(pair.chosen, encoder, cache);
  const EncodedConversation rejected = encoded_conversation(pair.rejected, encoder, cache);
  note_kind(batch, RecordKind::kPair);
  if (!chosen.teaches() || !rejected.teaches()) {
    batch.without_loss.push_back(line);
    return;
  }
  append(batch, chosen);
  append(batch, rejected);
  batch.documents.push_back({.end = batch.ids.size(),
                             .hash = hash_text(chosen.text + rejected.text),
                             .line = line,
                             .chosen = chosen.ids.size()});
}

/// Reads the whole file, unless its beginning tells that it is no text.
void read(EncodeBatch& batch, bool as_text) {
  const InputFile file(batch.file->name);
  if (file.bytes() > kMostDocumentBytes) {
    if (!as_text) batch.not_text = other_than_text(read_beginning(file), batch.file->name);
    if (batch.not_text) return;
    throw IoError(batch.file->name + ": has " + format_bytes(file.bytes()) +
                  ", and a document up to " + format_bytes(kMostDocumentBytes) +
                  "; split it into several files");
  }
  batch.text.emplace(file.bytes(), '\0');
  file.read(0, std::as_writable_bytes(std::span(*batch.text)));
}

void encode_text(EncodeBatch& batch, const TokenizeOptions& options, const DocumentEncoder& encoder,
                 EncodeCache& cache) {
  const bool as_text = options.format == InputFormat::kText;
  const bool whole_file = !batch.text;
  if (whole_file) read(batch, as_text);
  if (batch.not_text) return;
  const std::string_view name = batch.file->name;
  const std::string_view text = without_mark(*batch.text);
  const TextSurvey survey = survey_text(text, whole_file ? name : without_packing(name), as_text);
  batch.not_text = survey.not_text;
  if (batch.not_text) return;
  if (text.empty()) {
    ++batch.empty_documents;
  } else {
    add_document(batch, text, survey.hash, /*line=*/0, encoder, cache);
  }
}

void encode_records(EncodeBatch& batch, const TokenizeOptions& options,
                    const DocumentEncoder& encoder, EncodeCache& cache) {
  for_each_record(
      {.text = *batch.text,
       .first_line = batch.first_line,
       .place = record_place(batch.file->name, batch.unit)},
      {.field = options.text_field, .format = options.format},
      [&](std::string_view json, const Record& record, std::int64_t line) {
        if (record.kind == RecordKind::kPair) {
          add_pair(batch, json, line, encoder, cache);
        } else if (record.is_conversation()) {
          add_conversation(batch, record.kind, json, line, encoder, cache);
        } else if (record.text.empty()) {
          ++batch.empty_documents;
        } else {
          add_document(batch, record.text, hash_text(record.text), line, encoder, cache);
        }
      },
      [&](const IoError& bad) {
        batch.bad_records.emplace_back(bad.what());
        return std::ssize(batch.bad_records) <= options.skip_bad;
      });
}

}  // namespace

void encode_batch(EncodeBatch& batch, const TokenizeOptions& options,
                  const DocumentEncoder& encoder, EncodeCache& cache) {
  if (batch.first_line > 0) {
    encode_records(batch, options, encoder, cache);
  } else {
    encode_text(batch, options, encoder, cache);
  }
  batch.text.reset();
}

}  // namespace strata
