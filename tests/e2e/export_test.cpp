// Tests the models that `export` makes of checkpoints, by their bytes, by values that are computed
// here from the checkpoint's files, and by what training makes of them.

#include <bit>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "e2e/model_files.h"
#include "e2e/program.h"
#include "support/catch.h"
#include "support/json.h"

namespace strata::test {

namespace {

/// Trains four steps and validates after the last one; returns the checkpoint's folder.
std::string train_checkpoint(const Folder& folder, const std::string& dtype,
                             const std::string& more = "") {
  const Outcome done = strata(
      folder, train_wide(folder, "run",
                         "--set checkpoint.at_end=true --set run.dtype=" + dtype + " " + more));
  INFO(done.text);
  REQUIRE(done.code == 0);
  return folder / "run/checkpoints/step-00000004";
}

std::string export_model(const Folder& folder, const std::string& from, const std::string& more) {
  const Outcome done = strata(folder, "export " + from + " " + (folder / "model") + " " + more);
  INFO(done.text);
  REQUIRE(done.code == 0);
  CHECK(done.text.find("export ") == std::string::npos);  // no progress where no terminal is
  return folder / "model";
}

/// Where the tensors of the tiny model lie in its blocks: those of a block follow each other, and
/// each of these sizes is a multiple of what blocks are aligned to.
const std::map<std::string, std::vector<std::string>>& tensors_of_blocks() {
  static const std::map<std::string, std::vector<std::string>> blocks = [] {
    std::map<std::string, std::vector<std::string>> all{
        {"embedding", {"model.embed_tokens.weight"}},
        {"head", {"model.norm.weight", "lm_head.weight"}}};
    for (const std::string layer : {"0", "1", "2", "3"}) {
      for (const char* name : {"input_layernorm", "self_attn.q_proj", "self_attn.k_proj",
                               "self_attn.v_proj", "self_attn.o_proj", "post_attention_layernorm",
                               "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
        all["layers." + layer].push_back("model.layers." + layer + "." + name + ".weight");
      }
    }
    return all;
  }();
  return blocks;
}

/// The masters of a bf16 checkpoint by tensor: the high half and the signed low half of each.
std::map<std::string, std::vector<float>> masters_of(const std::string& checkpoint) {
  const std::map<std::string, Tensor> high = model_tensors(checkpoint + "/model");
  std::map<std::string, std::vector<float>> masters;
  for (const auto& [block, names] : tensors_of_blocks()) {
    const auto state = tensors_of(checkpoint + "/state/" + block + ".safetensors");
    const auto low = values_of<std::int16_t>(state.at("low").data);
    std::size_t next = 0;
    for (const std::string& name : names) {
      for (const std::uint16_t bits : values_of<std::uint16_t>(high.at(name).data)) {
        const auto sum =
            static_cast<std::uint32_t>((static_cast<std::int64_t>(bits) << 16) + low.at(next++));
        masters[name].push_back(std::bit_cast<float>(sum));
      }
    }
  }
  return masters;
}

/// Trains a step from a model without changing it by more than masters can tell.
Outcome train_barely(const Folder& folder, const std::string& model, const std::string& more) {
  fs::remove_all(folder / "second");
  return strata(
      folder,
      train_wide(
          folder, "second",
          "--overwrite --set checkpoint.at_end=true --set run.steps=1 --set run.dtype=bf16 --set "
          "optimizer.lr=1e-30 --set optimizer.warmup_steps=0 --set "
          "model.path=" +
              model + " " + more));
}

double validation_of(const std::string& run) {
  for (const nlohmann::json& line : metrics(run)) {
    if (line["event"] == "eval") return line["val_loss"];
  }
  return 0;
}

}  // namespace

TEST_CASE("export in bf16 copies the model of a bf16 checkpoint, byte for byte") {
  const Folder folder;
  const std::string checkpoint = train_checkpoint(folder, "bf16");
  const std::string model = export_model(folder, checkpoint, "");
  CHECK(contents_of(model) == contents_of(checkpoint + "/model"));
  CHECK(parse_json<nlohmann::json>(read_file(model + "/config.json"))["torch_dtype"] == "bfloat16");
}

TEST_CASE("export in f32 joins the masters of a bf16 checkpoint, and training begins with them") {
  const Folder folder;
  const std::string checkpoint = train_checkpoint(folder, "bf16");
  const std::string model = export_model(folder, folder / "run", "--dtype f32");
  const auto masters = masters_of(checkpoint);
  const auto tensors = model_tensors(model);
  REQUIRE(tensors.size() == masters.size());
  const auto before = model_tensors(checkpoint + "/model");
  std::size_t not_bf16 = 0;
  for (const auto& [name, tensor] : tensors) {
    CAPTURE(name);
    CHECK(tensor.dtype == "F32");
    CHECK(tensor.shape == before.at(name).shape);
    const auto bits = values_of<std::uint32_t>(tensor.data);
    REQUIRE(bits.size() == masters.at(name).size());
    std::size_t different = 0;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      different += bits[i] == std::bit_cast<std::uint32_t>(masters.at(name)[i]) ? 0 : 1;
      not_bf16 += (bits[i] & 0xffff) != 0 ? 1 : 0;
    }
    CHECK(different == 0);
  }
  CHECK(not_bf16 > 100000);
  CHECK(parse_json<nlohmann::json>(read_file(model + "/config.json"))["torch_dtype"] == "float32");
  const auto index = parse_json<nlohmann::json>(read_file(model + "/model.safetensors.index.json"));
  CHECK(index["metadata"]["total_size"] == 4 * 217792);
  const Outcome trained = train_barely(folder, model, "");
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  CHECK(masters_of(folder / "second/checkpoints/step-00000001") == masters);
}

TEST_CASE("a model that was exported has the loss that its run had") {
  const Folder folder;
  const std::string data = tokenize_text(folder) + " --set run.eval_every=";
  train_checkpoint(folder, "bf16", data + "4");
  for (const std::string dtype : {"bf16", "f32"}) {
    const std::string model = export_model(folder, folder / "run", "--overwrite --dtype " + dtype);
    const Outcome trained = train_barely(folder, model, data + "1");
    INFO(trained.text);
    REQUIRE(trained.code == 0);
    CHECK(validation_of(folder / "second") == validation_of(folder / "run"));
  }
}

TEST_CASE("export rounds f32 weights to bf16, to nearest, and copies them as f32") {
  const Folder folder;
  const std::string checkpoint = train_checkpoint(folder, "f32");
  const Outcome done = strata(folder, "export " + checkpoint + " " + (folder / "half"));
  CHECK(done.code == 0);
  CHECK_THAT(done.text, ContainsSubstring("after step 4, weights in bf16, rounded from f32"));
  const auto from = model_tensors(checkpoint + "/model");
  for (const auto& [name, tensor] : model_tensors(folder / "half")) {
    CAPTURE(name);
    CHECK(tensor.dtype == "BF16");
    const auto rounded = values_of<std::uint16_t>(tensor.data);
    const auto exact = values_of<float>(from.at(name).data);
    REQUIRE(rounded.size() == exact.size());
    std::size_t far = 0;  // from the value by more than a neighbour is
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const auto value = [&](int steps) {
        const auto bits = static_cast<std::uint32_t>(rounded[i] + steps) << 16;
        return static_cast<double>(std::bit_cast<float>(bits));
      };
      const double error = std::abs(value(0) - exact[i]);
      const bool nearest =
          error <= std::abs(value(1) - exact[i]) && error <= std::abs(value(-1) - exact[i]);
      far += nearest ? 0 : 1;
    }
    CHECK(far == 0);
  }
  CHECK(contents_of(export_model(folder, checkpoint, "--dtype f32")) ==
        contents_of(checkpoint + "/model"));
}

TEST_CASE("export replaces nothing, but a model with --overwrite") {
  const Folder folder;
  const std::string checkpoint = train_checkpoint(folder, "f32");
  const std::string model = export_model(folder, checkpoint, "");
  const auto before = contents_of(model);
  const std::string arguments = "export " + checkpoint + " --dtype f32 ";
  const Outcome refused = strata(folder, arguments + model);
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text,
             ContainsSubstring("is there already") && ContainsSubstring("--overwrite"));
  CHECK(contents_of(model) == before);
  std::ofstream(folder / "model/notes.txt") << "mine";
  const Outcome other = strata(folder, arguments + model + " --overwrite");
  CHECK(other.code == 2);
  CHECK_THAT(other.text, ContainsSubstring("notes.txt, which is no file of a model"));
  fs::remove(folder / "model/notes.txt");
  CHECK(strata(folder, arguments + model + "/ --overwrite").code == 0);
  CHECK(contents_of(model) == contents_of(checkpoint + "/model"));
  const Outcome own = strata(folder, arguments + checkpoint + "/model --overwrite");
  CHECK(own.code == 2);
  CHECK_THAT(own.text, ContainsSubstring("is part of a checkpoint"));
  std::size_t entries = 0;  // output.txt, run and model: no temporary folder is left
  for (const auto& entry : fs::directory_iterator(folder / "")) entries += entry.exists() ? 1 : 0;
  CHECK(entries == 3);
}

TEST_CASE("a model's templates for tools go along into checkpoints and exports") {
  const Folder folder;
  const std::string model = export_model(folder, train_checkpoint(folder, "bf16"), "");
  const std::string templates = "/additional_chat_templates";
  fs::create_directory(model + templates);
  std::ofstream(model + "/chat_template.jinja") << "plain";
  std::ofstream(model + templates + "/tool_use.jinja") << "tools";
  REQUIRE(train_barely(folder, model, "").code == 0);
  const std::string checkpoint = folder / "second/checkpoints/step-00000001";
  CHECK(read_file(checkpoint + "/model" + templates + "/tool_use.jinja") == "tools");
  for (const char* dtype : {"bf16", "f32"}) {  // copied, converted
    const std::string arguments = "export " + checkpoint + " " + model + " --overwrite --dtype ";
    const Outcome done = strata(folder, arguments + dtype);
    INFO(done.text);
    REQUIRE(done.code == 0);
    CHECK(read_file(model + templates + "/tool_use.jinja") == "tools");
    CHECK(read_file(model + "/chat_template.jinja") == "plain");
  }
  std::ofstream(model + templates + "/notes.txt") << "mine";
  const Outcome other = strata(folder, "export " + checkpoint + " " + model + " --overwrite");
  CHECK(other.code == 2);
  CHECK_THAT(other.text, ContainsSubstring("holds additional_chat_templates"));
}

TEST_CASE("export of a damaged checkpoint names the file and leaves nothing") {
  const Folder folder;
  const std::string checkpoint = train_checkpoint(folder, "bf16");
  const std::string damaged = checkpoint + "/state/layers.2.safetensors";
  std::string text = read_file(damaged);
  text[6000] = static_cast<char>(text[6000] ^ 4);
  std::ofstream(damaged, std::ios::binary) << text;
  const Outcome refused =
      strata(folder, "export " + checkpoint + " " + (folder / "model") + " --dtype f32");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("state/layers.2.safetensors: bytes "));
  for (const auto& entry : fs::directory_iterator(folder / "")) {
    CHECK_THAT(entry.path().filename(), !ContainsSubstring("model"));
  }
  export_model(folder, checkpoint, "");  // which needs model/ alone
}

TEST_CASE("export refuses arguments that name no checkpoint, or another dtype") {
  const Folder folder;
  const Outcome missing = strata(folder, "export " + (folder / "none") + " " + (folder / "model"));
  CHECK(missing.code == 2);
  CHECK_THAT(missing.text, ContainsSubstring("there is nothing of this name"));
  CHECK(!fs::exists(folder / "model"));
  const std::string checkpoint = train_checkpoint(folder, "f32");
  const std::string arguments = "export " + checkpoint + " " + (folder / "model");
  const Outcome dtype = strata(folder, arguments + " --dtype f16");
  CHECK(dtype.code == 2);
  CHECK_THAT(dtype.text, ContainsSubstring("--dtype"));
  const Outcome model = strata(folder, "export " + checkpoint + "/model " + (folder / "model"));
  CHECK(model.code == 2);
  CHECK_THAT(model.text, ContainsSubstring("is a model already"));
  CHECK(strata(folder, "export " + checkpoint).code == 2);
  CHECK(!fs::exists(folder / "model"));
  std::ofstream(folder / "model") << "a file";
  CHECK(strata(folder, arguments + "/deeper").code == 2);
}

}  // namespace strata::test
