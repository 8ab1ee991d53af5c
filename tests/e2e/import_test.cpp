// Tests the models that `import` makes of folders that are written here: by their bits, which are
// made here, by what becomes of them on the way through a run, and by what is refused.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "e2e/model_files.h"
#include "e2e/program.h"
#include "support/catch.h"
#include "support/json.h"

namespace strata::test {

namespace {

using Tensors = std::map<std::string, Tensor>;
using nlohmann::json;

/// The config.json of a model with the sizes of tiny-cpu.json, and keys that strata does not know.
json config_of(bool tied) {
  json config{{"architectures", {"LlamaForCausalLM"}},
              {"model_type", "llama"},
              {"hidden_act", "silu"},
              {"vocab_size", 257},
              {"hidden_size", 64},
              {"intermediate_size", 176},
              {"num_hidden_layers", 4},
              {"num_attention_heads", 4},
              {"num_key_value_heads", 2},
              {"max_position_embeddings", 128},
              {"rms_norm_eps", 1e-6},
              {"tie_word_embeddings", tied},
              {"torch_dtype", "float16"},
              {"bos_token_id", 7},
              {"of_another_program", {{"kept", true}}}};
  if (tied) {
    config["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", 4.0},
                              {"low_freq_factor", 1.0},
                              {"high_freq_factor", 4.0},
                              {"original_max_position_embeddings", 64}};
  }
  return config;
}

/// Returns a tensor of random numbers below 1/8.
Tensor random_tensor(const std::string& dtype, const std::vector<std::int64_t>& shape) {
  static std::mt19937 random(7);
  Tensor tensor{dtype, shape, {}};
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(random()) * 0x1p-34F - 0.125F;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto half = static_cast<std::uint32_t>((random() & 0x83ff) | (random() % 12) << 10);
    const std::uint32_t stored = dtype == "F32" ? bits : dtype == "F16" ? half : bits >> 16;
    tensor.data.append(reinterpret_cast<const char*>(&stored), dtype == "F32" ? 4 : 2);
  }
  return tensor;
}

Tensors random_model(const std::string& dtype, bool tied) {
  Tensors model;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    model[name + ".weight"] = random_tensor(dtype, shape);
  };
  add("model.embed_tokens", {257, 64});
  add("model.norm", {64});
  if (!tied) add("lm_head", {257, 64});
  for (const std::string layer : {"0", "1", "2", "3"}) {
    const std::string prefix = "model.layers." + layer + ".";
    add(prefix + "input_layernorm", {64});
    add(prefix + "post_attention_layernorm", {64});
    add(prefix + "self_attn.q_proj", {64, 64});
    add(prefix + "self_attn.k_proj", {32, 64});
    add(prefix + "self_attn.v_proj", {32, 64});
    add(prefix + "self_attn.o_proj", {64, 64});
    add(prefix + "mlp.gate_proj", {176, 64});
    add(prefix + "mlp.up_proj", {176, 64});
    add(prefix + "mlp.down_proj", {64, 176});
  }
  return model;
}

void write_safetensors(const std::string& file,
                       const std::vector<std::pair<std::string, Tensor>>& tensors) {
  json header = json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
    data += tensor.data;
  }
  const std::string text = json_text(header);
  const std::uint64_t length = text.size();
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&length), sizeof(length));
  out << text << data;
}

/// Writes a model in shards that begin in the midst of layers, its last tensor first.
void write_model(const std::string& folder, const json& config, const Tensors& model,
                 std::size_t shards) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream(folder + "/config.json") << json_text(config);
  std::ofstream(folder + "/tokenizer.json") << R"({"own": "tokenizer"})";
  std::vector<std::pair<std::string, Tensor>> tensors(model.rbegin(), model.rend());
  if (shards == 1) return write_safetensors(folder + "/model.safetensors", tensors);
  json map = json::object();
  for (std::size_t i = 0; i < shards; ++i) {
    const auto at = [&](std::size_t shard) {
      return tensors.begin() + static_cast<std::ptrdiff_t>(shard * tensors.size() / shards);
    };
    const std::string name = "part-" + std::to_string(i) + ".safetensors";
    write_safetensors(folder + "/" + name, {at(i), at(i + 1)});
    std::for_each(at(i), at(i + 1), [&](const auto& tensor) { map[tensor.first] = name; });
  }
  std::ofstream(folder + "/model.safetensors.index.json") << json_text(json{{"weight_map", map}});
}

std::string import_model(const Folder& folder, const std::string& from, const std::string& to,
                         const std::string& more = "") {
  const Outcome done =
      strata(folder, "import " + (folder / from) + " " + (folder / to) + " " + more);
  INFO(done.text);
  REQUIRE(done.code == 0);
  return done.text;
}

/// Trains a step that changes nothing, and exports what came of it.
void train_and_export(const Folder& folder, const std::string& from, const std::string& to,
                      const std::string& dtype) {
  const Outcome trained =
      strata(folder, train_wide(folder, "run",
                                "--set checkpoint.at_end=true --set run.steps=1 --set "
                                "data.sequence_length=16 --set optimizer.lr=1e-30 --set "
                                "optimizer.warmup_steps=0 --set run.dtype=bf16 --set model.path=" +
                                    (folder / from)));
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  const Outcome exported =
      strata(folder, "export " + (folder / "run") + " " + (folder / to) + " --dtype " + dtype);
  INFO(exported.text);
  REQUIRE(exported.code == 0);
}

/// Checks which files of the imported model hold what, by the index.
void check_index(const std::string& folder) {
  const json index = parse_json<json>(read_file(folder + "/model.safetensors.index.json"));
  for (const auto& [name, file] : index["weight_map"].items()) {
    CHECK(tensors_of(folder + "/" + file.get<std::string>()).contains(name));
  }
}

/// Checks that a source is refused with this text, and that nothing is left of the attempt.
void check_import_refused(const Folder& folder, const std::string& text,
                          const std::string& more = "") {
  const Outcome refused =
      strata(folder, "import " + (folder / "source") + " " + (folder / "model") + " " + more);
  CAPTURE(text);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring(text));
  std::size_t entries = 0;
  for (const auto& entry : fs::directory_iterator(folder / "")) entries += entry.exists() ? 1 : 0;
  CHECK(entries == 2);  // output.txt and the source
}

}  // namespace

TEST_CASE("import keeps every bit, and so do a run from it, its export and another import") {
  struct Case {
    std::string stored, dtype;
    bool tied;
    std::size_t shards;
  };
  for (const Case& c : {Case{"BF16", "bf16", true, 3}, Case{"F32", "f32", false, 5}}) {
    CAPTURE(c.dtype);
    const Folder folder;
    const json config = config_of(c.tied);
    const Tensors model = random_model(c.stored, c.tied);
    write_model(folder / "source", config, model, c.shards);
    CHECK_THAT(import_model(folder, "source", "first"),
               ContainsSubstring("weights in " + c.dtype + ", as the source holds them"));
    CHECK(model_tensors(folder / "first") == model);
    check_index(folder / "first");
    CHECK(read_file(folder / "first/tokenizer.json") == R"({"own": "tokenizer"})");
    json kept = parse_json<json>(read_file(folder / "first/config.json"));
    CHECK(kept["torch_dtype"] == (c.dtype == "f32" ? "float32" : "bfloat16"));
    kept["torch_dtype"] = config["torch_dtype"];
    CHECK(kept == config);
    CHECK(strata(folder, "inspect " + (folder / "first")).code == 0);

    train_and_export(folder, "first", "exported", c.dtype);
    CHECK(contents_of(folder / "exported") == contents_of(folder / "first"));
    import_model(folder, "exported", "second");
    CHECK(contents_of(folder / "second") == contents_of(folder / "first"));
  }
}

TEST_CASE("import widens f16 exactly, and rounds to bf16 where it is told to") {
  const Folder folder;
  const Tensors model = random_model("F16", false);
  write_model(folder / "source", config_of(false), model, 1);
  CHECK_THAT(import_model(folder, "source", "f32"),
             ContainsSubstring("weights in f32, exact from F16"));
  CHECK_THAT(import_model(folder, "source", "bf16", "--dtype bf16"),
             ContainsSubstring("weights in bf16, rounded from F16"));
  const Tensors exact = model_tensors(folder / "f32");
  const Tensors rounded = model_tensors(folder / "bf16");
  REQUIRE(exact.size() == model.size());
  REQUIRE(rounded.size() == model.size());
  for (const auto& [name, tensor] : model) {
    const auto halves = values_of<std::uint16_t>(tensor.data);
    const auto floats = values_of<float>(exact.at(name).data);
    const auto shorts = values_of<std::uint16_t>(rounded.at(name).data);
    REQUIRE(floats.size() == halves.size());
    REQUIRE(shorts.size() == halves.size());
    std::size_t different = 0;
    for (std::size_t i = 0; i < halves.size(); ++i) {
      const int exponent = (halves[i] >> 10) & 31;
      const int digits = (halves[i] & 1023) + (exponent > 0 ? 1024 : 0);
      const float size = std::ldexp(static_cast<float>(digits), std::max(exponent, 1) - 25);
      const float value = (halves[i] & 0x8000) != 0 ? -size : size;
      const auto bits = std::bit_cast<std::uint32_t>(value);
      const std::uint32_t rest = bits & 0xffff;
      const std::uint32_t up = rest > 0x8000 || (rest == 0x8000 && (bits >> 16) % 2 == 1) ? 1 : 0;
      different += std::bit_cast<std::uint32_t>(floats[i]) == bits ? 0 : 1;
      different += shorts[i] == (bits >> 16) + up ? 0 : 1;
    }
    CAPTURE(name);
    CHECK(different == 0);
  }
}

TEST_CASE("import leaves out what nothing uses, and says so") {
  const Folder folder;
  Tensors model = random_model("BF16", false);
  const Tensors used = model;
  model["value_head.weight"] = random_tensor("F32", {3});
  write_model(folder / "source", config_of(false), model, 1);
  const std::string text = import_model(folder, "source", "model");
  CHECK_THAT(text, ContainsSubstring("value_head.weight") && ContainsSubstring("left out") &&
                       ContainsSubstring("weights in bf16"));
  CHECK(model_tensors(folder / "model") == used);
}

TEST_CASE("import refuses sources by name, and leaves nothing") {
  const Folder folder;
  const json config = config_of(false);
  const Tensors model = random_model("BF16", false);
  const std::string name = "model.layers.2.mlp.up_proj.weight";
  const auto write = [&](const Tensor* other) {
    Tensors changed = model;
    changed.erase(name);
    if (other != nullptr) changed[name] = *other;
    write_model(folder / "source", config, changed, 1);
  };
  write(nullptr);
  check_import_refused(folder, name);
  const Tensor narrow = random_tensor("BF16", {176, 32});
  write(&narrow);
  check_import_refused(folder, name + " has shape [176, 32], config.json asks for [176, 64]");
  const Tensor bytes{"F8_E4M3", {176, 64}, std::string(176 * 64, '\0')};
  write(&bytes);
  check_import_refused(folder, "dtype F8_E4M3 is not supported");
  const Tensor integers{"I16", {176, 64}, std::string(2 * 176 * 64, '\0')};
  write(&integers);
  check_import_refused(folder, name);

  Tensors biased = model;
  biased["model.layers.0.self_attn.q_proj.bias"] = random_tensor("BF16", {64});
  write_model(folder / "source", config, biased, 1);
  check_import_refused(folder, "model.layers.0.self_attn.q_proj.bias has no place in a LLaMA");
  json other = config;
  other["model_type"] = "gpt2";
  write_model(folder / "source", other, model, 1);
  check_import_refused(folder, "gpt2");
  other = config;
  other["num_hidden_layers"] = 1000000;
  write_model(folder / "source", other, model, 1);
  check_import_refused(folder, "num_hidden_layers");
  write_model(folder / "source", config, model, 3);
  fs::resize_file(folder / "source/part-1.safetensors", 100000);
  check_import_refused(folder, "part-1.safetensors");
}

TEST_CASE("import and export make the folders above the one that they are told to make") {
  const Folder folder;
  write_model(folder / "source", config_of(false), random_model("BF16", false), 1);
  import_model(folder, "source", "models/small/first");
  CHECK(fs::exists(folder / "models/small/first/config.json"));
  train_and_export(folder, "models/small/first", "out/of/run", "bf16");
  CHECK(contents_of(folder / "out/of/run") == contents_of(folder / "models/small/first"));
}

TEST_CASE("weights in pickles are answered with the way to safetensors, whoever meets them") {
  const Folder folder;
  write_model(folder / "source", config_of(false), {}, 1);
  fs::remove(folder / "source/model.safetensors");
  std::ofstream(folder / "source/pytorch_model-00001-of-00002.bin") << "pickle";
  const std::string source = folder / "source";
  for (const std::string& command : {"import " + source + " " + (folder / "model"),
                                     train_wide(folder, "run", "--set model.path=" + source)}) {
    const Outcome refused = strata(folder, command);
    INFO(refused.text);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.text, ContainsSubstring("has pytorch_model-00001-of-00002.bin") &&
                                 ContainsSubstring("save_pretrained(b)") &&
                                 ContainsSubstring(" " + source + " " + source + "-safetensors"));
  }
}

TEST_CASE("a weight that is no number is refused by its name and place") {
  for (const auto& [dtype, bits, said] :
       std::vector<std::tuple<std::string, std::uint32_t, std::string>>{
           {"BF16", 0x7fc0, "is NaN"}, {"F32", 0x7f800000, "is infinite"}}) {
    const Folder folder;
    Tensors model = random_model(dtype, false);
    const std::size_t width = dtype == "F32" ? 4 : 2;
    std::string& data = model["model.layers.2.mlp.up_proj.weight"].data;
    data.replace(700 * width, width, reinterpret_cast<const char*>(&bits), width);
    write_model(folder / "source", config_of(false), model, 3);
    const std::string expected =
        "tensor model.layers.2.mlp.up_proj.weight " + said + " at element 700";
    check_import_refused(folder, expected);
    const Outcome trained =
        strata(folder, train_wide(folder, "run", "--set model.path=" + (folder / "source")));
    CHECK(trained.code == 2);
    CHECK_THAT(trained.text, ContainsSubstring(expected));
  }
}

TEST_CASE("an index of other files than the single one that is read is warned of") {
  const Folder folder;
  write_model(folder / "source", config_of(false), random_model("BF16", false), 3);
  const std::string index = read_file(folder / "source/model.safetensors.index.json");
  write_model(folder / "source", config_of(false), random_model("BF16", false), 1);
  CHECK(import_model(folder, "source", "quiet").find("names other files") == std::string::npos);
  std::ofstream(folder / "source/model.safetensors.index.json") << index;
  CHECK_THAT(import_model(folder, "source", "model"),
             ContainsSubstring("model.safetensors.index.json names other files than the "
                               "model.safetensors beside it (part-"));
  CHECK(model_tensors(folder / "model") == model_tensors(folder / "quiet"));
}

TEST_CASE("a snapshot of a hub's cache is a model, and its folder names it") {
  const Folder folder;
  write_model(folder / "source", config_of(true), random_model("BF16", true), 2);
  // As huggingface_hub lays it out: contents in blobs, and links to them in snapshots/REVISION.
  const fs::path model = folder / "hub/models--some--model";
  const fs::path snapshot = model / "snapshots/0123abcd";
  fs::create_directories(snapshot);
  fs::create_directories(model / "blobs");
  int blob = 0;
  for (const auto& [file, content] : contents_of(folder / "source")) {
    const std::string name = "blob" + std::to_string(blob++);
    std::ofstream(model / "blobs" / name, std::ios::binary) << content;
    fs::create_symlink("../../blobs/" + name, snapshot / file);
  }
  CHECK(blob > 3);
  const Outcome trained =
      strata(folder, train_wide(folder, "run", "--set model.path=" + snapshot.string()));
  INFO(trained.text);
  CHECK(trained.code == 0);
  const Outcome refused =
      strata(folder, train_wide(folder, "other", "--set model.path=" + model.string()));
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("name its snapshot, " + snapshot.string()));
}

TEST_CASE("import replaces nothing but a model with --overwrite, and never its source") {
  const Folder folder;
  const Tensors model = random_model("BF16", true);
  write_model(folder / "source", config_of(true), model, 1);
  const auto before = contents_of(folder / "source");
  for (const char* const more : {"", " --overwrite"}) {
    const Outcome own =
        strata(folder, "import " + (folder / "source") + " " + (folder / "source/") + more);
    CHECK(own.code == 2);
    CHECK_THAT(own.text, ContainsSubstring("is the folder that is imported"));
  }
  CHECK(contents_of(folder / "source") == before);
  check_import_refused(folder, "--dtype", "--dtype f16");
  import_model(folder, "source", "model", "--dtype f32");
  const Outcome refused =
      strata(folder, "import " + (folder / "source") + " " + (folder / "model"));
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("is there already"));
  import_model(folder, "source", "model", "--overwrite");
  CHECK(model_tensors(folder / "model") == model);
}

}  // namespace strata::test
