// Tests that matrices of bitsandbytes are found in one file or several, and that what does not fit
// together is refused by name. The files are written here; the numbers that are read are compared
// with those of bitsandbytes in tests/golden.

#include "strata/model/stored_nf4.h"

#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/model/safetensors.h"
#include "support/catch.h"
#include "support/json.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;

struct Part {
  std::string dtype;
  std::int64_t count = 0;
  std::string data;
};
using Parts = std::map<std::string, Part>;

template <class T>
Part tensor(const std::string& dtype, const std::vector<T>& values) {
  std::string data(values.size() * sizeof(T), '\0');
  std::memcpy(data.data(), values.data(), data.size());
  return {dtype, static_cast<std::int64_t>(values.size()), data};
}

Part text(const std::string& characters) {
  return {"U8", static_cast<std::int64_t>(characters.size()), characters};
}

constexpr const char* kName = "model.layers.0.mlp.up_proj.weight";
constexpr const char* kState = ".quant_state.bitsandbytes__nf4";

std::string state_with(const std::string& key, const std::string& value) {
  std::map<std::string, std::string> members{
      {"quant_type", "\"nf4\""}, {"blocksize", "64"},         {"dtype", "\"float32\""},
      {"shape", "[5, 64]"},      {"nested_blocksize", "256"}, {"nested_dtype", "\"float32\""},
      {"nested_offset", "0.5"}};
  members[key] = value;
  std::string all;
  for (const auto& [name, member] : members) {
    all += (all.empty() ? "{\"" : ", \"") + name + "\": " + member;
  }
  return all + "}";
}

/// A matrix [5, 64], every row of which is a block of its own scale. The codes of a row are 0 to
/// 15, again and again.
Parts matrix() {
  const std::string name = kName;
  std::vector<std::uint8_t> codes;
  for (int i = 0; i < 160; ++i) codes.push_back(static_cast<std::uint8_t>(i % 8 * 34 + 1));
  std::vector<float> map(256);
  for (std::size_t i = 0; i < map.size(); ++i) map[i] = static_cast<float>(i) / 256;
  const Nf4Values nf4 = nf4_values();
  return {{name, tensor("U8", codes)},
          {name + ".absmax", tensor("U8", std::vector<std::uint8_t>{0, 64, 128, 192, 255})},
          {name + ".quant_map",
           tensor("F32", std::vector<float>(nf4.levels.begin(), nf4.levels.end()))},
          {name + ".nested_absmax", tensor("F32", std::vector<float>{2})},
          {name + ".nested_quant_map", tensor("F32", map)},
          {name + kState, text(state_with("blocksize", "64"))}};
}

/// A folder with the tensors of each file; the index names all.
class ModelFolder {
 public:
  explicit ModelFolder(const std::vector<Parts>& files)
      : path_(fs::temp_directory_path() / ("strata_stored_nf4_" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
    nlohmann::json map = nlohmann::json::object();
    for (std::size_t i = 0; i < files.size(); ++i) {
      const std::string file = std::to_string(i) + ".safetensors";
      write(file, files[i]);
      for (const auto& [name, unused] : files[i]) map[name] = file;
    }
    std::ofstream(path_ / "model.safetensors.index.json")
        << json_text(nlohmann::json{{"weight_map", map}});
  }
  ~ModelFolder() { fs::remove_all(path_); }
  ModelFolder(const ModelFolder&) = delete;
  ModelFolder& operator=(const ModelFolder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  void write(const std::string& file, const Parts& tensors) const {
    nlohmann::json header = nlohmann::json::object();
    std::string data;
    for (const auto& [name, t] : tensors) {
      header[name] = {{"dtype", t.dtype},
                      {"shape", {t.count}},
                      {"data_offsets", {data.size(), data.size() + t.data.size()}}};
      data += t.data;
    }
    const std::string head = json_text(header);
    const std::uint64_t length = head.size();
    std::ofstream out(path_ / file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out << head << data;
  }

  fs::path path_;
};

std::vector<float> values_of(const SafetensorsDirectory& files, const std::string& name) {
  std::vector<float> values(static_cast<std::size_t>(files.info(name).elements));
  files.read(name, 0, std::span(values));
  return values;
}

/// The first number of each row of matrix(), by the definition: code 0 stands for -1.
const std::vector<float> kFirst{-0.5F, -1, -1.5F, -2, -(0.5F + 2 * 255.0F / 256)};

void check_matrix(const SafetensorsDirectory& files) {
  CHECK(files.tensors() == std::vector<std::string>{kName});
  CHECK(files.info(kName).shape == std::vector<std::int64_t>{5, 64});
  CHECK(files.info(kName).dtype == StoredType::kF32);
  const std::vector<float> values = values_of(files, kName);
  for (std::size_t row = 0; row < kFirst.size(); ++row) CHECK(values[row * 64] == kFirst[row]);
}

}  // namespace

TEST_CASE("a matrix in 4 bits is one tensor, in one file or in several, also of a text part") {
  check_matrix(SafetensorsDirectory(ModelFolder({matrix()}).path()));
  std::vector<Parts> spread(2);
  Parts of_text;
  for (const auto& [name, t] : matrix()) {
    spread[spread[0].size() < 3 ? 0 : 1][name] = t;
    of_text["language_model." + name] = t;
  }
  check_matrix(SafetensorsDirectory(ModelFolder(spread).path()));
  check_matrix(SafetensorsDirectory(ModelFolder({of_text}).path()));
}

TEST_CASE("scales of a matrix in 4 bits may be f32, and its codes numbers of another dtype") {
  Parts tensors = matrix();
  const std::string name = kName;
  tensors.erase(name + ".nested_absmax");
  tensors.erase(name + ".nested_quant_map");
  tensors[name + ".absmax"] = tensor("F32", std::vector<float>{1, 2, 3, 4, 5});
  tensors[name].dtype = "BF16";  // as bnb_4bit_quant_storage says
  tensors[name].count /= 2;
  const ModelFolder folder({tensors});
  const SafetensorsDirectory files(folder.path());
  const std::vector<float> values = values_of(files, kName);
  for (std::size_t row = 0; row < 5; ++row) {
    CHECK(values[row * 64] == -static_cast<float>(row + 1));
  }
  CHECK_FALSE(files.in_4_bits(kName)->has_parts());
}

TEST_CASE("a matrix in 4 bits that does not fit together is refused by name") {
  const std::string name = kName;
  const auto refused = [&](const std::function<void(Parts&)>& spoil, const std::string& tensor,
                           const std::string& why) {
    Parts tensors = matrix();
    spoil(tensors);
    const ModelFolder folder({tensors});
    CHECK_THROWS_AS(SafetensorsDirectory(folder.path()), IoError);
    CHECK_THROWS_WITH(SafetensorsDirectory(folder.path()),
                      ContainsSubstring("'" + name + tensor) && ContainsSubstring(why) &&
                          !ContainsSubstring("json.exception"));
  };
  const auto with = [&](const std::string& part, const Part& t) {
    return [part, t, name](Parts& tensors) { tensors[name + part] = t; };
  };
  const auto state = [&](const std::string& all, const std::string& why) {
    refused(with(kState, text(all)), kState, why);
  };
  const auto member = [&](const std::string& key, const std::string& value) {
    state(state_with(key, value), key + " is ");
  };

  for (const char* text : {"", "{", "[1]", "3", "null", "{\"shape\": NaN}", "\xff"}) {
    INFO(text);
    state(text, "is not the JSON that bitsandbytes writes");
  }
  state(std::string(1 << 17, ' '), "too long");
  for (const char* value : {"null", "[320]", "[5, 64, 1]", "[5, 0]", "[-5, 64]", "[5.0, 64]",
                            "[4294967296, 4294967296]", "[18446744073709551615, 1]", "\"5\""}) {
    member("shape", value);
  }
  for (const char* value :
       {"0", "63", "8192", "16", "-64", "64.0", "null", "18446744073709551615"}) {
    member("blocksize", value);
    member("nested_blocksize", value);
  }
  for (const char* value : {"\"float64\"", "3", "null"}) member("dtype", value);
  for (const char* value : {"\"fp4\"", "4", "[]"}) member("quant_type", value);
  for (const char* value : {"1e39", "\"0\"", "null", "[]"}) member("nested_offset", value);

  refused(with(kState, text(state_with("shape", "[5, 66]"))), "", "has 160 bytes, not 165");
  refused(with(kState, text(state_with("shape", "[9223372036854775807, 1]"))), "", "not 46116860");
  refused(with(kState, text(state_with("blocksize", "32"))), ".absmax", "has 5 bytes, not 10");
  const auto floats = [](std::size_t count, float value) {
    return tensor("F32", std::vector<float>(count, value));
  };
  refused(with(".nested_absmax", floats(2, 1)), ".nested_absmax", "has 2 elements, not 1");
  refused(with(".nested_absmax", text("1234")), ".nested_absmax", "U8 is not supported");
  refused(with(".nested_quant_map", floats(255, 0)), ".nested_quant_map", "255 elements, not 256");
  refused(with(".nested_quant_map", floats(256, NAN)), ".nested_quant_map", "NaN");
  refused(with(".nested_quant_map", floats(256, 2)), ".nested_quant_map", "beyond 1");
  refused(with(".quant_map", floats(16, 0.5F)), ".quant_map", "other levels");
  refused(with(".quant_map", floats(16, INFINITY)), ".quant_map", "infinity");
  for (const char* part : {".absmax", ".quant_map", ".nested_quant_map", ""}) {
    INFO("without " << part);
    Parts tensors = matrix();
    tensors.erase(name + part);
    const ModelFolder folder({tensors});
    CHECK_THROWS_WITH(SafetensorsDirectory(folder.path()), ContainsSubstring("'" + name + "'"));
  }
  refused([&](Parts& t) { t.erase(name + ".nested_absmax"); }, ".absmax", "U8 is not supported");
}

TEST_CASE("scales of a matrix in 4 bits that are not finite are refused when they are read") {
  const std::string name = kName;
  // Both ways of reading the matrix: as numbers, and as codes and scales.
  const auto read = [&](const std::string& dtype, float group, bool parts) {
    Parts tensors = matrix();
    tensors[name + ".nested_absmax"] = tensor("F32", std::vector<float>{group});
    tensors[name + kState] = text(state_with("dtype", dtype));
    const ModelFolder folder({tensors});
    const SafetensorsDirectory files(folder.path());
    if (!parts) return static_cast<void>(values_of(files, kName));
    std::vector<std::uint8_t> bytes(160 + 5);
    std::vector<float> floats(1 + kNf4Tables);
    files.in_4_bits(kName)->read_parts({.codes = std::span(bytes).first(160),
                                        .scales = std::span(bytes).last(5),
                                        .groups = std::span(floats).first(1),
                                        .tables = std::span(floats).last(kNf4Tables)});
  };
  for (const bool parts : {false, true}) {
    const auto refused = [&](const std::string& dtype, float group, const std::string& in) {
      CHECK_THROWS_WITH(read(dtype, group, parts),
                        ContainsSubstring(name + ".nested_absmax") &&
                            ContainsSubstring("a scale that is not finite in " + in));
    };
    refused("\"float32\"", NAN, "bf16");
    refused("\"float32\"", 3.4028e38F, "bf16");  // finite in f32 alone
    refused("\"bfloat16\"", -3.4028e38F, "bf16");
    refused("\"float16\"", 65504, "f16");  // with the offset it is larger
    CHECK_NOTHROW(read("\"bfloat16\"", 3.3895e38F, parts));
    CHECK_NOTHROW(read("\"float16\"", 65503, parts));
  }
}

TEST_CASE("other formats of bitsandbytes are refused with the remedy") {
  Parts tensors = matrix();
  const std::string name = kName;
  tensors[name + ".quant_state.bitsandbytes__fp4"] = tensors[name + kState];
  tensors.erase(name + kState);
  const ModelFolder folder({tensors});
  CHECK_THROWS_WITH(SafetensorsDirectory(folder.path()),
                    ContainsSubstring("a matrix in fp4 is not supported") &&
                        ContainsSubstring("use the bf16, f16 or f32 original"));
}

}  // namespace strata::test
