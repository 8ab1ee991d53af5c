// Compares the tensors of adapters' files with those that a layout has. What is missing or left
// over shows that the adapters are for another model, or that their config is not theirs.

#include "strata/model/adapter_files.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/model/peft_config.h"
#include "strata/model/resize_vocabulary.h"
#include "strata/model/weights_check.h"

namespace strata {
namespace {

/// Returns what a shape that is not the expected one says of the adapter.
std::string reason(const std::string& name, const std::vector<std::int64_t>& found,
                   const std::vector<std::int64_t>& expected) {
  const bool has_rows_of_tokens = name == peft_name(kEmbeddingName) || name == peft_name(kHeadName);
  const bool grown =
      has_rows_of_tokens && found.size() == 2 && found[1] == expected[1] && found[0] > expected[0];
  if (!grown) return "the adapter is for another model";
  return "it was trained after tokens were added: go on training with model.vocab_size = " +
         std::to_string(found[0]) + ", or name a model with as many rows";
}

void require_shape(const SafetensorsFile& file, const std::string& name,
                   const std::vector<std::int64_t>& expected) {
  const std::vector<std::int64_t>& found = file.info(name).shape;
  if (found == expected) return;
  throw IoError(file.path().string() + ": tensor " + name + " has shape " + shape_text(found) +
                ", and the model and the adapter's config ask for " + shape_text(expected) + "; " +
                reason(name, found, expected));
}

/// Adds the names that PEFT gives a module that is trained whole. Where the vocabulary grew, its
/// save also has what its wrapper holds of embedding and head: the trained tensor once more, and
/// the one whose place it took. PEFT reads neither.
void add_names(std::string_view tensor, std::set<std::string, std::less<>>& known) {
  known.insert(peft_name(tensor));
  known.insert(peft_name(tensor, "modules_to_save"));
  known.insert(peft_name(tensor, "original_module"));
}

/// Returns whether an embedding is trained whole that is also the head, of which PEFT's files have
/// both.
bool trains_tied_head(const ModelLayout& layout) {
  const BlockId embedding = layout.units[layout.embedding()].blocks.front();
  return layout.blocks[embedding].whole && layout.gradient_sources(embedding) > 1;
}

}  // namespace

const SafetensorsFile& file_with(const AdapterFiles& files, const std::string& name) {
  const auto found =
      std::ranges::find_if(files, [&](const SafetensorsFile& file) { return file.contains(name); });
  if (found != files.end()) return *found;
  throw IoError((files.empty() ? "" : files.front().path().string() + ": ") +
                "the adapter has no tensor " + name + ", which its config promises for this model");
}

void require_adapters(const AdapterFiles& files, const ModelLayout& layout) {
  std::set<std::string, std::less<>> known;
  for (const Block& block : layout.blocks) {
    if (!block.is_beside_base()) continue;
    for (const Segment& segment : block.segments) {
      for (const SourceTensor& source : segment.sources) {
        const std::string name = adapter_tensor(block, source);
        require_shape(file_with(files, name), name, segment.shape_of(source));
        known.insert(name);
        if (block.whole) add_names(source.name, known);
      }
    }
  }
  if (trains_tied_head(layout)) add_names(kHeadName, known);
  for (const SafetensorsFile& file : files) {
    for (const std::string& name : file.tensors()) {
      if (known.contains(name)) continue;
      throw IoError(file.path().string() + ": tensor " + printable_name(shortened(name)) +
                    " is of no adapter that the config names for this model, so that the model "
                    "would be another one than was trained");
    }
  }
}

void require_one_embedding(const AdapterFiles& files, const ModelLayout& layout) {
  if (!trains_tied_head(layout)) return;
  const std::string head = peft_name(kHeadName);
  const std::string embedding = peft_name(kEmbeddingName);
  for (const SafetensorsFile& file : files) {
    if (!file.contains(head)) continue;
    if (same_values(file, head, file_with(files, embedding), embedding)) continue;
    throw IoError(file.path().string() + ": tensor " + head + " differs from " + embedding +
                  ", but they are one of this model (tie_word_embeddings); train with "
                  "ensure_weight_tying");
  }
}

}  // namespace strata
