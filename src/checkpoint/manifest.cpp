// Writes and reads manifests. A hash at the end of the text finds what a disk or a transfer did to
// it. What passes the hash is still read as if by a stranger: every number is checked before
// anything is computed from it, and nothing is allocated but what the text itself has.

#include "strata/checkpoint/manifest.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoint/manifest_members.h"
#include "checkpoint/manifest_rules.h"
#include "strata/base/error.h"
#include "strata/base/hex.h"
#include "strata/base/json.h"
#include "strata/base/text.h"

namespace strata {
namespace {

using Json = nlohmann::json;
// Keeps keys as they come, for those who read the text. Each new key is compared with all others,
// so only this program's own texts become one.
using OrderedJson = nlohmann::ordered_json;

constexpr std::int64_t kFormat = 2;
constexpr std::int64_t kFormatWithoutData = 1;

/// A manifest that is whole, and that this program cannot read.
class OtherFormat : public IoError {
 public:
  using IoError::IoError;
};

// ---- the hash at the end ------------------------------------------------------------------------

// Every byte of the text is either hashed or one of these, or a digit of the hash.
constexpr std::string_view kBeforeHash = ",\n\"xxh3\": \"";
constexpr std::string_view kAfterHash = "\"\n}\n";
constexpr std::size_t kHashDigits = 16;

/// Returns what hex_digits() wrote, or nothing of another text.
std::optional<std::uint64_t> parse_hex(std::string_view digits) {
  if (digits.size() != kHashDigits) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : digits) {
    const bool decimal = c >= '0' && c <= '9';
    if (!decimal && !(c >= 'a' && c <= 'f')) return std::nullopt;
    value = value << 4 | static_cast<std::uint64_t>(decimal ? c - '0' : c - 'a' + 10);
  }
  return value;
}

std::uint64_t hash_of(std::string_view text) {
  return xxh3(std::as_bytes(std::span(text.data(), text.size())));
}

/// Throws IoError without a file's name unless `text` ends with the hash of what stands before.
void check_hash(std::string_view text) {
  constexpr std::size_t kEnd = kBeforeHash.size() + kHashDigits + kAfterHash.size();
  const std::size_t hashed = text.size() < kEnd ? 0 : text.size() - kEnd;
  const std::string_view end = text.substr(hashed);
  const bool complete =
      end.size() == kEnd && end.starts_with(kBeforeHash) && end.ends_with(kAfterHash);
  const auto written =
      complete ? parse_hex(end.substr(kBeforeHash.size(), kHashDigits)) : std::nullopt;
  if (!written) throw IoError("does not end with its xxh3, so it was not written to its end");
  if (const std::uint64_t found = hash_of(text.substr(0, hashed)); found != *written) {
    throw IoError("xxh3 is " + hex_digits(*written) + ", but its text has " + hex_digits(found) +
                  ": it is not what was written");
  }
}

// ---- dtypes -------------------------------------------------------------------------------------

constexpr DType kWeightTypes[] = {DType::kBF16, DType::kF32, DType::kF64};
constexpr DType kMomentTypes[] = {DType::kBF16, DType::kF32, DType::kF64};

// ---- reading ------------------------------------------------------------------------------------

SliceHashes read_slice(const Json& json, const std::string& where) {
  Members members(json, where);
  SliceHashes slice;
  slice.begin = members.bytes("begin");
  slice.end = members.bytes("end");
  slice.update = members.count("update");
  for (const Json& window : members.list("xxh3")) {
    const auto hash =
        window.is_string() ? parse_hex(window.get_ref<const std::string&>()) : std::nullopt;
    if (!hash) refuse_manifest(where + ".xxh3", "expected 16 hex digits, found " + shown(window));
    slice.windows.push_back(*hash);
  }
  members.finish();
  return slice;
}

ManifestFile read_file(const Json& json, const std::string& where) {
  Members members(json, where);
  ManifestFile file;
  file.path = members.text("path");
  file.bytes = members.bytes("bytes");
  for (const Json& slice : members.list("slices")) {
    file.slices.push_back(
        read_slice(slice, where + ".slices[" + std::to_string(file.slices.size()) + "]"));
  }
  members.finish();
  return file;
}

RunningNumber read_statistics(Members& outer, const char* key) {
  Members members(outer.take(key), outer.path_of(key));
  RunningNumber number;
  number.count = members.count("count");
  number.mean = members.number("mean");
  number.variance = members.number("variance");
  members.finish();
  return number;
}

std::uint64_t read_hash(Members& members, const char* key) {
  const std::string& digits = members.text(key);
  const auto hash = parse_hex(digits);
  if (!hash) {
    refuse_manifest(members.path_of(key),
                    "expected 16 hex digits, found \"" + shortened(printable(digits)) + '"');
  }
  return *hash;
}

SourceContent read_source(const Json& json, const std::string& where) {
  Members members(json, where);
  SourceContent source;
  source.tokens = members.count("tokens");
  source.documents = members.count_or_null("documents");
  source.tokenizer_hash = read_hash(members, "tokenizer");
  source.digest = read_hash(members, "digest");
  members.finish();
  return source;
}

std::vector<SourceContent> read_sources(Members& outer, const char* key) {
  std::vector<SourceContent> sources;
  for (const Json& source : outer.list(key)) {
    sources.push_back(
        read_source(source, outer.path_of(key) + "[" + std::to_string(sources.size()) + "]"));
  }
  return sources;
}

std::optional<DataContents> read_contents(Members& outer) {
  const Json& json = outer.take("contents");
  if (json.is_null()) return std::nullopt;
  Members members(json, outer.path_of("contents"));
  DataContents contents;
  contents.training = read_sources(members, "training");
  contents.validation = read_sources(members, "validation");
  members.finish();
  return contents;
}

RunData read_data(Members& outer) {
  Members members(outer.take("data"), "data");
  RunData data;
  data.contents = read_contents(members);
  data.step_tokens = members.count("step_tokens");
  data.validation_rows = members.count("validation_rows");
  data.validation_since = members.count("validation_since");
  members.finish();
  return data;
}

SampleWindow read_window(const Json& json, const std::string& where) {
  Members members(json, where);
  const SampleWindow window{.begin = members.count("begin"), .end = members.count("end")};
  members.finish();
  return window;
}

std::optional<ValidatedLoss> read_loss(Members& outer, const char* key) {
  const Json& json = outer.take(key);
  if (json.is_null()) return std::nullopt;
  Members members(json, outer.path_of(key));
  const ValidatedLoss loss{.step = members.count("step"), .loss = members.number("loss")};
  members.finish();
  return loss;
}

Validations read_validations(Members& outer, const char* key) {
  Members members(outer.take(key), outer.path_of(key));
  Validations validations;
  validations.last = read_loss(members, "last");
  validations.best = read_loss(members, "best");
  validations.without_gain = members.count("without_gain");
  members.finish();
  return validations;
}

Manifest read(const Json& json) {
  Members members(json, "");
  // First, since a later format may have other keys.
  const std::int64_t format = members.count("format");
  if (format < kFormatWithoutData || format > kFormat) {
    throw OtherFormat("format: is " + std::to_string(format) + ", this program reads " +
                      std::to_string(kFormatWithoutData) + " to " + std::to_string(kFormat) +
                      (format > kFormat ? "; use the strata that wrote it, or a later one" : ""));
  }
  Manifest manifest;
  manifest.step = members.count("step");
  manifest.history.updates = members.count("updates");
  manifest.history.bad_in_a_row = members.count("bad_in_a_row");
  manifest.history.statistics.loss = read_statistics(members, "loss_statistics");
  manifest.history.statistics.grad_norm = read_statistics(members, "norm_statistics");
  manifest.samples = members.count("samples");
  for (const Json& window : members.list("skipped")) {
    manifest.skipped.push_back(
        read_window(window, "skipped[" + std::to_string(manifest.skipped.size()) + "]"));
  }
  if (format > kFormatWithoutData) manifest.data = read_data(members);
  const double loss = members.number("loss");
  manifest.grad_norm = members.number("grad_norm");
  manifest.finite = members.boolean("finite");
  if (!manifest.finite || !std::isnan(loss)) manifest.loss = loss;
  if (json.contains("validations")) {
    manifest.validations = read_validations(members, "validations");
  }
  manifest.program = members.text("program");
  manifest.model = members.object("model");
  manifest.config = members.object("config");
  manifest.types.weight = members.dtype("weight", kWeightTypes);
  manifest.types.moment = members.dtype_or_null("moment", kMomentTypes);
  for (const Json& file : members.list("files")) {
    manifest.files.push_back(
        read_file(file, "files[" + std::to_string(manifest.files.size()) + "]"));
  }
  (void)members.text("xxh3");  // was compared before the text was parsed
  members.finish();
  return manifest;
}

// ---- writing ------------------------------------------------------------------------------------

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
  OrderedJson head{{"format", kFormat},
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
  if (manifest.validations != Validations()) {
    head["validations"] = {{"last", to_json(manifest.validations.last)},
                           {"best", to_json(manifest.validations.best)},
                           {"without_gain", manifest.validations.without_gain}};
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

std::int64_t samples_in(std::span<const SampleWindow> windows) {
  std::int64_t samples = 0;
  for (const SampleWindow& window : windows) samples += window.end - window.begin;
  return samples;
}

std::string Manifest::to_string() const {
  std::string text;
  try {
    text = hashed_text(*this);
  } catch (const std::exception& e) {
    throw IoError(std::string(kManifestName) + ": " + json_problem(e));
  }
  const std::string hash = hex_digits(hash_of(text));
  text.append(kBeforeHash).append(hash).append(kAfterHash);
  (void)parse(text, kManifestName);
  return text;
}

Manifest Manifest::parse(std::string_view text, const std::filesystem::path& file) {
  try {
    if (text.size() > kMostManifestBytes) throw IoError("is longer than a manifest may be");
    check_hash(text);
    Manifest manifest = read(parse_json<Json>(text, JsonComments::kRefuse, DuplicateKey()));
    check_manifest(manifest);
    return manifest;
  } catch (const Json::exception& e) {
    throw DamagedFile(file.string() + ": its JSON cannot be read: " + json_problem(e));
  } catch (const OtherFormat& e) {
    throw IoError(file.string() + ": " + e.what());
  } catch (const Error& e) {
    throw DamagedFile(file.string() + ": " + e.what());
  }
}

}  // namespace strata
