// Tests that tensors are read exactly in every dtype and slice, and that torn, hostile and missing
// files are refused by name, on files that the test writes byte by byte.

#include "strata/model/safetensors.h"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "strata/base/dtype.h"
#include "strata/base/error.h"
#include "support/catch.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// An empty folder that is removed at the end of the test.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("strata_safetensors_" + std::to_string(getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string object(const std::string& members) {
  return std::string("{").append(members).append("}");
}

std::string file_of(const std::string& header, const std::string& data) {
  return bytes_of(std::vector<std::uint64_t>{header.size()}) + header + data;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  std::size_t begin, std::size_t end) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape +
         R"(,"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

template <class T>
std::vector<T> read_all(const SafetensorsFile& file, const std::string& name) {
  std::vector<T> values(static_cast<std::size_t>(file.info(name).elements));
  file.read(name, 0, std::span(values));
  return values;
}

TEST_CASE("tensors of every floating-point dtype are read as f64, f32 and bf16") {
  const Folder folder;
  const std::vector<double> f64 = {1.0 + 0x1p-40, -3.0};
  const std::vector<float> f32 = {1.0f + 0x1p-8f, 1.0f + 0x1.8p-7f};  // ties: to even, down and up
  const std::vector<std::uint16_t> bf16 = {0x3f80, 0xc040};
  // 1, -2, the largest, the smallest subnormal, the largest subnormal, -inf, nan
  const std::vector<std::uint16_t> f16 = {0x3c00, 0xc000, 0x7bff, 0x0001, 0x03ff, 0xfc00, 0x7e00};
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"}," + entry("d", "F64", "[2]", 0, 16) + "," +
      entry("f", "F32", "[1,2]", 16, 24) + "," + entry("b", "BF16", "[2,1]", 24, 28) + "," +
      entry("h", "F16", "[7]", 28, 42) + "}   ";
  const SafetensorsFile file(folder.write(
      "a.safetensors",
      file_of(header, bytes_of(f64) + bytes_of(f32) + bytes_of(bf16) + bytes_of(f16))));

  CHECK(file.tensors() == std::vector<std::string>{"b", "d", "f", "h"});
  CHECK(file.info("b").dtype == StoredType::kBF16);
  CHECK(file.info("b").shape == std::vector<std::int64_t>{2, 1});
  CHECK(read_all<double>(file, "d") == f64);
  CHECK(read_all<float>(file, "d") == std::vector<float>{1.0f, -3.0f});
  CHECK(read_all<double>(file, "f") == std::vector<double>{1.0 + 0x1p-8, 1.0 + 0x1.8p-7});
  const auto rounded = read_all<Bf16>(file, "f");
  CHECK(rounded[0].bits == 0x3f80);
  CHECK(rounded[1].bits == 0x3f82);
  CHECK(read_all<float>(file, "b") == std::vector<float>{1.0f, -3.0f});
  CHECK(read_all<Bf16>(file, "b")[1].bits == 0xc040);
  const auto half = read_all<double>(file, "h");
  CHECK(std::vector<double>(half.begin(), half.begin() + 6) ==
        std::vector<double>{1, -2, 65504, 0x1p-24, 1023 * 0x1p-24, -INFINITY});
  CHECK(std::isnan(half[6]));
}

TEST_CASE("slices are read where they begin, also beyond one conversion chunk") {
  const Folder folder;
  std::vector<float> values(70000);
  std::iota(values.begin(), values.end(), 0.0f);
  const std::size_t bytes = values.size() * 4;
  const std::string header = object(entry("x", "F32", "[7,10000]", 0, bytes));
  const SafetensorsFile file(folder.write("a.safetensors", file_of(header, bytes_of(values))));
  std::vector<double> slice(66000);
  file.read("x", 3999, std::span(slice));
  for (std::size_t i = 0; i < slice.size(); ++i) {
    REQUIRE(slice[i] == static_cast<double>(i + 3999));
  }
  file.read("x", 70000, std::span(slice).first(0));
  CHECK_THROWS_WITH(file.read("x", 4001, std::span(slice)),
                    ContainsSubstring("'x'") && ContainsSubstring("70000"));
}

TEST_CASE("integer tensors are read as integers, not as numbers of another kind") {
  const Folder folder;
  const std::vector<std::int32_t> small = {-100, 7};
  const std::vector<std::int64_t> large = {5, std::int64_t{1} << 40};
  const std::string header =
      object(entry("i", "I32", "[2]", 0, 8) + "," + entry("l", "I64", "[2]", 8, 24));
  const SafetensorsFile file(
      folder.write("a.safetensors", file_of(header, bytes_of(small) + bytes_of(large))));
  CHECK(read_all<std::int64_t>(file, "i") == std::vector<std::int64_t>{-100, 7});
  CHECK(read_all<std::int64_t>(file, "l") == large);
  CHECK_THROWS_WITH(read_all<std::int32_t>(file, "l"),
                    ContainsSubstring("'l'") && ContainsSubstring("do not fit 32 bits") &&
                        !ContainsSubstring("narrow"));
  CHECK_THROWS_WITH(read_all<double>(file, "i"),
                    ContainsSubstring("'i'") && ContainsSubstring("I32"));
}

/// What opening a file of this content says; fails the test if it does not throw IoError.
std::string opening_refusal(const std::string& content) {
  const Folder folder;
  const fs::path file = folder.write("bad.safetensors", content);
  try {
    const SafetensorsFile opened(file);
  } catch (const IoError& e) {
    CHECK_THAT(e.what(), ContainsSubstring("bad.safetensors"));
    return e.what();
  }
  FAIL("a damaged file was opened");
  return {};
}

TEST_CASE("a torn or hostile header is refused with the file's name") {
  const std::string header = object(entry("x", "F32", "[2]", 0, 8));
  const std::string good = file_of(header, std::string(8, 'x'));
  for (std::size_t length = 0; length < good.size(); ++length) {
    CHECK_FALSE(opening_refusal(good.substr(0, length)).empty());
  }
  CHECK_THAT(opening_refusal(bytes_of(std::vector<std::uint64_t>{~0ull}) + header),
             ContainsSubstring("claims a header"));
  CHECK_THAT(opening_refusal(file_of("[1]", "")), ContainsSubstring("not an object"));
  CHECK_THAT(opening_refusal(good + "x"), ContainsSubstring("belong to no tensor"));
}

// What the safetensors library 0.8.0 says to each of these, but for a tensor that is there twice,
// which it takes.
TEST_CASE("headers that the library refuses are refused, and those that it takes are read") {
  const std::string tensor = entry("x", "F32", "[1]", 0, 4);
  const auto metadata = [&](const std::string& value) {
    return object(R"("__metadata__":)" + value + "," + tensor);
  };
  const std::string data(4, 'x');
  const Folder folder;
  for (const std::string& taken :
       {object(tensor) + "  ", object(tensor) + "\n", " " + object(tensor), metadata("{}"),
        metadata("null"), metadata(R"({"a":"b","a":"c"})"),
        object(R"("x":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1})")}) {
    INFO(taken);
    CHECK(SafetensorsFile(folder.write("good.safetensors", file_of(taken, data))).tensors() ==
          std::vector<std::string>{"x"});
  }
  const std::vector<std::pair<std::string, std::string>> refused{
      {object(tensor) + std::string(2, '\0'), "NUL"},
      {object(tensor) + '\0' + "{", "NUL"},
      {"\xEF\xBB\xBF" + object(tensor), "byte order mark"},
      {object(tensor + "," + tensor), "\"x\" is given twice"},
      {object(R"("x":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})"),
       "\"dtype\" is given twice"},
      {object(R"("__metadata__":{},"__metadata__":{},)" + tensor), "is given twice"},
      {metadata(R"({"a":1})"), "__metadata__ is not an object of texts"},
      {metadata(R"({"a":null})"), "not an object of texts"},
      {metadata(R"({"a":{}})"), "not an object of texts"},
      {metadata("[]"), "not an object of texts"},
      {metadata(R"("x")"), "not an object of texts"},
      {object("\"\xe9\":" + tensor.substr(4)), "cannot be read"}};
  for (const auto& [header, problem] : refused) {
    INFO(header);
    CHECK_THAT(opening_refusal(file_of(header, data)), ContainsSubstring(problem));
  }
}

// The library 0.8.0 says the same of each.
TEST_CASE(
    "unusual entries are read, and those that are nearly right refused, as the library does") {
  const auto x_of = [](const std::string& shape, const std::string& offsets) {
    return R"("x":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const std::string y = entry("y", "F32", "[1]", 0, 4);
  const Folder folder;
  const std::vector<std::tuple<std::string, std::size_t, std::size_t>> taken{
      {"", 0, 0},
      {R"("__metadata__":{"a":"b"})", 0, 0},
      {R"("__meta\u0064ata__":{"a":"b"},)" + y, 4, 1},
      {x_of("[]", "[0,4]"), 4, 1},
      {x_of("[0,5]", "[0,0]") + "," + y, 4, 2},
      {y + "," + x_of("[0]", "[4,4]"), 4, 2},
      {x_of("[0]", "[0,0]") + "," + entry("z", "F32", "[0]", 0, 0), 0, 2},
      {x_of("[1]", "[4,8]") + "," + y, 8, 2},
      {entry("a", "U8", "[1]", 0, 1) + "," + x_of("[1]", "[1,5]"), 5, 2},
      {entry("", "F32", "[1]", 0, 4) + "," + entry("\\u0000", "F32", "[0]", 4, 4), 4, 2}};
  for (const auto& [entries, bytes, tensors] : taken) {
    INFO(entries);
    const std::string file = file_of("\t" + object(entries), std::string(bytes, 'x'));
    CHECK(SafetensorsFile(folder.write("good.safetensors", file)).tensors().size() == tensors);
  }
  const auto broken_offsets = {"[0.0,4.0]",
                               "[0,4e0]",
                               "[-0,4]",
                               "[-4,0]",
                               "[4]",
                               "[0,4,8]",
                               "[0,4],",
                               "[18446744073709551612,0]",
                               "[18446744073709551616,18446744073709551620]"};
  const auto broken_shapes = {"[1.0]", "[\"1\"]", "[01]", "[NaN]"};
  std::vector<std::string> refused{y + ",",
                                   y + "/**/",
                                   y + "," + x_of("[0]", "[2,2]"),
                                   y + "," + x_of("[1]", "[0,4]"),
                                   y + "," + x_of("[4294967296,4294967296]", "[0,0]"),
                                   y + R"(,"__Metadata__":{"a":"b"})",
                                   y + R"(,"x":null)",
                                   y + R"(,"x":{"dtype":null,"shape":[0],"data_offsets":[4,4]})",
                                   R"("\ud800":)" + y.substr(4),
                                   "\"a\tb\":" + y.substr(4),
                                   ""};
  for (const char* offsets : broken_offsets) refused.push_back(x_of("[1]", offsets));
  for (const char* shape : broken_shapes) refused.push_back(x_of(shape, "[0,4]"));
  for (const std::string& entries : refused) {
    INFO(entries);
    CHECK_FALSE(opening_refusal(file_of(object(entries), std::string(4, 'x'))).empty());
  }
  for (const std::string header : {"null", "\"x\"", "", "{", "{}{}"}) {
    INFO(header);
    CHECK_FALSE(opening_refusal(file_of(header, "")).empty());
  }
}

TEST_CASE("an entry that does not fit the data is refused with the tensor's name") {
  const auto check = [](const std::string& entries, std::size_t bytes, const std::string& what) {
    const std::string text = opening_refusal(file_of(object(entries), std::string(bytes, 'x')));
    CHECK_THAT(text, ContainsSubstring("'x'"));
    CHECK_THAT(text, ContainsSubstring(what));
  };
  check(entry("x", "F32", "[2]", 0, 12), 8, "outside");
  check(entry("x", "F32", "[2]", 8, 0), 8, "outside");
  check(entry("x", "F32", "[3]", 0, 8), 8, "do not hold");
  check(entry("x", "F64", "[4611686018427387905,4]", 0, 32), 32, "do not hold");
  check(entry("x", "F32", "[-2]", 0, 8), 8, "shape");
  check(entry("x", "F32", "[9223372036854775807]", 0, 8), 8, "do not hold");
  check(entry("x", "F32", "[9223372036854775808]", 0, 8), 8, "sizes from 0 to 2^63 - 1");
  check(entry("x", "F32", "2", 0, 8), 8, "shape");
  check(entry("x", "F32", "null", 0, 4), 4, "shape");
  check(entry("x", "F32", "{}", 0, 4), 4, "shape");
  check(entry("x", "F8_E4M3", "[8]", 0, 9), 8, "outside");
  check(R"("x":{"shape":[2],"data_offsets":[0,8]})", 8, "dtype");
  check(R"("x":{"dtype":"F32","shape":[2],"data_offsets":[0,8.5]})", 8, "data_offsets");
  check(R"("x":3)", 8, "bad.safetensors");
  check(entry("a", "F32", "[2]", 0, 8) + "," + entry("x", "F32", "[2]", 4, 12), 12, "overlaps");
  check(entry("a", "F32", "[2]", 0, 8) + "," + entry("x", "F32", "[1]", 12, 16), 16, "gap");
}

TEST_CASE("a hostile header is refused without a word of the library, and in short") {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& entries :
       {entry("x", "F32", deep, 0, 8),
        R"("x":{"dtype":"F32","shape":[2],"data_offsets":)" + deep + "}", R"("x":)" + deep,
        std::string(R"("x":3)"), std::string(R"("x":{"dtype":3})"),
        std::string(R"("x":{"dtype":"F32","shape":[2],"data_offsets":{"a":1,"b":2}})"),
        entry(std::string(10'000, 'n'), "F32", "[3]", 0, 8), std::string("\"x\":{")}) {
    const std::string text = opening_refusal(file_of(object(entries), std::string(8, 'x')));
    CHECK_THAT(text, !ContainsSubstring("json.exception"));
    CHECK(text.size() < 500);
  }
}

TEST_CASE("a tensor of an unknown dtype bars nobody from the others") {
  const Folder folder;
  const SafetensorsFile file(folder.write(
      "a.safetensors",
      file_of(object(entry("f", "F32", "[1]", 0, 4) + "," + entry("q", "F8_E4M3", "[8]", 4, 12)),
              bytes_of(std::vector<float>{2.0f}) + std::string(8, 'x'))));
  CHECK(file.tensors() == std::vector<std::string>{"f", "q"});
  CHECK(read_all<float>(file, "f") == std::vector<float>{2.0f});
  CHECK_THROWS_WITH(read_all<float>(file, "q"),
                    ContainsSubstring("'q'") && ContainsSubstring("F8_E4M3 is not supported"));
}

TEST_CASE("a folder that cannot be searched for weights is named") {
  const Folder folder;
  fs::create_symlink(folder.path() / "b", folder.path() / "a");
  fs::create_symlink(folder.path() / "a", folder.path() / "b");
  CHECK_THROWS_WITH(SafetensorsDirectory(folder.path() / "a"),
                    ContainsSubstring("cannot be searched for weights") &&
                        !ContainsSubstring("filesystem error"));
  CHECK_THROWS_WITH(SafetensorsDirectory("/" + std::string(5000, 'x')),
                    ContainsSubstring("cannot be searched for weights"));
}

TEST_CASE("a missing file and a missing tensor are named") {
  const Folder folder;
  CHECK_THROWS_AS(SafetensorsFile(folder.path() / "none.safetensors"), IoError);
  CHECK_THROWS_WITH(SafetensorsFile(folder.path() / "none.safetensors"),
                    ContainsSubstring("none.safetensors"));
  const SafetensorsFile file(folder.write("a.safetensors", file_of("{}", "")));
  CHECK(file.tensors().empty());
  CHECK_THROWS_WITH(file.info("lm_head.weight"), ContainsSubstring("lm_head.weight"));
}

TEST_CASE("a model folder is read from one file or from shards") {
  const Folder folder;
  const auto shard = [&](const std::string& name, const std::string& tensor, float value) {
    const std::string header = object(entry(tensor, "F32", "[1]", 0, 4));
    return folder.write(name, file_of(header, bytes_of(std::vector<float>{value})));
  };
  CHECK_THROWS_WITH(SafetensorsDirectory(folder.path()), ContainsSubstring("model.safetensors"));

  shard("s1.safetensors", "a", 1.0f);
  const fs::path second = shard("s2.safetensors", "b", 2.0f);
  const auto index = [&](const std::string& map) {
    return folder.write("model.safetensors.index.json",
                        object("\"metadata\":{},\"weight_map\":" + map));
  };
  index(R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  {
    const SafetensorsDirectory weights(folder.path());
    CHECK(weights.tensors() == std::vector<std::string>{"a", "b"});
    float value = 0;
    weights.read("b", 0, std::span(&value, 1));
    CHECK(value == 2.0f);
    CHECK(weights.info("a").elements == 1);
    CHECK_FALSE(weights.contains("c"));
    CHECK_THROWS_WITH(weights.info("c"), ContainsSubstring("'c'"));
  }
  index(R"({"a":"s1.safetensors","c":"s2.safetensors"})");
  CHECK_THROWS_WITH(SafetensorsDirectory(folder.path()),
                    ContainsSubstring("s2.safetensors") && ContainsSubstring("'c'"));
  index(R"({"a":"../s1.safetensors"})");
  CHECK_THROWS_WITH(SafetensorsDirectory(folder.path()), ContainsSubstring("beside the index"));
  index(R"({"a":"s1.safetensors","b":"s2.safetensors"})");
  fs::remove(second);
  CHECK_THROWS_WITH(SafetensorsDirectory(folder.path()), ContainsSubstring("s2.safetensors"));
  folder.write("model.safetensors.index.json", "{}");
  CHECK_THROWS_WITH(SafetensorsDirectory(folder.path()), ContainsSubstring("weight_map"));

  shard("model.safetensors", "whole", 3.0f);
  CHECK(SafetensorsDirectory(folder.path()).tensors() == std::vector<std::string>{"whole"});
}

TEST_CASE("tensors of a text part go by the names that they have alone") {
  const Folder folder;
  const auto names = [&](const std::string& first, const std::string& second) {
    const std::string header =
        object(entry(first, "F32", "[1]", 0, 4) + "," + entry(second, "F32", "[1]", 4, 8));
    folder.write("model.safetensors", file_of(header, bytes_of(std::vector<float>{1, 2})));
    return SafetensorsDirectory(folder.path()).tensors();
  };
  using Listed = std::vector<std::string>;
  CHECK(names("language_model.model.norm.weight", "vision_tower.a") ==
        Listed{"model.norm.weight", "vision_tower.a"});
  CHECK(names("language_model.lm_head.weight", "model.language_model.norm.weight") ==
        Listed{"lm_head.weight", "model.norm.weight"});
  const SafetensorsDirectory weights(folder.path());
  float value = 0;
  weights.read("model.norm.weight", 0, std::span(&value, 1));
  CHECK(value == 2);
  CHECK_THROWS_WITH(names("model.norm.weight", "language_model.model.norm.weight"),
                    ContainsSubstring("is there as") && ContainsSubstring("too"));
}

TEST_CASE("a file that shrinks while it is open gives an error, not a crash") {
  const Folder folder;
  const std::string header = object(entry("x", "F32", "[2]", 0, 8));
  const fs::path path = folder.write("a.safetensors", file_of(header, std::string(8, 'x')));
  const SafetensorsFile file(path);
  fs::resize_file(path, 12 + header.size());
  CHECK_THROWS_WITH(read_all<float>(file, "x"), ContainsSubstring("shorter"));
}

}  // namespace
}  // namespace strata
