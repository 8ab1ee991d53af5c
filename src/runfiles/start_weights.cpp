// How many rows the model has is read from its own config.json, not from its weights: weights that
// do not fit to it are damaged, not smaller.

#include "strata/runfiles/start_weights.h"

#include <cstdint>
#include <filesystem>

#include "strata/base/text.h"
#include "strata/checkpoint/base_weights.h"
#include "strata/model/families.h"
#include "strata/model/layout.h"
#include "strata/model/resize_vocabulary.h"

namespace strata {

StartWeights open_start_weights(const ModelSection& model) {
  const std::filesystem::path folder = model.path;
  const std::int64_t own = load_llama_config(folder / "config.json").vocab_size;
  StartWeights start{.files = SafetensorsDirectory(folder), .resized = {}};
  const std::int64_t wanted = model.llama.vocab_size;
  if (wanted <= own) return start;
  resize_vocabulary(start.files, own, wanted);
  start.resized =
      "the vocabulary of " + model.path + " grows from " + format_count(own) + " to " +
      format_count(wanted) + " ids (model.vocab_size): new rows of " +
      (model.llama.tie_word_embeddings ? "the embedding are" : "embedding and head are") +
      " the mean of the others";
  return start;
}

BaseWeights base_weights_in(Form form, const ModelSection& model) {
  if (model.path.empty()) return {};
  return {.folder = model.path,
          .hash = hash_of_base(open_start_weights(model).files, make_layout(spec_of(model.llama)),
                               form)};
}

std::optional<BaseWeights> base_weights_of(const RunConfig& config) {
  const bool stored = config.train.reference == ReferenceFrom::kStored;
  if (!config.adapter && !stored) return std::nullopt;
  return base_weights_in(config.adapter ? config.adapter->base_format : Form::kPlain, config.model);
}

}  // namespace strata
