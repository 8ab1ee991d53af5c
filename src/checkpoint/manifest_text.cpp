// Writes the text of a manifest, for people too: a line for each member, file and slice.

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest_format.h"
#include "checkpoint/manifest_members.h"
#include "checkpoint/manifest_rules.h"
#include "strata/base/error.h"
#include "strata/base/hex.h"
#include "strata/base/json.h"
#include "strata/checkpoint/manifest.h"

namespace strata {
namespace {

using Json = nlohmann::json;
// Keeps keys as they come, for those who read the text. Each new key is compared with all others,
// so only this program's own texts become one.
using OrderedJson = nlohmann::ordered_json;

/// Returns a text as a JSON object.
OrderedJson object_of(const std::string& text, const char* field) {
  try {
    auto json = parse_json<OrderedJson>(text, JsonComments::kRefuse, DuplicateKey());
    if (json.is_object()) return json;
  } catch (const std::exception& e) {
    refuse_manifest(field, json_problem(e));
  }
  refuse_manifest(field, "is not a JSON object");
}

OrderedJson number_or_null(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson();
}

OrderedJson number_or_null(const std::optional<double>& value) {
  return value ? number_or_null(*value) : OrderedJson();
}

OrderedJson moment_of(const CheckpointTypes& types) {
  return types.moment ? OrderedJson(name_of(*types.moment)) : OrderedJson();
}

OrderedJson to_json(const RunningNumber& number) {
  return {{"count", number.count}, {"mean", number.mean}, {"variance", number.variance}};
}

OrderedJson to_json(const std::vector<SourceContent>& sources) {
  OrderedJson list = OrderedJson::array();
  for (const SourceContent& source : sources) {
    list.push_back(
        {{"tokens", source.tokens},
         {"documents", source.documents ? OrderedJson(*source.documents) : OrderedJson()},
         {"tokenizer", hex_digits(source.tokenizer_hash)},
         {"digest", hex_digits(source.digest)}});
  }
  return list;
}

OrderedJson to_json(const RunData& data) {
  OrderedJson contents;
  if (data.contents) {
    contents = {{"training", to_json(data.contents->training)},
                {"validation", to_json(data.contents->validation)}};
  }
  return {{"contents", contents},
          {"step_tokens", data.step_tokens},
          {"validation_rows", data.validation_rows},
          {"validation_since", data.validation_since}};
}

OrderedJson to_json(const std::optional<ValidatedLoss>& loss) {
  if (!loss) return {};
  return {{"step", loss->step}, {"loss", number_or_null(loss->loss)}};
}

/// Appends one file, one line for it and one for each slice.
void append(std::string& text, const ManifestFile& file) {
  text += R"({"path": )" + json_text(Json(file.path)) + R"(, "bytes": )" +
          std::to_string(file.bytes) + R"(, "slices": [)";
  for (std::size_t i = 0; i < file.slices.size(); ++i) {
    const SliceHashes& slice = file.slices[i];
    text += (i == 0 ? "\n" : ",\n");
    text += R"(  {"begin": )" + std::to_string(slice.begin) + R"(, "end": )" +
            std::to_string(slice.end) + R"(, "update": )" + std::to_string(slice.update) +
            R"(, "xxh3": [)";
    for (std::size_t w = 0; w < slice.windows.size(); ++w) {
      text += (w == 0 ? "\"" : ", \"") + hex_digits(slice.windows[w]) + '"';
    }
    text += "]}";
  }
  text += "]}";
}

/// Returns the whole text but for its hash and what follows that.
std::string hashed_text(const Manifest& manifest) {
  OrderedJson skipped = OrderedJson::array();
  for (const SampleWindow& window : manifest.skipped) {
    skipped.push_back({{"begin", window.begin}, {"end", window.end}});
  }
  OrderedJson head{{"format", kManifestFormat},
                   {"step", manifest.step},
                   {"updates", manifest.history.updates},
                   {"bad_in_a_row", manifest.history.bad_in_a_row},
                   {"loss_statistics", to_json(manifest.history.statistics.loss)},
                   {"norm_statistics", to_json(manifest.history.statistics.grad_norm)},
                   {"samples", manifest.samples},
                   {"skipped", skipped},
                   {"data", to_json(manifest.data)},
                   {"loss", number_or_null(manifest.loss)},
                   {"grad_norm", number_or_null(manifest.grad_norm)},
                   {"finite", manifest.finite},
                   {"program", manifest.program},
                   {"weight", name_of(manifest.types.weight)},
                   {"moment", moment_of(manifest.types)},
                   {"model", object_of(manifest.model, "model")},
                   {"config", object_of(manifest.config, "config")}};
  if (!manifest.types.split) head["split"] = false;
  if (manifest.types.moments != CheckpointTypes().moments) head["moments"] = manifest.types.moments;
  if (manifest.validations != Validations()) {
    head["validations"] = {{"last", to_json(manifest.validations.last)},
                           {"best", to_json(manifest.validations.best)},
                           {"without_gain", manifest.validations.without_gain}};
  }
  if (manifest.base) {
    head["base"] = {{"folder", manifest.base->folder}, {"hash", hex_digits(manifest.base->hash)}};
  }
  std::string text = "{";
  for (const auto& [key, value] : head.items()) {
    text += (text.size() == 1 ? "\n\"" : ",\n\"") + key + "\": " + json_text(value, 1);
  }
  text += ",\n\"files\": [";
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    text += i == 0 ? "\n " : ",\n ";
    append(text, manifest.files[i]);
  }
  return text + "]";
}

}  // namespace

std::string Manifest::to_string() const {
  std::string text;
  try {
    text = hashed_text(*this);
  } catch (const std::exception& e) {
    throw IoError(std::string(kManifestName) + ": " + json_problem(e));
  }
  text = with_manifest_hash(std::move(text));
  (void)parse(text, kManifestName);
  return text;
}

}  // namespace strata
