// Reads the text of a manifest. What passes the hash at its end is still read as if by a stranger:
// every number is checked before anything is computed from it, and nothing is allocated but what
// the text itself has.

#include "strata/checkpoint/manifest.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoint/manifest_format.h"
#include "checkpoint/manifest_members.h"
#include "checkpoint/manifest_rules.h"
#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/text.h"

namespace strata {
namespace {

using Json = nlohmann::json;

/// A manifest that is whole, and that this program cannot read.
class OtherFormat : public IoError {
 public:
  using IoError::IoError;
};

constexpr DType kWeightTypes[] = {DType::kBF16, DType::kF32, DType::kF64};
constexpr DType kMomentTypes[] = {DType::kBF16, DType::kF32, DType::kF64, kMomentCode};

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

BaseWeights read_base(Members& outer) {
  Members members(outer.take("base"), "base");
  BaseWeights base;
  base.folder = members.text("folder");
  base.hash = read_hash(members, "hash");
  members.finish();
  return base;
}

/// Reads how many moments a parameter has. Manifests say it where there are not two.
int read_moments(Members& members) {
  const std::int64_t moments = members.count("moments");
  if (moments < 1 || moments > 2) refuse_manifest("moments", "must be 1 or 2");
  return static_cast<int>(moments);
}

Manifest read(const Json& json) {
  Members members(json, "");
  // First, since a later format may have other keys.
  const std::int64_t format = members.count("format");
  if (format < kManifestFormatWithoutData || format > kManifestFormat) {
    throw OtherFormat(
        "format: is " + std::to_string(format) + ", this program reads " +
        std::to_string(kManifestFormatWithoutData) + " to " + std::to_string(kManifestFormat) +
        (format > kManifestFormat ? "; use the strata that wrote it, or a later one" : ""));
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
  if (format > kManifestFormatWithoutData) manifest.data = read_data(members);
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
  if (json.contains("base")) manifest.base = read_base(members);
  manifest.types.weight = members.dtype("weight", kWeightTypes);
  manifest.types.moment = members.dtype_or_null("moment", kMomentTypes);
  if (json.contains("split")) manifest.types.split = members.boolean("split");
  if (json.contains("moments")) manifest.types.moments = read_moments(members);
  for (const Json& file : members.list("files")) {
    manifest.files.push_back(
        read_file(file, "files[" + std::to_string(manifest.files.size()) + "]"));
  }
  (void)members.text("xxh3");  // was compared before the text was parsed
  members.finish();
  return manifest;
}

}  // namespace

std::int64_t samples_in(std::span<const SampleWindow> windows) {
  std::int64_t samples = 0;
  for (const SampleWindow& window : windows) samples += window.end - window.begin;
  return samples;
}

Manifest Manifest::parse(std::string_view text, const std::filesystem::path& file) {
  try {
    if (text.size() > kMostManifestBytes) throw IoError("is longer than a manifest may be");
    check_manifest_hash(text);
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
