// Makes token files of text and of conversations: what `strata tokenize` does after it has read its
// arguments. Each file, or each record, is a document; a share of them can go to a validation set.
// Output files appear only when everything has been written. What is plainly not text is not
// tokenized.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/data/conversation_encoder.h"
#include "strata/tokenizer/tokenizer.h"

namespace strata {

/// How far tokenize() has come; bytes are those of the input files.
struct TokenizeProgress {
  std::int64_t files_done = 0;
  std::int64_t files = 0;
  std::size_t bytes_done = 0;
  std::size_t bytes = 0;
};

/// Whether documents begin, or end, with the special token that says so.
enum class PutToken : std::uint8_t { kAuto, kAlways, kNever };

/// What inputs are.
enum class InputFormat : std::uint8_t {
  /// Records where a file's name ends with .jsonl or .ndjson or, of a file that the user names,
  /// where it begins like one or like a list of them; else text, unless its name or first bytes are
  /// those of another format, or it has zero bytes.
  kAuto,
  kText,      ///< text, if it is valid UTF-8: also JSON, and what looks like another format
  kRecords,   ///< each line, or entry of a list, is an object of JSON: a conversation or document
  kShareGpt,  ///< as kRecords, and each is a conversation of ShareGPT's
  kAlpaca,    ///< as kRecords, and each is a task of Alpaca's
  kPairs,     ///< as kRecords, and each has a chosen and a rejected answer
};

/// A document that was encoded.
struct EncodedDocument {
  std::string name;  ///< the file, for a record with its line
  std::span<const std::int32_t> ids;
  std::span<const std::uint8_t>
      loss;                ///< for each id, 0 if its loss does not count; empty: it does
  std::size_t chosen = 0;  ///< ids of a pair's chosen answer, which come first; 0: it is no pair
};

/// What to tokenize, and where to.
struct TokenizeOptions {
  /// Files, folders that are searched recursively, and "-" for standard input. Files may be packed
  /// by gzip or zstd.
  std::vector<std::string> inputs{};
  std::string output{};             ///< token file of the training set
  std::string validation_output{};  ///< token file of the validation set, if the fraction is > 0
  /// The share of the documents that goes to the validation set, in [0, 1). The hash of a
  /// document's text decides, so it stays on its side when files are added or renamed, and its
  /// copies go with it.
  double validation_fraction = 0;
  /// Endings of the files that are taken from folders, before .gz or .zst; an empty list takes
  /// every file. A file that is named in `inputs` itself is always taken.
  std::vector<std::string> extensions{".txt", ".text", ".md", ".rst"};
  /// The file of a model's tokenizer, or its folder; empty for the ByteTokenizer. The others are
  /// for it alone: with kAuto a document begins as the tokenizer begins texts, and ends with the
  /// end-of-sequence token if the tokenizer names one. A document that begins or ends with such a
  /// token itself gets no second one.
  std::string tokenizer{};
  PutToken bos = PutToken::kAuto;
  PutToken eos = PutToken::kAuto;
  bool parse_special = false;  ///< take texts of special tokens in what is read for these tokens
  InputFormat format = InputFormat::kAuto;
  /// The member of a record that is the document. Empty: a record with "messages", or with
  /// "prompt" and "completion", is a conversation, and "text" the document of any other.
  std::string text_field{};
  /// Makes texts of conversations: a built-in template or a file of one; empty for the model's own,
  /// which lies beside the tokenizer. Nothing is put around what it writes.
  std::string chat_template{};
  ChatLoss loss = ChatLoss::kAssistant;  ///< of conversations
  std::size_t threads = 0;               ///< that encode; 0: as many as there are usable cores
  /// Outputs are cut where documents end into files of at most so many tokens, or of one longer
  /// document, that are named by shard_file(); 0: one file each.
  std::int64_t shard_tokens = 0;
  std::int64_t skip_bad = 0;  ///< left out, named and counted, are up to so many bad records
  bool overwrite = false;     ///< replace outputs that are there and are not token files
  /// If there is one, it is called by the calling thread for each document instead of writing it,
  /// in their order, until it returns false; no output is named then, nor written. `tokenizer` is
  /// null for the ByteTokenizer.
  std::function<bool(const EncodedDocument& document, const Tokenizer* tokenizer)> show{};
  /// Called by the calling thread after every piece of a file that was read or written, and after
  /// every file; may be empty. If it throws, no output file is made.
  std::function<void(const TokenizeProgress&)> progress{};
};

/// What tokenize() has made.
struct TokenizeStatistics {
  std::int64_t documents = 0;  ///< documents of the training set
  std::int64_t tokens = 0;
  std::int64_t validation_documents = 0;
  std::int64_t learnt_tokens = 0;  ///< those of the training set whose loss counts
  std::int64_t validation_tokens = 0;
  std::int64_t validation_learnt_tokens = 0;
  std::int64_t shards = 0;  ///< of the training set; 0 if it is one file
  std::int64_t validation_shards = 0;
  std::int64_t skipped_files = 0;    ///< found in folders and not text; warnings name the first
  std::int64_t empty_documents = 0;  ///< files and records without text
  std::int64_t bad_records = 0;      ///< left out; warnings name each
  std::int64_t conversations = 0;    ///< of both sets
  /// Left out, since the loss of no token of them counts; warnings name the first.
  std::int64_t conversations_without_loss = 0;
};

/// Makes token files of text; each file, or each record, is a document, in the order of `inputs`
/// and, within a folder, of the paths' bytes, whatever the number of threads. Blocks until they are
/// written. A document is in memory as a whole, and is 1 GiB at most, unless it is a plain file
/// that is tokenized by bytes. A file that is plainly not text (not UTF-8, archives, tables, zero
/// bytes) is refused if `inputs` name it, and skipped and counted if it was found in a folder; a
/// line that is no record is refused by file and line. Throws IoError for an input that cannot be
/// read or is refused and when a set would be empty, ConfigError for options that do not fit
/// together or a tokenizer that is refused, and for outputs that are inputs or are there and are no
/// token files; Error if writing fails. Then no output file is made or replaced, but for the shards
/// that were whole before: each appears when it is written, the first in place of all of an earlier
/// run.
TokenizeStatistics tokenize(const TokenizeOptions& options);

/// Returns the name of a shard, counted from 0: "train-00002.bin" of "train.bin".
[[nodiscard]] std::string shard_file(const std::string& output, std::int64_t shard);

}  // namespace strata
