// Tests rows that weights are given for more tokens, on matrices whose means are worked out by
// hand.

#include "strata/model/resize_vocabulary.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "strata/base/dtype.h"
#include "strata/base/error.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

struct Matrix {
  std::string name;
  std::vector<float> values;  ///< rows of two
};

void write_model(const ScratchFolder& folder, const std::vector<Matrix>& matrices) {
  std::string header = "{";
  std::string data;
  for (const Matrix& matrix : matrices) {
    const std::string values = bytes_of(matrix.values);
    header += (data.empty() ? "\"" : ",\"") + matrix.name + R"(":{"dtype":"F32","shape":[)" +
              std::to_string(matrix.values.size() / 2) + R"(,2],"data_offsets":[)" +
              std::to_string(data.size()) + ',' + std::to_string(data.size() + values.size()) +
              "]}";
    data += values;
  }
  header += '}';
  folder.write("model.safetensors",
               bytes_of(std::vector<std::uint64_t>{header.size()}) + header + data);
}

template <class T>
std::vector<T> read(const SafetensorsDirectory& files, std::string_view name, std::int64_t begin,
                    std::size_t count) {
  std::vector<T> values(count);
  files.read(name, begin, std::span<T>(values));
  return values;
}

}  // namespace

TEST_CASE("new rows of embedding and head are the mean of the others") {
  const ScratchFolder folder;
  write_model(folder, {{"lm_head.weight", {8, -4, 0, 1, 1, 0}},
                       {"model.embed_tokens.weight", {1, 2, 3, 5, 2, -1}},
                       {"model.norm.weight", {7, 7}}});
  SafetensorsDirectory files(folder.file(""));
  resize_vocabulary(files, 3, 5);
  CHECK(files.info(kEmbeddingName).shape == std::vector<std::int64_t>{5, 2});
  CHECK(files.info(kEmbeddingName).elements == 10);
  CHECK(read<double>(files, kEmbeddingName, 0, 10) ==
        std::vector<double>{1, 2, 3, 5, 2, -1, 2, 2, 2, 2});
  CHECK(read<float>(files, kHeadName, 0, 10) ==
        std::vector<float>{8, -4, 0, 1, 1, 0, 3, -1, 3, -1});
  CHECK(files.info("model.norm.weight").elements == 2);

  // Slices that begin and end anywhere.
  CHECK(read<double>(files, kHeadName, 5, 3) == std::vector<double>{0, 3, -1});
  CHECK(read<double>(files, kHeadName, 7, 2) == std::vector<double>{-1, 3});
  CHECK(read<double>(files, kHeadName, 1, 2) == std::vector<double>{-4, 0});
  CHECK(read<Bf16>(files, kHeadName, 9, 1)[0].bits == 0xbf80);  // -1
  CHECK_THROWS_AS(read<double>(files, kHeadName, 9, 2), IoError);
  CHECK_THROWS_AS(read<double>(files, kHeadName, -1, 2), IoError);
}

TEST_CASE("the mean of many rows is summed in f64") {
  const ScratchFolder folder;
  std::vector<float> values;
  for (int row = 0; row < 3; ++row) values.insert(values.end(), {16777216.0f, 1.0f});
  values.insert(values.end(), {4.0f, 5.0f});
  write_model(folder, {{"model.embed_tokens.weight", values}});  // tied
  SafetensorsDirectory files(folder.file(""));
  resize_vocabulary(files, 4, 5);
  CHECK(read<double>(files, kEmbeddingName, 8, 2) == std::vector<double>{12582913.0, 2.0});
  CHECK_FALSE(files.contains(kHeadName));
}

TEST_CASE("weights that are damaged get no rows") {
  const ScratchFolder folder;
  const auto refusal = [&](const std::vector<Matrix>& matrices) -> std::string {
    write_model(folder, matrices);
    SafetensorsDirectory files(folder.file(""));
    try {
      resize_vocabulary(files, 2, 3);
    } catch (const IoError& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(refusal({{"model.embed_tokens.weight", {1, 2}}}),
             ContainsSubstring("model.embed_tokens.weight has not the 2 rows"));
  CHECK_THAT(refusal({{"lm_head.weight", {1, 2}}, {"model.embed_tokens.weight", {1, 2, 3, 4}}}),
             ContainsSubstring("lm_head.weight has not the 2 rows"));
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  CHECK_THAT(refusal({{"model.embed_tokens.weight", {1, 2, 3, kNaN}}}),
             ContainsSubstring("model.embed_tokens.weight is NaN at element 3"));
  CHECK_THAT(refusal({{"model.norm.weight", {1, 2}}}),
             ContainsSubstring("model.embed_tokens.weight"));
}

}  // namespace strata
