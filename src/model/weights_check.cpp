// Compares the tensors of a folder with those that a model has: names and shapes, and the values of
// one pair of tensors only, an embedding and a head that should be the same.

#include "strata/model/weights_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "strata/base/dtype.h"
#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/model/resize_vocabulary.h"

namespace strata {
namespace {

/// Returns the beginning of a tensor's name that it shares with its layer, "model.layers.3.", or an
/// empty text for other tensors.
std::string_view layer_of(std::string_view name) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return {};
  const std::size_t dot = name.find('.', kLayers.size());
  return dot == name.npos ? std::string_view() : name.substr(0, dot + 1);
}

/// Returns whether a tensor belongs to what makes tokens of images, in the names of transformers.
bool is_of_images(std::string_view name) {
  constexpr std::string_view kParts[] = {"vision_tower.", "vision_model.",
                                         "multi_modal_projector."};
  constexpr std::string_view kPrefix = "model.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  return std::ranges::any_of(kParts, [&](std::string_view part) { return name.starts_with(part); });
}

[[noreturn]] void refuse_weight(const std::string& name, const std::string& why) {
  throw IoError("weights: tensor " + printable_name(shortened(name)) + ' ' + why);
}

/// Throws IoError unless the tensor has the shape that the model asks for.
void check_shape(const StoredTensor& stored, const Segment& segment, const SourceTensor& source) {
  const std::vector<std::int64_t> expected = segment.shape_of(source);
  if (stored.shape == expected) return;
  refuse_weight(source.name, "has shape " + shape_text(stored.shape) + ", config.json asks for " +
                                 shape_text(expected));
}

/// Calls `body` with the sources of the blocks that are not of adapters.
template <class Body>
void for_each_source(const ModelLayout& layout, const Body& body) {
  for (const Block& block : layout.blocks) {
    if (block.adapter) continue;
    for (const Segment& segment : block.segments) {
      for (const SourceTensor& source : segment.sources) body(segment, source);
    }
  }
}

}  // namespace

template <class Files>
bool same_values(const Files& files, std::string_view name, const Files& others,
                 std::string_view other) {
  const std::int64_t elements = files.info(name).elements;
  if (files.info(name).shape != others.info(other).shape) return false;
  constexpr std::int64_t kChunk = 1 << 16;
  std::vector<double> values[2];
  for (std::int64_t at = 0; at < elements; at += kChunk) {
    const auto count = static_cast<std::size_t>(std::min(kChunk, elements - at));
    for (std::vector<double>& part : values) part.resize(count);
    files.read(name, at, std::span(values[0]));
    others.read(other, at, std::span(values[1]));
    if (values[0] != values[1]) return false;
  }
  return true;
}
template bool same_values(const SafetensorsFile&, std::string_view, const SafetensorsFile&,
                          std::string_view);
template bool same_values(const SafetensorsDirectory&, std::string_view,
                          const SafetensorsDirectory&, std::string_view);

void require_shapes(const SafetensorsDirectory& files, const ModelLayout& layout) {
  for_each_source(layout, [&](const Segment& segment, const SourceTensor& source) {
    check_shape(files.info(source.name), segment, source);
  });
}

template <class T>
void require_finite(const std::string& tensor, std::int64_t begin, std::span<const T> values) {
  const auto is_bad = [](T value) { return !std::isfinite(static_cast<double>(value)); };
  const auto bad = std::ranges::find_if(values, is_bad);
  if (bad == values.end()) return;
  const bool not_a_number = std::isnan(static_cast<double>(*bad));
  refuse_weight(tensor,
                std::string(not_a_number ? "is NaN" : "is infinite") + " at element " +
                    format_count(begin + (bad - values.begin())) +
                    ": whoever saved it had lost the model, or the file is damaged. Take an "
                    "earlier checkpoint of it, or download it again");
}
template void require_finite(const std::string&, std::int64_t, std::span<const double>);
template void require_finite(const std::string&, std::int64_t, std::span<const float>);
template void require_finite(const std::string&, std::int64_t, std::span<const Bf16>);

std::string check_weights(const SafetensorsDirectory& files, const ModelLayout& layout) {
  std::set<std::string, std::less<>> used;
  std::set<std::string, std::less<>> layers;
  for_each_source(layout, [&](const Segment&, const SourceTensor& source) {
    (void)files.info(source.name);
    used.insert(source.name);
    layers.emplace(layer_of(source.name));
  });
  std::vector<std::string> unused;
  std::int64_t of_images = 0;
  for (const std::string& name : files.tensors()) {
    if (used.contains(name)) continue;
    if (is_of_images(name)) {
      ++of_images;
      continue;
    }
    if (name == kHeadName) {
      if (same_values(files, kHeadName, files, kEmbeddingName)) continue;
      refuse_weight(name,
                    "differs from " + std::string(kEmbeddingName) +
                        ", but tie_word_embeddings says that they are one; set it to false in the "
                        "model's config.json to train both, or take the tensor out of the file");
    }
    const bool in_layer = !layer_of(name).empty() && layers.contains(layer_of(name));
    const bool computed_anew = name.ends_with(".rotary_emb.inv_freq");
    if (name.ends_with(".bias") || (in_layer && !computed_anew)) {
      refuse_weight(name,
                    "has no place in a LLaMA as strata computes it, so the model would be another; "
                    "train it with a program that knows its architecture");
    }
    unused.push_back(name);
  }
  std::string images;
  if (of_images > 0) {
    images =
        "the weights have " + format_count(of_images) +
        " tensors for images, which are left out: the text part is trained, saved and exported";
  }
  if (unused.empty()) return images;
  constexpr std::size_t kNamed = 3;
  std::string text = images + (images.empty() ? "" : "; ") +
                     "the weights have tensors that nothing uses (" +
                     format_count(static_cast<std::int64_t>(unused.size())) + "):";
  for (std::size_t i = 0; i < std::min(unused.size(), kNamed); ++i) {
    text += (i == 0 ? " " : ", ") + printable_name(shortened(unused[i]));
  }
  return text + (unused.size() > kNamed ? ", ..." : "");
}

}  // namespace strata
