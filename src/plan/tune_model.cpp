// A config.json of Hugging Face and a run config are told apart by their keys. A model alone gets
// the defaults of a run, rows of up to 4096 tokens and clipping at 1, as most recipes have it.

#include "strata/plan/tune_model.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/model/config.h"
#include "strata/runfiles/named_adapter.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostConfigBytes = kMiB;
/// Rows and clipping of a model that comes without a run config.
constexpr std::int64_t kUsualRowTokens = 4096;
constexpr double kUsualClip = 1.0;
/// Tokens of a rank's step where nobody says how many.
constexpr std::int64_t kUsualStepTokens = 65536;
/// More than these no step has; a search for what divides them would have no end.
constexpr std::int64_t kMostStepTokens = std::int64_t{1} << 40;
constexpr std::int64_t kMostStepRows = std::int64_t{1} << 31;

/// Keys that can be searched.
constexpr std::array<std::string_view, 9> kSearched{
    "schedule.rows",           "schedule.sub_batches",   "schedule.passes",  "optimizer.timing",
    "optimizer.gradient_ring", "optimizer.moment_dtype", "optimizer.master", "run.products",
    "adapter.base_format"};

bool contains(const std::vector<std::string>& keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

/// Returns the assignments of options that stand for keys, after those of --set.
std::vector<std::string> assignments(const TuneRequest& request) {
  std::vector<std::string> sets = request.sets;
  if (request.sequence_length) {
    sets.push_back("data.sequence_length=" + std::to_string(*request.sequence_length));
  }
  if (!request.grad_clip.empty()) {
    sets.push_back("optimizer.grad_clip=" +
                   (request.grad_clip == "none" ? "null" : request.grad_clip));
  }
  if (!request.backend.empty()) sets.push_back("run.backend=" + request.backend);
  return sets;
}

/// Returns the folder that a file is in.
fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

/// Returns the file that says what the model is.
fs::path config_file(const fs::path& model) {
  std::error_code ignored;
  return fs::is_directory(model, ignored) ? model / "config.json" : model;
}

bool has_weights(const fs::path& folder) {
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().extension() == ".safetensors") return true;
  }
  return false;
}

/// Reads a run config. What stands in for a training set is not written later.
void read_run(const fs::path& file, std::span<const std::string> sets, std::string_view text,
              TuneModel& model) {
  model.base =
      load_run_config(file, sets, TrainingData::kOptional, {.adapter = find_start_adapter});
  RunConfig as_read;
  read_fields(as_read, text, file.string(), sets);
  model.given = model.base;
  model.given.data = as_read.data;
  model.given.data.train = model.base.data.train;  // patterns are expanded
  model.given.run.eval_every = as_read.run.eval_every;
  model.given.optimizer.warmup_steps = as_read.optimizer.warmup_steps;
}

/// Makes a run of a model alone.
void read_model(const fs::path& file, std::span<const std::string> sets, TuneModel& model) {
  RunConfig& config = model.given;
  config.model.llama = load_llama_config(file);
  if (has_weights(folder_of(file))) config.model.path = folder_of(file).string();
  config.data.sequence_length =
      std::min(kUsualRowTokens, config.model.llama.max_position_embeddings);
  config.optimizer.grad_clip = kUsualClip;
  read_fields(config, "{}", file.string(), sets);
  expand_patterns(config.data.train);
  expand_patterns(config.data.validation);
  model.base = config;
  if (config.data.train.empty()) {
    model.base.run.epochs.reset();
    model.base.data.synthetic = true;
    model.base.data.validation.clear();
    model.base.run.eval_every = 0;
  }
  model.base.validate(file.string());
}

/// Returns the rows of a rank's step that the config gives. Throws ConfigError if they are too
/// many.
std::int64_t given_step_rows(const ScheduleSection& schedule) {
  const std::array<std::int64_t, 3> counts{schedule.rows, schedule.sub_batches, schedule.passes};
  std::int64_t rows = 1;
  for (const std::int64_t count : counts) {
    if (count > kMostStepRows / rows) {
      throw ConfigError(
          "schedule.rows, schedule.sub_batches and schedule.passes make a step of more than " +
          format_count(kMostStepRows) + " rows; lower them");
    }
    rows *= count;
  }
  return rows;
}

/// Returns the rows of a rank's step of so many tokens of all ranks. Throws ConfigError if they are
/// no whole rows, or too many.
std::int64_t step_rows_for(std::int64_t tokens, std::int64_t sequence_length, int ranks) {
  if (tokens > kMostStepTokens || sequence_length > kMostStepTokens / ranks) {
    throw ConfigError("--tokens: a step has " + format_count(kMostStepTokens) +
                      " tokens at most; give fewer, or shorter rows (--sequence-length)");
  }
  const std::int64_t row_tokens = sequence_length * ranks;
  if (tokens % row_tokens != 0) {
    const std::int64_t below = std::max<std::int64_t>(1, tokens / row_tokens) * row_tokens;
    throw ConfigError(fmt::format(
        "--tokens: {} tokens are not as many whole rows of {} for each of {} rank{}; give {} or "
        "{}",
        tokens, sequence_length, ranks, ranks == 1 ? "" : "s", below, below + row_tokens));
  }
  if (tokens / row_tokens > kMostStepRows) {
    throw ConfigError("--tokens: a step of a rank has " + format_count(kMostStepRows) +
                      " rows at most; give fewer tokens, or longer rows (--sequence-length)");
  }
  return tokens / row_tokens;
}

std::string searched_keys() {
  std::string text;
  for (const std::string_view key : kSearched)
    text += (text.empty() ? "" : ", ") + std::string(key);
  return text;
}

}  // namespace

TuneModel load_tune_model(const TuneRequest& request) {
  const fs::path file = config_file(request.model);
  const std::string text = read_text_file(file, kMostConfigBytes);
  const std::vector<std::string> sets = assignments(request);
  TuneModel model;
  model.option_sets.assign(sets.begin() + std::ssize(request.sets), sets.end());
  RunConfig any;
  model.keys = given_paths(fields_of(any), text, file.string());
  const bool model_alone = contains(model.keys, "hidden_size");
  if (model_alone) model.keys.clear();
  model.typed_keys = given_paths(fields_of(any), "{}", "the command line", sets);
  model.keys.insert(model.keys.end(), model.typed_keys.begin(), model.typed_keys.end());
  if (model_alone) {
    read_model(file, sets, model);
  } else {
    read_run(file, sets, text, model);
  }
  if (request.tokens && !contains(model.typed_keys, "schedule.step_rows")) {
    model.base.schedule.step_rows.reset();
    model.given.schedule.step_rows.reset();
  }
  return model;
}

TuneSpace tune_space(const TuneModel& model, const TuneRequest& request, int ranks) {
  for (const std::string& key : request.allowed) {
    if (std::ranges::find(kSearched, key) == kSearched.end()) {
      throw ConfigError("--allow: " + printable_name(shortened(key)) +
                        " is not searched; these are: " + searched_keys());
    }
  }
  const auto searched = [&](std::string_view key, const std::vector<std::string>& given) {
    return contains(request.allowed, key) || !contains(given, key);
  };
  const bool shape_given = contains(model.keys, "schedule.rows") ||
                           contains(model.keys, "schedule.sub_batches") ||
                           contains(model.keys, "schedule.passes");
  TuneSpace space;
  if (request.tokens || !shape_given) {
    const std::int64_t tokens = request.tokens.value_or(kUsualStepTokens * ranks);
    space.step_rows = step_rows_for(tokens, model.base.data.sequence_length, ranks);
  } else {
    space.step_rows = given_step_rows(model.base.schedule);
  }
  const std::vector<std::string>& shape_keys = request.tokens ? model.typed_keys : model.keys;
  space.rows = searched("schedule.rows", shape_keys);
  space.sub_batches = searched("schedule.sub_batches", shape_keys);
  space.passes = searched("schedule.passes", shape_keys);
  space.timing = searched("optimizer.timing", model.keys);
  space.gradient_ring = searched("optimizer.gradient_ring", model.keys);
  space.moment_dtype = contains(request.allowed, "optimizer.moment_dtype");
  space.master = contains(request.allowed, "optimizer.master");
  space.products = contains(request.allowed, "run.products");
  space.base_format = contains(request.allowed, "adapter.base_format");
  if (space.base_format && !model.base.adapter) {
    throw ConfigError("--allow: adapter.base_format needs a config with a section adapter");
  }
  return space;
}

}  // namespace strata
