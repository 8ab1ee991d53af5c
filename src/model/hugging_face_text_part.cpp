// Takes the text part out of the config.json of a model that also takes images.

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "hugging_face_json.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/json.h"

namespace strata {
namespace {

using Json = nlohmann::json;

/// A class of models that take images, and the classes of its text part, of which the first is
/// meant where a file says none.
struct ImageClass {
  std::string_view name;
  std::string_view type_name;
  std::array<ModelType, 2> texts;
};
constexpr ImageClass kImageClasses[] = {
    {"Gemma3ForConditionalGeneration", "gemma3", {ModelType::kGemma3, ModelType::kGemma3}},
    {"Mistral3ForConditionalGeneration",
     "mistral3",
     {ModelType::kMistral, ModelType::kMinistral3}}};

/// Returns the class of the model, or null if it takes no images.
const ImageClass* image_class_of(const Json& json) {
  const Json classes = value_at(json, "architectures");
  const Json type = value_at(json, "model_type");
  const auto* const found = std::ranges::find_if(kImageClasses, [&](const ImageClass& each) {
    return type.is_null() ? classes == Json{each.name} : type == each.type_name;
  });
  return found == std::end(kImageClasses) ? nullptr : found;
}

}  // namespace

Json text_part(const Json& json, ConfigProblems& problems) {
  const ImageClass* const of_images = image_class_of(json);
  if (of_images == nullptr) return json;
  Json text = value_at(json, "text_config");
  if (!text.is_object()) {
    problems.add("text_config", "expected an object, found " + shown(text));
    return json;
  }
  if (value_at(text, "model_type").is_null()) {
    text["model_type"] = model_class_of(of_images->texts.front()).type_name();
  }
  for (const ModelType type : of_images->texts) {
    const ModelClass& own = model_class_of(type);
    if (text["model_type"] == own.type_name()) text["architectures"] = {own.name};
  }
  // What files say of both parts together.
  for (const char* key :
       {"tie_word_embeddings", "quantization_config", "bos_token_id", "eos_token_id",
        "pad_token_id", "dtype", "torch_dtype", "transformers_version"}) {
    const Json of_both = value_at(json, key);
    if (!of_both.is_null() && !text.contains(key)) text[key] = of_both;
  }
  if (const Json both = value_at(json, "tie_word_embeddings");
      !both.is_null() && both != text["tie_word_embeddings"]) {
    problems.add("tie_word_embeddings",
                 "is " + shown(both) + ", but that of text_config is " +
                     shown(text["tie_word_embeddings"]) +
                     "; leave out the one that the model was not trained with");
  }
  return text;
}

}  // namespace strata
