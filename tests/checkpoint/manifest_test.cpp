// Tests that manifests read back as they were written, and that nothing damaged or made up is taken
// for one. Texts that should pass the hash get theirs from a writer of this file.

#include "strata/checkpoint/manifest.h"

#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/file_places.h"
#include "checkpoint/memory_files.h"
#include "strata/base/error.h"
#include "strata/checkpoint/checkpoint_folder.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/sanitized.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kWindow = kHashWindow;

Manifest example() {
  Manifest m;
  m.step = 120;
  m.history.updates = 118;
  m.samples = 7680;
  m.history.bad_in_a_row = 1;
  m.history.statistics.loss = {.count = 117, .mean = 2.5, .variance = 0.1};
  m.history.statistics.grad_norm = {.count = 117, .mean = 1.0 / 3, .variance = 5e-324};
  m.skipped = {{0, 64}, {640, 1280}};
  m.data.contents = {
      .training = {{.tokens = 1000, .documents = 20, .tokenizer_hash = 7, .digest = 8},
                   {.tokens = 5, .digest = 0xffffffffffffffffU}},
      .validation = {{.tokens = 100}}};
  m.data.step_tokens = 4096;
  m.data.validation_rows = 16;
  m.data.validation_since = 60;
  m.loss = 2.718281828459045;
  m.grad_norm = 0.1;
  m.validations.add(60, 2.5);
  m.validations.add(120, 2.75);
  m.program = "0.1.0 (\"abc\")";
  m.model = R"({"vocab_size":61,"rope_theta":10000.0})";
  m.config = R"({"optimizer":{"lr":0.0003},"run":{"output":"r\u00fcn","steps":200}})";
  m.types = {DType::kBF16, DType::kF32};
  m.files = {{"model/config.json", 5, {{0, 5, 0, {0x0123456789abcdefU}}}},
             {"model/empty.txt", 0, {}},
             {"state/layers.0.safetensors",
              2 * kWindow + 10,
              {{0, 4096, 118, {1}},
               {4096, kWindow, 118, {2}},
               {kWindow, kWindow + 1, 118, {3}},
               {kWindow + 1, 2 * kWindow + 10, 118, {4, 0xffffffffffffffffU}}}}};
  return m;
}

/// Ends a text as manifests do, with its hash.
std::string signed_text(const std::string& text) {
  char hash[17];
  const std::uint64_t value = xxh3(std::as_bytes(std::span(text)));
  std::snprintf(hash, sizeof(hash), "%016llx", static_cast<unsigned long long>(value));
  return text + ",\n\"xxh3\": \"" + hash + "\"\n}\n";
}

/// Returns a manifest as JSON without its hash.
Json json_of(const Manifest& manifest) {
  Json json = parse_json<Json>(manifest.to_string());
  json.erase("xxh3");
  return json;
}
std::string manifest_text(const Json& json) {
  std::string text = json_text(json);
  text.pop_back();  // the brace
  return signed_text(text);
}

std::string complaint(const std::string& text) {
  try {
    (void)Manifest::parse(text, "run/step-3/manifest.json");
  } catch (const IoError& e) {
    return e.what();
  }
  return "no error";
}
/// What is said of the example after `change`.
std::string complaint(const std::function<void(Json&)>& change) {
  Json json = json_of(example());
  change(json);
  return complaint(manifest_text(json));
}

void check_equal(const Manifest& a, const Manifest& b) {
  CHECK(a.step == b.step);
  CHECK(a.history == b.history);
  CHECK(a.samples == b.samples);
  CHECK(a.skipped == b.skipped);
  CHECK(a.data == b.data);
  const double no_loss = -1;
  const bool not_finite = std::isnan(a.loss.value_or(no_loss)) && !std::isfinite(*b.loss);
  CHECK((a.loss == b.loss || not_finite));
  CHECK((a.grad_norm == b.grad_norm || (std::isnan(a.grad_norm) && !std::isfinite(b.grad_norm))));
  CHECK(a.finite == b.finite);
  CHECK(a.validations == b.validations);
  CHECK(a.program == b.program);
  CHECK(parse_json<nlohmann::json>(a.model) == parse_json<nlohmann::json>(b.model));
  CHECK(parse_json<nlohmann::json>(a.config) == parse_json<nlohmann::json>(b.config));
  CHECK(a.types == b.types);
  CHECK(a.files == b.files);
}

}  // namespace

TEST_CASE("xxh3 is the published function") {
  const auto hash = [](std::string_view text) {
    return xxh3(std::as_bytes(std::span(text.data(), text.size())));
  };
  CHECK(hash("") == 0x2d06800538d394c2U);
  CHECK(hash("a") == 0xe6c632b61e964e1fU);
  CHECK(hash("abc") == 0x78af5f94892f3950U);
}

TEST_CASE("windows are counted where a range begins and ends in one") {
  CHECK(windows_of(0, 0) == 0);
  CHECK(windows_of(0, 1) == 1);
  CHECK(windows_of(0, kWindow) == 1);
  CHECK(windows_of(0, kWindow + 1) == 2);
  CHECK(windows_of(kWindow - 1, kWindow + 1) == 2);
  CHECK(windows_of(kWindow, 3 * kWindow) == 2);
  CHECK(windows_of(0, std::numeric_limits<std::uint64_t>::max()) == std::uint64_t{1} << 40);
}

TEST_CASE("a manifest reads back as it was written") {
  check_equal(Manifest::parse(example().to_string(), "m"), example());
  check_equal(Manifest::parse(Manifest().to_string(), "m"), Manifest());
  for (const DType weight : {DType::kBF16, DType::kF32, DType::kF64}) {
    Manifest m = example();
    m.types = {weight, weight};
    m.loss = -1e-310;
    m.step = m.history.updates = std::numeric_limits<std::int32_t>::max();
    m.samples = std::int64_t{1} << 53;
    check_equal(Manifest::parse(m.to_string(), "m"), m);
    if (weight != DType::kF64) m.types.moment = DType::kU8;
    check_equal(Manifest::parse(m.to_string(), "m"), m);
    m.types.moments = 1;
    CHECK(json_of(m)["moments"] == 1);
    check_equal(Manifest::parse(m.to_string(), "m"), m);
    m.types.split = false;
    CHECK(json_of(m)["split"] == false);
    check_equal(Manifest::parse(m.to_string(), "m"), m);
    m.types = m.types.weights_alone();
    CHECK(json_of(m)["moment"].is_null());
    check_equal(Manifest::parse(m.to_string(), "m"), m);
  }
}

TEST_CASE("numbers that JSON does not have are null in a manifest") {
  Manifest m = example();
  m.finite = false;
  m.loss = std::numeric_limits<double>::quiet_NaN();
  m.grad_norm = std::numeric_limits<double>::infinity();
  CHECK(json_of(m)["loss"].is_null());
  check_equal(Manifest::parse(m.to_string(), "m"), m);
  m.finite = true;
  CHECK_THROWS_AS(m.to_string(), IoError);
}

TEST_CASE("the loss of a last step without targets is null in a manifest, which is good") {
  Manifest m = example();
  m.loss.reset();
  CHECK(json_of(m)["loss"].is_null());
  CHECK(json_of(m)["finite"] == true);
  check_equal(Manifest::parse(m.to_string(), "m"), m);
  CHECK(Manifest::parse(m.to_string(), "m").loss == std::nullopt);
}

TEST_CASE("a manifest is an object for any reader of JSON") {
  const Json json = parse_json<Json>(example().to_string());
  CHECK(json["format"] == 2);
  CHECK(json["config"]["optimizer"]["lr"] == 0.0003);
  CHECK(json["files"][0]["slices"][0]["xxh3"][0] == "0123456789abcdef");
  CHECK(json.back().is_string());
  CHECK(json.contains("xxh3"));
}

TEST_CASE("a manifest with any one bit flipped is refused", "[one_thread]") {
  const std::string text = example().to_string();
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      if (complaint(damaged).find("run/step-3/manifest.json: ") != 0) {
        FAIL("byte " << i << ", bit " << bit << ": " << complaint(damaged));
      }
    }
  }
}

TEST_CASE("a manifest that is cut, or has anything behind it, is refused") {
  const std::string text = example().to_string();
  for (std::size_t size = 0; size < text.size(); ++size) {
    if (complaint(text.substr(0, size)) == "no error") FAIL("cut to " << size << " bytes");
  }
  CHECK_THAT(complaint(text.substr(0, 100)), ContainsSubstring("not written to its end"));
  CHECK(complaint(text + "\n") != "no error");
  CHECK(complaint(text + text) != "no error");
  CHECK(complaint("\n" + text) != "no error");
}

TEST_CASE("a manifest of a later format is refused by its number, whatever else it has") {
  const std::string text =
      complaint([](Json& json) { json = {{"format", 3}, {"shape", {{"of", "things to come"}}}}; });
  CHECK_THAT(text, ContainsSubstring("format: is 3, this program reads 1 to 2"));
}

TEST_CASE("a manifest of format 1 is read, and tells nothing of data") {
  Json first = json_of(example());
  first["format"] = 1;
  CHECK_THAT(complaint(manifest_text(first)), ContainsSubstring("data: is no key of a manifest"));
  first.erase("data");
  Manifest expected = example();
  expected.data = {};
  check_equal(Manifest::parse(manifest_text(first), "m"), expected);
  first["format"] = 0;
  CHECK_THAT(complaint(manifest_text(first)),
             ContainsSubstring("format: is 0, this program reads 1"));
}

TEST_CASE("a run does not pass over a checkpoint of a later format, which is not damaged") {
  MemoryFiles files("/run");
  files.make_folder("/run/step-00000003");
  Json later = json_of(example());
  later["format"] = 3;
  write_whole(files, "/run/step-00000003/manifest.json", bytes_of(manifest_text(later)));
  std::vector<std::string> skipped;
  CHECK_THAT(io_error_of([&] { (void)newest_checkpoint(files, "/run", skipped); }),
             ContainsSubstring("use the strata that wrote it"));
  CHECK(skipped.empty());
}

TEST_CASE("fields that are missing, unknown, given twice or of another kind are named",
          "[one_thread]") {
  const Json whole = json_of(example());
  for (const auto& [key, value] : whole.items()) {
    INFO(key);
    const std::string name = key;
    // A run that does not go by validations has none.
    CHECK_THAT(complaint([&](Json& j) { j.erase(name); }),
               ContainsSubstring(name == "validations" ? "no error" : name + ": is missing"));
    for (const Json& other : {Json("text"), Json(-1), Json(1.5), Json(true), Json(),
                              Json::array({1}), Json{{"a", 1}}}) {
      const bool fits = (other.type() == value.type() && !value.is_array()) ||
                        (value.is_number_float() && (other.is_number() || other.is_null()));
      if (name == "moment" && other.is_null()) continue;  // weights alone
      if (name == "loss" && other.is_null()) continue;    // no token had a target
      // A number that is null contradicts `finite`, and a text need not be a dtype.
      if (fits && !other.is_null() && name != "weight" && name != "moment") continue;
      INFO(json_text(other));
      CHECK(complaint([&](Json& j) { j[name] = other; }) != "no error");
    }
  }
  CHECK_THAT(complaint([](Json& j) { j["moments"] = 3; }),
             ContainsSubstring("moments: must be 1 or 2"));
  CHECK_THAT(complaint([](Json& j) { j["speed"] = 1; }), ContainsSubstring("speed: is no key"));
  CHECK_THAT(complaint([](Json& j) { j["files"][0]["mode"] = 1; }),
             ContainsSubstring("files[0].mode: is no key"));
  CHECK_THAT(complaint([](Json& j) { j["files"][2]["slices"][1].erase("end"); }),
             ContainsSubstring("files[2].slices[1].end: is missing"));
  std::string twice = json_text(whole);
  twice.pop_back();
  CHECK_THAT(complaint(signed_text(twice + ",\"step\":3")),
             ContainsSubstring("step: is given twice"));
  CHECK_THAT(complaint([](Json& j) { j["step"] = std::uint64_t{1} << 63; }),
             ContainsSubstring("step: expected an integer from 0 to 2^63 - 1"));
  CHECK_THAT(complaint([](Json& j) { j["step"] = std::int64_t{1} << 31; }),
             ContainsSubstring("step: is 2147483648, above the 2147483647"));
  CHECK_THAT(
      complaint([](Json& j) { j["samples"] = std::numeric_limits<std::int64_t>::max() - 1; }),
      ContainsSubstring("samples: is 9223372036854775806, above the 9007199254740992"));
  CHECK_THAT(complaint([](Json& j) { j["updates"] = 121; }),
             ContainsSubstring("updates: is 121 after 120 steps"));
}

TEST_CASE("statistics and ranges that no run could have are named") {
  const auto refused = [](const char* text, const std::function<void(Json&)>& change) {
    CHECK_THAT(complaint(change), ContainsSubstring(text));
  };
  refused("loss_statistics: counts 129 steps",
          [](Json& j) { j["loss_statistics"]["count"] = 129; });
  refused("norm_statistics: has a mean", [](Json& j) { j["norm_statistics"]["mean"] = Json(); });
  refused("norm_statistics: has a mean", [](Json& j) { j["norm_statistics"]["variance"] = -1e-9; });
  refused("loss_statistics.count: is missing",
          [](Json& j) { j["loss_statistics"].erase("count"); });
  refused("skipped[1].end: is missing", [](Json& j) { j["skipped"][1].erase("end"); });
  refused("skipped[0]: is no range", [](Json& j) { j["skipped"][0]["end"] = 0; });
  refused("skipped[1]: is no range", [](Json& j) { j["skipped"][1]["begin"] = 63; });
  refused("skipped[1]: is no range", [](Json& j) { j["skipped"][1]["end"] = 7681; });
}

TEST_CASE("sources that no run could have are named") {
  const auto refused = [](const char* text, const std::function<void(Json&)>& change) {
    CHECK_THAT(complaint([&](Json& j) { change(j["data"]); }), ContainsSubstring(text));
  };
  static constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  refused("data.contents.training[1].tokens: is out of range",
          [](Json& j) { j["contents"]["training"][1]["tokens"] = kMost; });
  refused("data.contents.training[0].documents: is out of range",
          [](Json& j) { j["contents"]["training"][0]["documents"] = kMost / 200; });
  refused("data.contents.validation: has 2 sources",
          [](Json& j) { j["contents"]["validation"].push_back(j["contents"]["validation"][0]); });
  refused("data.contents.training: has 257 sources",
          [](Json& j) { j["contents"]["training"] = Json(257, j["contents"]["training"][0]); });
  refused("data.contents.training[0].digest: expected 16 hex digits",
          [](Json& j) { j["contents"]["training"][0]["digest"] = "8"; });
  refused("data.contents.training[0].speed: is no key",
          [](Json& j) { j["contents"]["training"][0]["speed"] = 8; });
  refused("data.validation_since: is 121 after 120 steps",
          [](Json& j) { j["validation_since"] = 121; });
  refused("data.step_tokens: expected an integer", [](Json& j) { j["step_tokens"] = -1; });
}

TEST_CASE("validations that no run could have are named") {
  const auto refused = [](const char* text, const std::function<void(Json&)>& change) {
    CHECK_THAT(complaint([&](Json& j) { change(j["validations"]); }), ContainsSubstring(text));
  };
  refused("validations.without_gain: is 121 after 120 steps",
          [](Json& j) { j["without_gain"] = 121; });
  refused("validations.without_gain: expected an integer", [](Json& j) { j["without_gain"] = -1; });
  refused("validations.best: is missing", [](Json& j) { j.erase("best"); });
  refused("validations.mean: is no key", [](Json& j) { j["mean"] = 1; });
  refused("validations.last.step: is 121 after 120 steps",
          [](Json& j) { j["last"]["step"] = 121; });
  for (const char* const which : {"last", "best"}) {
    refused(".loss: is not a finite number", [&](Json& j) { j[which]["loss"] = Json(); });
  }
  refused("validations.best: is not the lowest loss", [](Json& j) { j["best"]["loss"] = 3; });
  refused("validations.best: is not the lowest loss", [](Json& j) { j["best"] = Json(); });
  CHECK(complaint([](Json& j) { j["validations"]["last"] = Json(); }) == "no error");
}

TEST_CASE("paths that leave the checkpoint's folder, or name it another way, are refused") {
  for (const char* path :
       {"", "/etc/passwd", "..", "../x", "model/../../x", "model//x", "model/", "./x", "model/./x",
        "manifest.json", "a\\b", "a\nb", "\x7f", "state/\x01"}) {
    INFO(path);
    CHECK_THAT(complaint([&](Json& j) { j["files"][0]["path"] = path; }),
               ContainsSubstring("files[0].path: "));
  }
  CHECK_THAT(complaint([](Json& j) { j["files"][0]["path"] = std::string(300, 'a'); }),
             ContainsSubstring("files[0].path: "));
  CHECK_THAT(complaint([](Json& j) { j["files"][0]["path"] = std::string("a\0b", 3); }),
             ContainsSubstring("files[0].path: "));
  CHECK_THAT(complaint([](Json& j) { j["files"][0]["path"] = "model/empty.txt"; }),
             ContainsSubstring("files[1].path: \"model/empty.txt\" does not come after"));
}

TEST_CASE("slices that do not cover their file once are refused") {
  const auto slice = [](Json& j, std::size_t i) -> Json& { return j["files"][2]["slices"][i]; };
  const auto first = [&](const char* key, const Json& value) {
    return complaint([&](Json& j) { slice(j, 0)[key] = value; });
  };
  CHECK_THAT(first("begin", 1), ContainsSubstring("files[2].slices[0].begin: is 1"));
  CHECK_THAT(first("end", 4095), ContainsSubstring("slices[1].begin: is 4096"));
  CHECK_THAT(first("end", 4097), ContainsSubstring("slices[1].begin: is 4096"));
  CHECK_THAT(first("end", 0), ContainsSubstring("files[2].slices[0].end: is 0"));
  CHECK_THAT(first("end", std::numeric_limits<std::int64_t>::max()),
             ContainsSubstring("slices[0].end: is 9223372036854775807, outside"));
  CHECK_THAT(first("update", 119), ContainsSubstring("slices[0].update: is 119"));
  CHECK_THAT(first("xxh3", Json::array()), ContainsSubstring("has 0 hashes for 1 windows"));
  CHECK_THAT(first("xxh3", {"0123456789abcdef", "0123456789abcdef"}),
             ContainsSubstring("has 2 hashes for 1 windows"));
  for (const Json& hash :
       {Json("0123456789ABCDEF"), Json("123456789abcdef"), Json("0x23456789abcdef"),
        Json("00123456789abcdef"), Json(" 123456789abcdef"), Json(7)}) {
    CHECK_THAT(first("xxh3", Json::array({hash})), ContainsSubstring("expected 16 hex digits"));
  }
  CHECK_THAT(complaint([](Json& j) { j["files"][2]["slices"].erase(3); }),
             ContainsSubstring("files[2].slices: cover 16777217 of 33554442 bytes"));
  CHECK_THAT(complaint([](Json& j) { j["files"][0]["slices"] = Json::array(); }),
             ContainsSubstring("files[0].slices: cover 0 of 5 bytes"));
  CHECK_THAT(complaint([](Json& j) { j["files"][1]["bytes"] = std::int64_t{1} << 62; }),
             ContainsSubstring("files[1].slices: cover 0 of"));
}

TEST_CASE("a checkpoint is read with files that are there and as long as its manifest says") {
  MemoryFiles files("/run");
  const auto complaint_of_folder = [&] {
    return io_error_of([&] { (void)read_manifest(files, "/run/step-3"); });
  };
  CHECK(complaint_of_folder() == "/run/step-3: is no checkpoint: it has no manifest.json");
  Manifest m = example();
  m.files.pop_back();
  files.make_folder("/run/step-3");
  files.make_folder("/run/step-3/model");
  write_whole(files, "/run/step-3/manifest.json", bytes_of(m.to_string()));
  CHECK_THAT(complaint_of_folder(), ContainsSubstring("model/config.json: is missing, but"));
  write_whole(files, "/run/step-3/model/config.json", bytes_of("1234"));
  write_whole(files, "/run/step-3/model/empty.txt", {});
  CHECK_THAT(complaint_of_folder(), ContainsSubstring("config.json: has 4 bytes, but"));
  files.remove("/run/step-3/model/config.json");
  write_whole(files, "/run/step-3/model/config.json", bytes_of("12345"));
  check_equal(read_manifest(files, "/run/step-3"), m);
  files.remove("/run/step-3/model/empty.txt");
  files.make_folder("/run/step-3/model/empty.txt");
  CHECK_THAT(complaint_of_folder(), ContainsSubstring("model/empty.txt"));
  files.remove("/run/step-3/manifest.json");
  write_whole(files, "/run/step-3/manifest.json", bytes_of("{}"));
  CHECK_THAT(complaint_of_folder(), ContainsSubstring("manifest.json: does not end with its xxh3"));
}

TEST_CASE("a manifest that would be refused is not written") {
  Manifest m = example();
  m.files[0].path = "../x";
  CHECK_THROWS_AS(m.to_string(), IoError);
  m = example();
  m.files[2].slices.pop_back();
  CHECK_THROWS_AS(m.to_string(), IoError);
  m = example();
  m.config = "[1]";
  CHECK_THROWS_AS(m.to_string(), IoError);
  m = example();
  m.model = "{\"a\": 1, \"a\": 2}";
  CHECK_THROWS_AS(m.to_string(), IoError);
  m = example();
  m.program = "\xff";
  CHECK_THROWS_AS(m.to_string(), IoError);
}

TEST_CASE("made-up manifests with a right hash are refused or read, and nothing else",
          "[one_thread][long]") {
  std::mt19937_64 random(7);
  const std::string whole = [] {
    std::string text = json_text(json_of(example()));
    text.pop_back();
    return text;
  }();
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::string pieces[] = {"{",
                                "}",
                                "[",
                                "]",
                                "\"",
                                ",",
                                ":",
                                "-",
                                "1e999",
                                "null",
                                "18446744073709551616",
                                "9223372036854775807",
                                "\\u0000",
                                "\xff"};
  for (std::size_t i = 0; i < test::draws(20000); ++i) {
    std::string text = whole;
    for (std::size_t n = 1 + below(3); n > 0; --n) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text.erase(at, 1 + below(8)); break;
        case 2: text.insert(at, pieces[below(std::size(pieces))]); break;
        default: text.insert(at, text.substr(below(text.size()), below(100))); break;
      }
    }
    (void)complaint(signed_text(text));  // throws what is no IoError
  }
  CHECK_THAT(complaint(signed_text("{\"format\":" + std::string(100000, '['))),
             ContainsSubstring("nest more than 64 levels"));
}

}  // namespace strata
