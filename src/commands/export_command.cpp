// `export` finds the checkpoint, has its model written to a new folder or file, and says what is in
// it.

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "commands/export_gguf.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/checkpoint/export_adapter.h"
#include "strata/checkpoint/export_model.h"
#include "strata/checkpoint/import_model.h"
#include "strata/checkpoint/load_state.h"
#include "strata/checkpoint/new_model.h"
#include "strata/commands/commands.h"
#include "strata/model/families.h"
#include "strata/model/peft_config.h"
#include "strata/runfiles/find_checkpoint.h"
#include "strata/runfiles/trained_adapter.h"
#include "strata/train/next_step.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// Says what the weights are, compared with those of the checkpoint.
std::string exported_weights(DType made, const CheckpointTypes& types) {
  const std::string name(name_of(made));
  if (made == types.weight) return name + ", as the checkpoint holds them";
  if (types.weight == DType::kBF16) return name + ", the exact masters";
  return name + ", rounded from " + std::string(name_of(types.weight));
}

NewModel make_folder(Files& files, const ExportOptions& options, const WriteModel& write) {
  return make_new_model(files, options.to,
                        options.overwrite ? OldModel::kReplace : OldModel::kRefuse, "export",
                        write);
}

DType dtype_of(const ExportOptions& options) {
  return options.dtype == "f32" ? DType::kF32 : DType::kBF16;
}

/// Makes a folder of PEFT of the adapters of a checkpoint.
int export_adapter_folder(Files& files, const NamedFolder& named,
                          const std::optional<TrainedAdapter>& trained,
                          const ExportOptions& options) {
  if (options.format == "gguf" || options.dtype == "q8_0") {
    throw ConfigError("--adapter-only: makes a folder of PEFT, in bf16 or f32; leave out " +
                      std::string(options.format == "gguf" ? "--format gguf" : "--dtype q8_0"));
  }
  if (!trained) {
    throw ConfigError("--adapter-only: " + options.checkpoint.string() +
                      " holds a whole model and no adapters; leave it out");
  }
  const std::string config = peft_config_text(trained->config, trained->spec, trained->base.folder);
  const ModelLayout layout = make_layout(trained->spec);
  const DType weight = dtype_of(options);
  const NewModel made = make_folder(
      files, options, [&](const fs::path& to, const OnModelProgress& progress, ThreadPool& pool) {
        export_adapter(files,
                       {.checkpoint = *named.checkpoint,
                        .layout = layout,
                        .config = config,
                        .weight = weight,
                        .to = to,
                        .progress = progress},
                       pool);
      });
  const Manifest& manifest = named.checkpoint->manifest;
  std::cout << printable_name(options.to.string()) << ": the adapters after step "
            << format_count(manifest.step) << ", in " << exported_weights(weight, manifest.types)
            << "; " << made.text() << std::endl;
  return 0;
}

/// Makes a folder of the model of a checkpoint. `merged` has the weights where it holds adapters
/// alone.
int export_model_folder(Files& files, const FoundCheckpoint& checkpoint,
                        const std::optional<MergedWeights>& merged, const ExportOptions& options) {
  const LlamaConfig model = model_of(checkpoint);
  const DType weight = dtype_of(options);
  const auto write = [&](const fs::path& to, const OnModelProgress& progress, ThreadPool& pool) {
    if (!merged) {
      return export_model(files,
                          {.checkpoint = checkpoint,
                           .model = model,
                           .weight = weight,
                           .to = to,
                           .progress = progress},
                          pool);
    }
    verify_checkpoint(files, checkpoint, pool);
    const ModelLayout layout = make_layout(spec_of(model));
    import_model(files,
                 {.from = checkpoint.folder / kModelFolder,
                  .weights = *merged,
                  .model = model,
                  .layout = layout,
                  .weight = weight,
                  .to = to,
                  .progress = progress},
                 pool);
  };
  const NewModel made = make_folder(files, options, write);
  const Manifest& manifest = checkpoint.manifest;
  const std::string weights = merged ? std::string(name_of(weight)) + ", those of " +
                                           printable_name(manifest.base.value().folder) +
                                           " with the adapters added"
                                     : exported_weights(weight, manifest.types);
  std::cout << printable_name(options.to.string()) << ": the model after step "
            << format_count(manifest.step) << ", weights in " << weights << "; " << made.text()
            << std::endl;
  say_next(trying_out(options.to, options.to));
  return 0;
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
  const std::optional<TrainedAdapter> trained =
      named.checkpoint ? adapter_of(*named.checkpoint) : std::nullopt;
  if (options.adapter_only) return export_adapter_folder(*files, named, trained, options);
  std::optional<MergedWeights> merged;
  if (trained) merged.emplace(merged_weights_of(*named.checkpoint, *trained));
  if (options.format == "gguf") {
    return export_gguf_file(*files, named, std::move(merged), options);
  }
  if (!named.checkpoint) {
    throw ConfigError(options.checkpoint.string() +
                      ": is a model already; name a checkpoint or a run folder");
  }
  if (options.dtype == "q8_0") {
    throw ConfigError("--dtype q8_0: is for --format gguf; name bf16 or f32");
  }
  return export_model_folder(*files, *named.checkpoint, merged, options);
}

}  // namespace strata
