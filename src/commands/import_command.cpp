// `import` reads the headers of all weights and compares them with the model before it makes a
// folder, so that most faults are found within a second.

#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/checkpoint/import_model.h"
#include "strata/checkpoint/new_model.h"
#include "strata/commands/commands.h"
#include "strata/model/families.h"
#include "strata/model/weights_check.h"
#include "strata/runfiles/find_checkpoint.h"
#include "strata/train/next_step.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

void require_model(const Files& files, const ImportOptions& options) {
  const NamedFolder named = find_named_folder(files, options.from);
  if (named.checkpoint) {
    throw ConfigError(options.from.string() +
                      ": is a checkpoint or a run; strata export makes a model of it");
  }
  std::error_code error;
  if (fs::equivalent(options.from, options.to, error)) {
    throw ConfigError(options.to.string() +
                      ": is the folder that is imported; name another one to make");
  }
}

/// Returns the layout of the model, unless its weights cannot have so many layers.
ModelLayout layout_of(const ImportOptions& options, const LlamaConfig& model,
                      const SafetensorsDirectory& weights) {
  if (std::cmp_greater(model.num_hidden_layers, weights.tensors().size())) {
    throw IoError((options.from / "config.json").string() + ": num_hidden_layers is " +
                  format_count(model.num_hidden_layers) + ", but the weights have only " +
                  format_count(static_cast<std::int64_t>(weights.tensors().size())) + " tensors");
  }
  return make_layout(spec_of(model));
}

/// What the tensors are that the model is made of.
struct SourceTypes {
  std::set<StoredType> types;  ///< of a matrix in 4 bits that of its numbers
  bool has_4_bits = false;
};

SourceTypes types_of(const SafetensorsDirectory& weights, const ModelLayout& layout) {
  SourceTypes found;
  for (const Block& block : layout.blocks) {
    for (const Segment& segment : block.segments) {
      for (const SourceTensor& source : segment.sources) {
        found.types.insert(weights.info(source.name).dtype);
        found.has_4_bits = found.has_4_bits || weights.in_4_bits(source.name) != nullptr;
      }
    }
  }
  return found;
}

/// Returns the type of the new files: the narrower one that holds the weights exactly, if any does.
DType chosen_type(const std::string& dtype, const std::set<StoredType>& types) {
  if (dtype.empty()) return types == std::set{StoredType::kBF16} ? DType::kBF16 : DType::kF32;
  return dtype == "f32" ? DType::kF32 : DType::kBF16;
}

/// Says what the weights are, compared with those of the source.
std::string imported_weights(DType made, const SourceTypes& source) {
  std::string from;
  bool same = true;
  bool exact = true;
  for (const StoredType type : source.types) {
    from += (from.empty() ? "" : " and ") + std::string(name_of(type));
    const bool is_made = type == (made == DType::kF32 ? StoredType::kF32 : StoredType::kBF16);
    same = same && is_made;
    exact = exact && (is_made || (made == DType::kF32 && type != StoredType::kF64));
  }
  const std::string name(name_of(made));
  if (source.has_4_bits) {
    same = false;
    from += " and 4 bits";
  }
  if (same) return name + ", as the source holds them";
  return name + (exact ? ", exact from " : ", rounded from ") + from;
}

}  // namespace

int import_command(const ImportOptions& options) {
  const std::unique_ptr<Files> files = make_system_files();
  require_model(*files, options);
  const LlamaConfig model = load_llama_config(options.from / "config.json");
  SafetensorsDirectory weights(options.from);
  const ModelLayout layout = layout_of(options, model, weights);
  const std::string unused = check_weights(weights, layout);
  require_shapes(weights, layout);
  if (!unused.empty()) log::warn("{}; they are left out", unused);
  const SourceTypes source = types_of(weights, layout);
  const DType weight = chosen_type(options.dtype, source.types);
  const MergedWeights plain(std::move(weights));
  const NewModel made = make_new_model(
      *files, options.to, options.overwrite ? OldModel::kReplace : OldModel::kRefuse, "import",
      [&](const fs::path& to, const OnModelProgress& progress, ThreadPool& pool) {
        import_model(*files,
                     {.from = options.from,
                      .weights = plain,
                      .model = model,
                      .layout = layout,
                      .weight = weight,
                      .to = to,
                      .progress = progress},
                     pool);
      });
  std::cout << printable_name(options.to.string()) << ": weights in "
            << imported_weights(weight, source) << "; " << made.text() << std::endl;
  const std::string folder = shell_word(options.to);
  say_next("strata train CONFIG --set model.path=" + folder + ", " +
           trying_out(options.to, options.to));
  return 0;
}

}  // namespace strata
