// Sources are compared one by one, in their order. That all ranks read the same files has been
// compared before (rank_agreement.h), so rank 0 looks for all of them.

#include "strata/train/data_contents.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "strata/base/error.h"
#include "strata/base/hex.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/launch/rank_agreement.h"
#include "strata/train/training_data.h"

namespace strata {

namespace {

std::vector<SourceContent> contents_of(const DataSection& data, const FileSources& sources) {
  std::vector<SourceContent> contents;
  for (const FileSource& source : sources.list) {
    contents.push_back(content_of(*open_files(data, source)));
  }
  return contents;
}

/// Returns the rows that a validation reads at most, or 0 if it reads all.
std::int64_t validation_rows(const RunConfig& config, int ranks) {
  std::int64_t rows = config.run.eval_batches;
  for (const std::int64_t factor :
       {config.schedule.rows, config.schedule.sub_batches, std::int64_t{ranks}}) {
    if (__builtin_mul_overflow(rows, factor, &rows)) {
      return std::numeric_limits<std::int64_t>::max();  // more than there are
    }
  }
  return rows;
}

/// Returns what differs of a source, or an empty text.
std::string difference(const SourceContent& was, const SourceContent& is) {
  std::string text;
  const auto add = [&](const char* what, const std::string& before, const std::string& now) {
    text += (text.empty() ? "" : ", ") + (what + (": was " + before)) + ", is " + now;
  };
  const auto count = [](const std::optional<std::int64_t>& number) {
    return number ? format_count(*number) : "not told";
  };
  if (was.tokens != is.tokens) add("tokens", count(was.tokens), count(is.tokens));
  if (was.documents != is.documents) add("documents", count(was.documents), count(is.documents));
  const bool told = was.tokenizer_hash != 0 && is.tokenizer_hash != 0;
  if (told && was.tokenizer_hash != is.tokenizer_hash) {
    add("tokenizer", hex_digits(was.tokenizer_hash), hex_digits(is.tokenizer_hash));
  }
  // A digest says nothing that tells a reader more than other counts do.
  if (text.empty() && was.digest != is.digest) {
    add("as many tokens, but others; digest", hex_digits(was.digest), hex_digits(is.digest));
  }
  return text;
}

/// Returns a line for each of the sources of a key whose content is another one. How many there are
/// is a matter of the key's value.
std::string differences(const std::string& key, const FileSources& sources,
                        const std::vector<SourceContent>& was,
                        const std::vector<SourceContent>& is) {
  std::string lines;
  for (std::size_t i = 0; i < std::min(was.size(), is.size()); ++i) {
    const std::string text = difference(was[i], is[i]);
    if (text.empty()) continue;
    FileSources source;
    source.list.push_back(sources.list[i]);
    lines += "\n  " + (is.size() > 1 ? key + "[" + std::to_string(i) + "]" : key) + " (" +
             source.text() + "): " + text;
  }
  return lines;
}

bool allows(const ResumeRequest& request, std::string_view key) {
  return std::ranges::find(request.allowed, key) != request.allowed.end();
}

/// Returns whether validations measure on other rows than those before the checkpoint.
bool validates_otherwise(const RunConfig& before, const RunConfig& now, const RunData& was,
                         const RunData& is) {
  const DataSection& a = before.data;
  const DataSection& b = now.data;
  if (b.validation.empty()) return false;
  const bool rows_known = was.contents.has_value();
  if (rows_known ? was.validation_rows != is.validation_rows
                 : before.run.eval_batches != now.run.eval_batches) {
    return true;
  }
  const bool same_content =
      was.contents ? !was.contents->validation.empty() &&
                         difference(was.contents->validation[0], is.contents->validation[0]).empty()
                   : a.validation == b.validation;
  return !same_content || a.sequence_length != b.sequence_length || a.dtype != b.dtype ||
         a.eos_token != b.eos_token || a.document_mask != b.document_mask ||
         a.packing != b.packing || a.overlong != b.overlong;
}

}  // namespace

RunData read_run_data(const RunConfig& config, int ranks) {
  const DataSection& data = config.data;
  RunData result;
  result.contents.emplace();
  if (!data.synthetic) result.contents->training = contents_of(data, data.train);
  result.contents->validation = contents_of(data, data.validation);
  result.step_tokens = config.step_tokens(ranks);
  result.validation_rows = validation_rows(config, ranks);
  return result;
}

std::string changed_training_data(const RunConfig& config, const RunData& was) {
  if (!was.contents || config.data.synthetic) return {};
  return differences("data.train", config.data.train, was.contents->training,
                     contents_of(config.data, config.data.train));
}

std::vector<std::string> compare_data(const RunConfig& config, RunData& now,
                                      const FoundCheckpoint& checkpoint,
                                      const ResumeRequest& request) {
  const std::string folder = checkpoint.folder.string();
  const RunData& was = checkpoint.manifest.data;
  const RunConfig before =
      parse_run_config(checkpoint.manifest.config, (checkpoint.folder / kManifestName).string());
  std::vector<std::string> lines;
  if (was.contents) {
    const bool anything = allows(request, kDataOfAnyContent);
    const std::string training = differences("data.train", config.data.train,
                                             was.contents->training, now.contents->training);
    const std::string validation = differences("data.validation", config.data.validation,
                                               was.contents->validation, now.contents->validation);
    const std::string refused = (allows(request, "data.train") ? "" : training) + validation;
    if (!refused.empty() && !anything) {
      throw ConfigError("--resume: " + folder +
                        " was saved by a run with other data; bring back those that it had, under "
                        "whatever name, or allow other ones by --allow data:" +
                        refused);
    }
    if (!(training + validation).empty()) lines.push_back("other data:" + training + validation);
  } else if (!now.contents->training.empty() || !now.contents->validation.empty()) {
    lines.push_back(folder +
                    " does not say what its data held, so nobody can tell whether they are still "
                    "the same");
  }
  if (was.step_tokens > 0 && was.step_tokens != now.step_tokens) {
    lines.push_back("a step has " + format_count(now.step_tokens) + " tokens now, and had " +
                    format_count(was.step_tokens) + " before " + folder +
                    "; run.steps and the learning rate go by steps");
  }
  now.validation_since = was.validation_since;
  if (validates_otherwise(before, config, was, now)) {
    now.validation_since = checkpoint.manifest.step;
    if (!before.data.validation.empty()) {
      lines.push_back("validation is on other data or rows than before step " +
                      std::to_string(checkpoint.manifest.step) +
                      ": its losses are not to be compared with earlier ones");
    }
  }
  return lines;
}

RunData agree_on_data(const RunConfig& config, const std::optional<FoundCheckpoint>& checkpoint,
                      const ResumeRequest& request, Ranks& ranks) {
  RunData data;
  fail_together(ranks, [&] {
    if (ranks.rank() != 0) return;
    data = read_run_data(config, ranks.size());
    if (!checkpoint) return;
    for (const std::string& line : compare_data(config, data, *checkpoint, request)) {
      log::warn("{}", line);
    }
  });
  const std::int64_t since =
      std::stoll(gather_texts(std::to_string(data.validation_since), ranks).front());
  data.step_tokens = config.step_tokens(ranks.size());
  data.validation_rows = validation_rows(config, ranks.size());
  data.validation_since = since;
  return data;
}

}  // namespace strata
