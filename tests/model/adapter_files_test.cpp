// Which tensors adapters' files must have, may have and must not have. The names are those that
// PEFT 0.21 writes; tests/e2e/export_peft_test.py has PEFT itself write them.

#include "strata/model/adapter_files.h"

#include <cstdint>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/model/adapters.h"
#include "strata/model/families.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/scratch_folder.h"
#include "support/tiny_model.h"

namespace strata::test {
namespace {

constexpr std::int64_t kWidth = 20;  // of tiny_model()
constexpr std::int64_t kRows = 61;
const std::string kPrefix = "base_model.model.";
const std::string kEmbedding = kPrefix + "model.embed_tokens";
const std::string kHead = kPrefix + "lm_head";

/// A tensor of numbers that are all `value`.
struct SavedTensor {
  std::string name;
  std::vector<std::int64_t> shape{kRows, kWidth};
  float value = 1;
};

/// Returns what is said of files with A and B of a q_proj, and `more`, for a model in which
/// `modules` are trained whole; "" if they are its adapters.
std::string said_of(const std::vector<SavedTensor>& more, const std::vector<std::string>& modules,
                    bool tied) {
  const std::string q_proj = kPrefix + "model.layers.1.self_attn.q_proj.lora_";
  std::vector<SavedTensor> tensors{{q_proj + "A.weight", {2, kWidth}},
                                   {q_proj + "B.weight", {24, 2}}};
  tensors.insert(tensors.end(), more.begin(), more.end());
  nlohmann::json header;
  std::string data;
  for (const SavedTensor& t : tensors) {
    std::int64_t elements = 1;
    for (const std::int64_t size : t.shape) elements *= size;
    const std::size_t begin = data.size();
    data += bytes_of(std::vector<float>(static_cast<std::size_t>(elements), t.value));
    header[t.name] = {{"dtype", "F32"}, {"shape", t.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = json_text(header);
  const ScratchFolder folder;
  AdapterFiles files;
  files.emplace_back(folder.write("adapter_model.safetensors",
                                  bytes_of(std::vector<std::uint64_t>{text.size()}) + text + data));
  ModelSpec spec = spec_of(tiny_model(tied));
  add_adapters(spec, {.rank = 2, .targets = {"q_proj"}, .layers = {1}, .modules_to_save = modules});
  try {
    require_adapters(files, make_layout(spec));
    require_one_embedding(files, make_layout(spec));
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

/// Returns what PEFT saves of a module where the vocabulary grew.
std::vector<SavedTensor> grown(const std::string& module) {
  return {{module + ".weight"},
          {module + ".modules_to_save.weight"},
          {module + ".original_module.weight", {kRows, kWidth}, 7}};
}

std::vector<SavedTensor> both(std::vector<SavedTensor> tensors,
                              const std::vector<SavedTensor>& more) {
  tensors.insert(tensors.end(), more.begin(), more.end());
  return tensors;
}

}  // namespace

TEST_CASE("modules that are trained whole may be there as PEFT has them where tokens were added") {
  const std::vector<SavedTensor> all = both(grown(kEmbedding), grown(kHead));
  CHECK(said_of(all, {"embed_tokens", "lm_head"}, false) == "");
  CHECK(said_of(all, {"embed_tokens"}, true) == "");
  CHECK(said_of(grown(kHead), {"lm_head"}, false) == "");
}

TEST_CASE("a matrix that PEFT saves and the config trains nowhere is refused") {
  const std::vector<SavedTensor> untrained = both(grown(kHead), {{kEmbedding + ".weight"}});
  CHECK_THAT(said_of(untrained, {"lm_head"}, false),
             ContainsSubstring("tensor " + kEmbedding + ".weight is of no adapter"));
  CHECK_THAT(said_of({{kHead + ".original_module.weight"}}, {}, false),
             ContainsSubstring("tensor " + kHead + ".original_module.weight is of no adapter"));
}

TEST_CASE("an adapter for more tokens than the model has is told from one for another model") {
  const auto said_of_head = [](std::int64_t rows, std::int64_t width) {
    return said_of({{kHead + ".weight", {rows, width}}}, {"lm_head"}, false);
  };
  CHECK_THAT(said_of_head(70, kWidth), ContainsSubstring("[70, 20]") &&
                                           ContainsSubstring("[61, 20]") &&
                                           ContainsSubstring("model.vocab_size = 70"));
  CHECK_THAT(said_of_head(60, kWidth), ContainsSubstring("is for another model"));
  CHECK_THAT(said_of_head(70, 24), ContainsSubstring("is for another model"));
}

TEST_CASE("what PEFT saves of a module beside its weight does not stand for it") {
  const std::vector<SavedTensor> wrapper{{kHead + ".modules_to_save.weight"}};
  CHECK_THAT(said_of(wrapper, {"lm_head"}, false),
             ContainsSubstring("the adapter has no tensor " + kHead + ".weight"));
}

TEST_CASE("a tied head must be the embedding") {
  const std::vector<SavedTensor> apart{{kEmbedding + ".weight"},
                                       {kHead + ".weight", {kRows, kWidth}, 2}};
  CHECK_THAT(said_of(apart, {"lm_head"}, true),
             ContainsSubstring("differs from " + kEmbedding + ".weight"));
}

}  // namespace strata::test
