// `export` finds the checkpoint, has its model written to a new folder or file, and says what is in
// it.

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "commands/export_gguf.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/checkpoint/export_model.h"
#include "strata/checkpoint/new_model.h"
#include "strata/commands/commands.h"
#include "strata/runfiles/find_checkpoint.h"
#include "strata/train/next_step.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// Says what the weights are, compared with those of the checkpoint.
std::string weights_text(DType made, const CheckpointTypes& types) {
  const std::string name(name_of(made));
  if (made == types.weight) return name + ", as the checkpoint holds them";
  if (types.weight == DType::kBF16) return name + ", the exact masters";
  return name + ", rounded from " + std::string(name_of(types.weight));
}

/// Names the checkpoints of the run that are newer than the one that was found, but not whole.
void warn_of_newer(const NamedFolder& named) {
  for (const OtherCheckpoint& other : named.others) {
    if (other.manifest) continue;  // weights alone, or set aside
    const auto step = step_of_name(other.folder.filename().string());
    if (step.value_or(0) <= named.checkpoint->manifest.step) continue;
    log::warn("passed over: {}", other.problem);
  }
}

}  // namespace

int export_command(const ExportOptions& options) {
  const std::unique_ptr<Files> files = make_system_files();
  const NamedFolder named = find_named_folder(*files, options.checkpoint);
  if (named.checkpoint) {
    warn_of_newer(named);
    warn_of_unsaved_steps(*named.checkpoint, options.checkpoint);
  }
  if (options.format == "gguf") return export_gguf_file(*files, named, options);
  if (!named.checkpoint) {
    throw ConfigError(options.checkpoint.string() +
                      ": is a model already; name a checkpoint or a run folder");
  }
  if (options.dtype == "q8_0") {
    throw ConfigError("--dtype q8_0: is for --format gguf; name bf16 or f32");
  }
  const DType weight = options.dtype == "f32" ? DType::kF32 : DType::kBF16;
  const NewModel made = make_new_model(
      *files, options.to, options.overwrite ? OldModel::kReplace : OldModel::kRefuse, "export",
      [&](const fs::path& to, const OnModelProgress& progress, ThreadPool& pool) {
        export_model(*files,
                     {.checkpoint = *named.checkpoint,
                      .model = model_of(*named.checkpoint),
                      .weight = weight,
                      .to = to,
                      .progress = progress},
                     pool);
      });
  const Manifest& manifest = named.checkpoint->manifest;
  std::cout << printable_name(options.to.string()) << ": the model after step "
            << format_count(manifest.step) << ", weights in "
            << weights_text(weight, manifest.types) << "; " << made.text() << std::endl;
  say_next(trying_out(options.to, options.to));
  return 0;
}

}  // namespace strata
