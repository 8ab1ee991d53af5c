// `evaluate` scores a token file or a text in windows, or records one by one, by what the input is.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "commands/evaluations.h"
#include "commands/input_lines.h"
#include "commands/model_session.h"
#include "strata/base/error.h"
#include "strata/commands/generate.h"
#include "strata/data/compatible.h"
#include "strata/data/open_source.h"
#include "strata/train/training_data.h"

namespace strata {

namespace {

/// The tokens of a text.
class TextTokens final : public TokenSource {
 public:
  TextTokens(std::string name, std::vector<std::int32_t> ids)
      : name_(std::move(name)), ids_(std::move(ids)) {}
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] std::int64_t size() const override { return std::ssize(ids_); }
  [[nodiscard]] std::int64_t vocabulary() const override { return 0; }
  [[nodiscard]] std::uint64_t tokenizer_hash() const override { return 0; }
  void read(std::int64_t begin, std::span<std::int32_t> out) const override {
    check_range(*this, begin, std::ssize(out));
    std::copy_n(ids_.begin() + begin, out.size(), out.begin());
  }
  void document_ends_in(std::int64_t, std::int64_t, std::vector<std::int64_t>&) const override {}

 private:
  std::string name_;
  std::vector<std::int32_t> ids_;
};

bool is_token_file(const std::string& name) {
  return name.ends_with(".bin") || name.ends_with(".idx");
}

void require_no_truncation(const EvaluateOptions& options, const std::string& name) {
  if (!options.truncate) return;
  throw ConfigError("--truncate: is about records, and " + name +
                    " is read in windows, of which none is too long; leave it out");
}

/// Opens a token file as the run reads its own; in its rows, where it is evaluated by these.
std::unique_ptr<TokenSource> open_tokens(const std::string& file, std::optional<RunConfig>& run,
                                         bool in_rows) {
  if (!run) return open_token_source(file);
  if (!in_rows) return open_files(run->data, {.files = {file}});
  run->data.validation = file;
  return open_validation_set(*run);
}

}  // namespace

int evaluate_command(const EvaluateOptions& options) {
  const NamedModel model("evaluate", options.model);
  if (!options.jsonl && is_token_file(options.input)) {
    require_no_truncation(options, options.input);
    std::optional<RunConfig> run = model.run();
    const bool as_validated = run && !options.model.context && !options.stride;
    const std::unique_ptr<TokenSource> tokens = open_tokens(options.input, run, as_validated);
    const std::filesystem::path named(options.model.tokenizer);
    require_tokenizer_of(
        {.vocabulary = model.config().vocab_size,
         .folder = named.empty()                          ? model.folder().string()
                   : std::filesystem::is_directory(named) ? named.string()
                                                          : named.parent_path().string()},
        *tokens);
    if (as_validated) {
      evaluate_rows(options, model, *run, *tokens);
    } else {
      evaluate_windows(options, model, *tokens, {});
    }
    return 0;
  }
  InputLines lines(options.input, options.jsonl);
  if (lines.has_records() && options.stride) {
    throw ConfigError("--stride: is about windows of one text, and " + lines.name() +
                      " has records, each of which is scored whole; leave it out");
  }
  if (!lines.has_records()) require_no_truncation(options, lines.name());
  if (lines.has_records()) {
    evaluate_records(options, model, lines);
  } else {
    const TextTokens tokens(lines.name(), model.text().encode(lines.text(), false));
    evaluate_windows(options, model, tokens, lines.text().size());
  }
  return 0;
}

}  // namespace strata
