// The table shows the first rows, which is what one looks at after a loss that jumped; --files and
// --json have all of them.

#include "commands/inspect_step.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "strata/base/json.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/train/data_contents.h"
#include "strata/train/step_samples.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kRowsShown = 32;

std::string table_of(const FoundCheckpoint& checkpoint, const StepSamples& step, bool every_row) {
  const bool done = step.step <= checkpoint.manifest.step;
  std::string text =
      fmt::format("step {} {} {} samples of {} tokens, ranks: {}\n", format_count(step.step),
                  done ? "trained on" : "will train on", format_count(std::ssize(step.rows)),
                  format_count(step.tokens), step.ranks);
  for (const StepSource& source : step.sources) {
    text += fmt::format("of {}, which has {} samples\n", printable_name(source.name),
                        format_count(source.samples));
  }
  text +=
      fmt::format("\n{:>14} {:>6} {:>5} {:>10} {:>5} {:>4} {:>16}  {:>13}  {}\n", "sample", "epoch",
                  "pass", "sub-batch", "rank", "row", "first token", "documents end", "file");
  const std::size_t shown = every_row ? step.rows.size() : std::min(kRowsShown, step.rows.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const StepRow& row = step.rows[i];
    text += fmt::format("{:>14} {:>6} {:>5} {:>10} {:>5} {:>4} {:>16}  {:>13}  {}\n",
                        format_count(row.sample), format_count(row.epoch), row.pass, row.sub_batch,
                        row.rank, row.row, format_count(row.place.token),
                        row.document_ends.empty() ? "" : std::to_string(row.document_ends.size()),
                        printable_name(row.place.file));
  }
  if (const std::size_t left = step.rows.size() - shown; left > 0) {
    text += fmt::format("and {} more; --files lists all\n",
                        format_count(static_cast<std::int64_t>(left)));
  }
  return text;
}

Json step_json(const FoundCheckpoint& checkpoint, const StepSamples& step) {
  Json json{{"kind", "step"},           {"path", checkpoint.folder.string()},
            {"step", step.step},        {"done", step.step <= checkpoint.manifest.step},
            {"ranks", step.ranks},      {"row_tokens", step.tokens},
            {"sources", Json::array()}, {"rows", Json::array()}};
  for (const StepSource& source : step.sources) {
    json["sources"].push_back({{"name", source.name}, {"samples", source.samples}});
  }
  for (const StepRow& row : step.rows) {
    json["rows"].push_back({{"sample", row.sample},
                            {"epoch", row.epoch},
                            {"pass", row.pass},
                            {"sub_batch", row.sub_batch},
                            {"rank", row.rank},
                            {"row", row.row},
                            {"source", row.source},
                            {"first_token", row.first_token},
                            {"file", row.place.file},
                            {"file_token", row.place.token},
                            {"document_ends", row.document_ends}});
  }
  return json;
}

}  // namespace

std::string step_text(const FoundCheckpoint& checkpoint, const InspectOptions& options) {
  const RunConfig config =
      parse_run_config(checkpoint.manifest.config, (checkpoint.folder / kManifestName).string());
  const StepSamples step =
      samples_of_step(checkpoint.manifest, config, *options.step, options.ranks);
  const std::string changed = changed_training_data(config, checkpoint.manifest.data);
  if (!changed.empty()) log::warn("the run has trained on other data than these files:{}", changed);
  if (!options.json) return table_of(checkpoint, step, options.every_file);
  return json_text(step_json(checkpoint, step), 2, NotUtf8::kReplace) + '\n';
}

}  // namespace strata
