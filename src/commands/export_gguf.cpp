// Makes a GGUF file of a checkpoint or of a Hugging Face folder. Whatever the format cannot express
// is found before the file is made.

#include "commands/export_gguf.h"

#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "commands/gguf_metadata.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/checkpoint/export_gguf.h"
#include "strata/checkpoint/load_state.h"
#include "strata/checkpoint/new_model.h"
#include "strata/model/families.h"
#include "strata/model/weights_check.h"
#include "strata/train/next_step.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

GgufType type_of(const std::string& dtype) {
  if (dtype == "f32") return GgufType::kF32;
  return dtype == "q8_0" ? GgufType::kQ80 : GgufType::kBF16;
}

/// Opens the weights of a folder and finds what is wrong with them.
MergedWeights checked_weights(const fs::path& folder, const LlamaConfig& model) {
  SafetensorsDirectory weights(folder);
  if (std::cmp_greater(model.num_hidden_layers, weights.tensors().size())) {
    throw IoError((folder / "config.json").string() + ": has more layers than the weights tensors");
  }
  const ModelLayout layout = make_layout(spec_of(model));
  const std::string unused = check_weights(weights, layout);
  require_shapes(weights, layout);
  if (!unused.empty()) log::warn("{}; they are left out", unused);
  return MergedWeights(std::move(weights));
}

}  // namespace

int export_gguf_file(Files& files, const NamedFolder& named, std::optional<MergedWeights> merged,
                     const ExportOptions& options) {
  const fs::path folder =
      named.checkpoint ? named.checkpoint->folder / kModelFolder : options.checkpoint;
  const LlamaConfig model =
      named.checkpoint ? model_of(*named.checkpoint) : load_llama_config(folder / "config.json");
  std::optional<MergedWeights> weights = std::move(merged);
  if (!named.checkpoint) weights.emplace(checked_weights(folder, model));
  const GgufModel gguf = gguf_model_of(model);
  const GgufType type = type_of(options.dtype);
  const GgufKeys keys = gguf_metadata({.folder = folder,
                                       .model = model,
                                       .gguf = gguf,
                                       .type = type,
                                       .name = printable_name(options.to.stem().string())});
  const NewModel made =
      make_new_model_file(files, options.to, std::string(kGgufMagic),
                          options.overwrite ? OldModel::kReplace : OldModel::kRefuse, "export",
                          [&](FileWriter& to, const OnModelProgress& progress, ThreadPool& pool) {
                            const GgufExport what{.model = model,
                                                  .gguf = gguf,
                                                  .keys = keys,
                                                  .type = type,
                                                  .to = to,
                                                  .progress = progress};
                            if (weights && named.checkpoint) {
                              verify_checkpoint(files, *named.checkpoint, pool);
                            }
                            if (weights) return export_gguf(*weights, what, pool);
                            export_gguf(files, *named.checkpoint, what, pool);
                          });
  const std::string of =
      named.checkpoint ? "the model after step " + format_count(named.checkpoint->manifest.step)
                       : "the model of " + printable_name(folder.string());
  std::cout << printable_name(options.to.string()) << ": " << of << ", a " << gguf.architecture
            << " of llama.cpp with matrices in " << options.dtype << "; " << made.text()
            << std::endl;
  say_next("llama-cli -m " + shell_word(options.to));
  return 0;
}

}  // namespace strata
