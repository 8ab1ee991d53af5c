// `tokenizer train` makes the output folder, has the data layer train on the inputs, and writes the
// two files of a tokenizer there. The folder gets its name when both are whole.

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/stop_signals.h"
#include "strata/base/text.h"
#include "strata/base/work_meter.h"
#include "strata/checkpoint/files.h"
#include "strata/checkpoint/new_folder.h"
#include "strata/commands/commands.h"
#include "strata/train/next_step.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";

/// Throws ConfigError for a folder that holds more than a tokenizer: a model is not replaced by a
/// tokenizer.
void require_only_tokenizer(Files& files, const fs::path& folder) {
  if (files.kind(folder) != Files::Kind::kFolder) return;
  for (const std::string& file : files.list(folder)) {
    if (file == kTokenizer || file == kTokenizerConfig) continue;
    throw ConfigError(printable_name(folder.string()) + ": is not replaced, since it holds " +
                      printable_name(file) +
                      ", which is no file of a tokenizer; name another folder");
  }
}

}  // namespace

int tokenizer_train_command(const TrainTokenizerCommand& command) {
  const std::unique_ptr<Files> files = make_system_files();
  if (command.overwrite) require_only_tokenizer(*files, command.output);
  NewFolder folder(*files, command.output,
                   command.overwrite ? OldModel::kReplace : OldModel::kRefuse);
  const StopSignals stop;
  TrainTokenizerOptions options = command.options;
  constexpr const char* kWork = "tokenizer train";
  WorkProgress work;
  work.begin(kWork);
  const WorkMeter meter(work, WorkMeter::Elsewhere::kLogged);
  const auto vocabulary = static_cast<std::uint64_t>(options.training.vocabulary);
  bool learns = false;
  options.progress = [&](const TrainTokenizerProgress& progress) {
    if (const int signal = stop.received()) throw Interrupted(signal);
    if (progress.ids == 0) return work.set(progress.bytes_done, progress.bytes);
    if (!std::exchange(learns, true)) work.begin(kWork, {vocabulary, "ids"});
    work.set(static_cast<std::uint64_t>(progress.ids));
  };
  const TrainedOnFiles made = train_tokenizer(options);
  const TrainedTokenizer& tokenizer = made.tokenizer;
  const auto write = [&](const char* file, const std::string& text) {
    write_whole(*files, folder.path() / file, std::as_bytes(std::span(text)));
  };
  write(kTokenizer, tokenizer.tokenizer_json);
  write(kTokenizerConfig, tokenizer.tokenizer_config_json);
  folder.publish();
  if (tokenizer.vocabulary < options.training.vocabulary) {
    log::warn("tokenizer train: the texts have pairs for {} ids only, not {}; give more text",
              tokenizer.vocabulary, options.training.vocabulary);
  }
  std::cout << printable_name(command.output.string()) << ": " << format_count(tokenizer.vocabulary)
            << " ids, " << format_count(tokenizer.merges) << " merges, from "
            << format_count(made.files) << " files, " << format_bytes(made.bytes) << " with "
            << format_count(static_cast<std::int64_t>(made.pieces)) << " distinct pieces\n"
            << std::flush;
  say_next("strata tokenize TEXTS --tokenizer " + shell_word(command.output) +
           " --output train.bin");
  return 0;
}

}  // namespace strata
