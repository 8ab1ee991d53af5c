// Tests the files of model/ that hold no weights: that strata's own readers of Hugging Face folders
// take them, and that what an imported model came with is there again.

#include "strata/checkpoint/model_folder.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "checkpoint/file_places.h"
#include "strata/base/error.h"
#include "strata/model/families.h"
#include "strata/model/safetensors.h"
#include "strata/model/weights_check.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/scratch_folder.h"
#include "support/tiny_model.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& content) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
}

/// Returns the files by path, and checks that they are sorted.
std::map<std::string, std::string> files_of(const LlamaConfig& model, const CheckpointTypes& types,
                                            const fs::path& imported_from) {
  const ModelLayout layout = make_layout(spec_of(model));
  std::map<std::string, std::string> files;
  std::string last;
  const ImportedFiles imported =
      imported_from.empty() ? ImportedFiles{} : files_of_model(imported_from);
  for (const SmallFile& file :
       model_folder_files(make_checkpoint_layout(layout, types), layout, model, imported)) {
    CHECK(last < file.path);
    last = file.path;
    files[file.path] = file.contents;
  }
  return files;
}

constexpr const char* kImported = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "vocab_size": 61, "hidden_size": 20, "intermediate_size": 27, "num_hidden_layers": 3,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 16,
  "initializer_range": 0.2, "rms_norm_eps": 1e-5, "torch_dtype": "float32", "eos_token_id": 2})";

}  // namespace

TEST_CASE("model/ of a checkpoint is a folder that strata imports") {
  for (const bool tied : {false, true}) {
    LlamaConfig model = test::tiny_model();
    model.tie_word_embeddings = tied;
    for (const DType weight : {DType::kBF16, DType::kF32, DType::kF64}) {
      const CheckpointTypes types{weight, DType::kF32};
      const ScratchFolder folder;
      for (const auto& [path, contents] : files_of(model, types, ""))
        write(folder.path() / path, contents);
      const ModelLayout layout = make_layout(spec_of(model));
      for (const BlockFiles& block : make_checkpoint_layout(layout, types).blocks) {
        std::string content = block.model.header;
        content.resize(block.model.bytes, '\0');
        write(folder.path() / block.model.path, content);
      }
      const LlamaConfig read = load_llama_config(folder.path() / "model/config.json");
      CHECK(read == model);
      const SafetensorsDirectory weights(folder.path() / "model");
      CHECK(check_weights(weights, make_layout(spec_of(read))).empty());
      CHECK(weights.contains("lm_head.weight") != tied);
    }
  }
}

TEST_CASE("the index tells the bytes and the file of every tensor") {
  const LlamaConfig model = test::tiny_model();
  const auto files = files_of(model, {}, "");
  CHECK(files.size() == 2);
  const auto index = parse_json<nlohmann::json>(files.at("model/model.safetensors.index.json"));
  CHECK(index["metadata"]["total_size"] == 2 * model.parameter_count());
  CHECK(index["weight_map"]["model.norm.weight"] == "model-00005-of-00005.safetensors");
  CHECK(index["weight_map"]["model.layers.1.mlp.up_proj.weight"] ==
        "model-00003-of-00005.safetensors");
}

TEST_CASE("an imported model keeps its config and its tokenizer, and no other file") {
  const ScratchFolder from;
  write(from.path() / "config.json", kImported);
  write(from.path() / "tokenizer.model", std::string("\0\xff\n", 3));
  write(from.path() / "tokenizer_config.json", "{}");
  write(from.path() / "tekken.json", "[]");
  write(from.path() / "qwen.tiktoken", "IQ== 0\n");
  write(from.path() / "chat_template.jinja", "");
  write(from.path() / "additional_chat_templates/tool_use.jinja", "tools");
  write(from.path() / "additional_chat_templates/notes.txt", "own");
  write(from.path() / "model.safetensors", "weights");
  write(from.path() / "training_args.bin", "pickled");
  fs::create_symlink(from.path() / "tokenizer_config.json", from.path() / "tokenizer.json");
  const auto files = files_of(test::tiny_model(), {}, from.path());
  CHECK(files.size() == 9);
  CHECK(files.at("model/additional_chat_templates/tool_use.jinja") == "tools");
  CHECK(files.at("model/tekken.json") == "[]");
  CHECK(files.at("model/qwen.tiktoken") == "IQ== 0\n");
  CHECK(files.at("model/tokenizer.model") == std::string("\0\xff\n", 3));
  CHECK(files.at("model/tokenizer.json") == "{}");
  CHECK(files.at("model/chat_template.jinja").empty());
  auto expected = parse_json<nlohmann::json>(kImported);
  expected["torch_dtype"] = "bfloat16";
  CHECK(parse_json<nlohmann::json>(files.at("model/config.json")) == expected);
}

TEST_CASE("a model's folder gives nothing that lies outside of it") {
  const ScratchFolder scratch;
  write(scratch.path() / "secret", "secret");
  const fs::path from = scratch.path() / "model";
  write(from / "config.json", kImported);
  for (const char* name : {"x.tiktoken", "added_tokens.json", "tokenizer.json", "config.json"}) {
    const fs::path kept = scratch.path() / "kept";
    if (fs::exists(from / name)) fs::rename(from / name, kept);
    fs::create_symlink("../secret", from / name);
    CHECK_THROWS_WITH(files_of(test::tiny_model(), {}, from),
                      ContainsSubstring((from / name).string() + ": is a link to ") &&
                          ContainsSubstring("cp -rL"));
    fs::remove(from / name);
    if (fs::exists(kept)) fs::rename(kept, from / name);
  }
}

TEST_CASE("of a checkpoint's model what its manifest lists is copied, and nothing else") {
  const ScratchFolder scratch;
  const std::unique_ptr<Files> files = make_system_files();
  write(scratch.path() / "secret", "secret");
  const fs::path model = scratch.path() / "step/model";
  write(model / "config.json", kImported);
  write(model / "tokenizer.json", "{}");
  write(model / "vocab.json", "of nobody");
  fs::create_symlink("../../secret", model / "x.tiktoken");
  FoundCheckpoint checkpoint{.folder = scratch.path() / "step", .manifest = {}};
  checkpoint.manifest.files = {{.path = "model/config.json", .bytes = 1, .slices = {}},
                               {.path = "model/tokenizer.json", .bytes = 2, .slices = {}}};
  const ModelLayout layout = make_layout(spec_of(test::tiny_model()));
  const auto made = [&] {
    std::vector<std::string> paths;
    for (const SmallFile& file :
         model_folder_files(make_checkpoint_layout(layout, {}), layout, test::tiny_model(),
                            files_of_checkpoint(*files, checkpoint))) {
      paths.push_back(file.path);
    }
    return paths;
  };
  CHECK(made() == std::vector<std::string>{"model/config.json",
                                           "model/model.safetensors.index.json",
                                           "model/tokenizer.json"});
  checkpoint.manifest.files.push_back({.path = "model/x.tiktoken", .bytes = 6, .slices = {}});
  CHECK_THROWS_WITH(made(), ContainsSubstring("x.tiktoken: open: "));
}

TEST_CASE("what is wrong in an imported folder is refused by name") {
  const ScratchFolder from;
  const auto complaint = [&] {
    try {
      (void)files_of(test::tiny_model(), {}, from.path());
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  CHECK_THAT(complaint(), ContainsSubstring("config.json"));
  write(from.path() / "config.json", "");
  CHECK_THAT(complaint(), ContainsSubstring("config.json: not valid JSON"));
  write(from.path() / "config.json", kImported);
  CHECK(complaint() == "no error");
  fs::create_symlink(from.path() / "nothing", from.path() / "tokenizer.json");
  CHECK_THAT(complaint(), ContainsSubstring("tokenizer.json"));
  fs::remove(from.path() / "tokenizer.json");
  fs::create_directory(from.path() / "vocab.json");
  CHECK_THAT(complaint(), ContainsSubstring("vocab.json"));
}

}  // namespace strata
