// Tests what becomes of trained adapters: exports as PEFT and merged, generation and evaluation.
// Sums are computed here from the files of model and checkpoint.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "e2e/lines.h"
#include "e2e/model_files.h"

namespace strata::test {
namespace {

constexpr int kRank = 3;
constexpr double kScale = 2;  // alpha 6 over the rank

/// Trains a model of bytes in a folder "base", and adapters over it in "lora", in some dtype.
void train_adapters(const Folder& folder, const std::string& dtype, const std::string& more = "") {
  const std::string data =
      tokenize_text(folder) + " --set checkpoint.at_end=true --set run.dtype=" + dtype + " ";
  ended_well(folder, train_tiny(folder, "first", data));
  ended_well(folder, "export " + (folder / "first") + " " + (folder / "base") +
                         (dtype == "bf16" ? "" : " --dtype f32"));
  ended_well(folder, train_tiny(folder, "lora",
                                data + "--set model.path=" + (folder / "base") +
                                    " --set adapter.rank=3 --set adapter.alpha=6" +
                                    " --set optimizer.lr=0.02 " + more));
}

std::vector<double> numbers(const Tensor& tensor) {
  std::vector<double> values;
  if (tensor.dtype == "BF16") {
    for (const std::uint16_t bits : values_of<std::uint16_t>(tensor.data)) {
      const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
      values.push_back(static_cast<double>(value));
    }
    return values;
  }
  REQUIRE(tensor.dtype == "F32");
  for (const float value : values_of<float>(tensor.data)) {
    values.push_back(static_cast<double>(value));
  }
  return values;
}

std::string peft_name(const std::string& tensor, const std::string& matrix) {
  return "base_model.model." + tensor.substr(0, tensor.rfind(".weight")) + "." + matrix + ".weight";
}

/// W + scale * B A in f64, by the definition; W itself where the adapter has nothing for it.
std::vector<double> summed(const std::string& name, const Tensor& weight,
                           const std::map<std::string, Tensor>& adapter) {
  std::vector<double> w = numbers(weight);
  if (!adapter.contains(peft_name(name, "lora_A"))) return w;
  const std::vector<double> a = numbers(adapter.at(peft_name(name, "lora_A")));
  const std::vector<double> b = numbers(adapter.at(peft_name(name, "lora_B")));
  const auto rows = static_cast<std::size_t>(weight.shape[0]);
  const auto cols = static_cast<std::size_t>(weight.shape[1]);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) {
      for (std::size_t r = 0; r < kRank; ++r) {
        w[i * cols + j] += kScale * b[i * kRank + r] * a[r * cols + j];
      }
    }
  }
  return w;
}

/// Compares a model with the base and adapters that it was made of; `digits` is the distance of
/// 1 from the next number of its dtype.
void check_merged(const std::string& base, const std::map<std::string, Tensor>& adapter,
                  const std::string& model, double digits) {
  const std::map<std::string, Tensor> before = model_tensors(base);
  const std::map<std::string, Tensor> after = model_tensors(model);
  REQUIRE(before.size() == after.size());
  std::size_t changed = 0;
  std::size_t whole = 0;  // of modules that are trained whole
  for (const auto& [name, weight] : before) {
    INFO(name);
    if (const auto found = adapter.find("base_model.model." + name); found != adapter.end()) {
      ++whole;
      CHECK(after.at(name) == found->second);
      CHECK(after.at(name).data != weight.data);
      continue;
    }
    if (!adapter.contains(peft_name(name, "lora_A"))) {
      CHECK(after.at(name) == weight);
      continue;
    }
    changed += after.at(name).data != weight.data ? 1 : 0;
    const std::vector<double> expected = summed(name, weight, adapter);
    const std::vector<double> found = numbers(after.at(name));
    REQUIRE(found.size() == expected.size());
    double largest = 0;
    double error = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      error = std::max(error, std::abs(found[i] - expected[i]));
    }
    CHECK(error <= digits * largest);
  }
  CHECK(2 * changed + whole == adapter.size());
}

double loss_of(const Folder& folder, const std::string& model) {
  const std::string arguments = "evaluate " + model + " --input " + (folder / "val.bin");
  return parse_json<nlohmann::json>(printed(folder, arguments))["loss"];
}

}  // namespace

TEST_CASE("adapters are exported as PEFT has them, to the bit") {
  const Folder folder;
  train_adapters(folder, "f32",
                 "--set adapter.layers=[0,2] --set 'adapter.modules_to_save=[\"norm\"]'");
  const std::string command =
      "export --adapter-only --dtype f32 " + (folder / "lora") + " " + (folder / "peft");
  ended_well(folder, command);
  CHECK(names_in(folder / "peft") ==
        std::vector<std::string>{"adapter_config.json", "adapter_model.safetensors"});
  const std::map<std::string, Tensor> made = model_tensors(folder / "peft");
  CHECK(made == model_tensors(checkpoint(folder / "lora", 4) + "/adapter"));
  CHECK(made.size() == std::size_t{2} * 7 * 2 + 1);  // A and B of seven linears in two layers
  CHECK(made.contains("base_model.model.model.norm.weight"));
  const auto config = parse_json<nlohmann::json>(read_file(folder / "peft/adapter_config.json"));
  CHECK(config["peft_type"] == "LORA");
  CHECK(config["r"] == kRank);
  CHECK(config["lora_alpha"] == 6);
  CHECK(config["layers_to_transform"] == std::vector<int>{0, 2});
  CHECK(config["modules_to_save"] == std::vector<std::string>{"model.norm"});
  CHECK(config["base_model_name_or_path"] == folder / "base");
  CHECK(config["target_modules"].size() == 7);
  check_refused(folder, command, "is there already");
  ended_well(folder, command + " --overwrite");
  check_refused(folder, "export --adapter-only " + (folder / "first") + " " + (folder / "other"),
                "holds a whole model and no adapters");
  check_refused(folder, command + " --format gguf", "leave out --format gguf");
}

TEST_CASE("exported adapters in f32 are the masters of bf16 ones") {
  const Folder folder;
  train_adapters(folder, "bf16");
  for (const std::string dtype : {"bf16", "f32"}) {
    ended_well(folder, "export --adapter-only " + (folder / "lora") + " " + (folder / dtype) +
                           " --dtype " + dtype);
  }
  const std::map<std::string, Tensor> held =
      model_tensors(checkpoint(folder / "lora", 4) + "/adapter");
  CHECK(model_tensors(folder / "bf16") == held);
  std::size_t finer = 0;
  for (const auto& [name, tensor] : model_tensors(folder / "f32")) {
    INFO(name);
    const std::vector<double> exact = numbers(tensor);
    const std::vector<double> rounded = numbers(held.at(name));
    REQUIRE(exact.size() == rounded.size());
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (exact[i] != rounded[i]) ++finer;
      CHECK(std::abs(exact[i] - rounded[i]) <= std::abs(rounded[i]) / 256);
    }
  }
  CHECK(finer > 0);
}

TEST_CASE("a run with adapters is exported with them added to the weights") {
  for (const std::string dtype : {"f32", "bf16"}) {
    INFO(dtype);
    const Folder folder;
    train_adapters(folder, dtype,
                   "--set 'adapter.targets=[\"q_proj\",\"v_proj\",\"down_proj\"]' "
                   "--set 'adapter.modules_to_save=[\"lm_head\"]'");
    ended_well(folder,
               "export " + (folder / "lora") + " " + (folder / "merged") + " --dtype " + dtype);
    const std::map<std::string, Tensor> adapter =
        model_tensors(checkpoint(folder / "lora", 4) + "/adapter");
    check_merged(folder / "base", adapter, folder / "merged", dtype == "f32" ? 1e-6 : 1.0 / 256);
    ended_well(folder, "export --format gguf " + (folder / "merged") + " " + (folder / "a.gguf") +
                           " --dtype " + dtype);
    ended_well(folder, "export --format gguf " + (folder / "lora") + " " + (folder / "b.gguf") +
                           " --dtype " + dtype);
    const std::string one = read_file(folder / "a.gguf");
    const std::string other = read_file(folder / "b.gguf");
    REQUIRE(one.size() == other.size());
    // Their names differ.
    CHECK(one.substr(one.size() / 2) == other.substr(other.size() / 2));
  }
}

TEST_CASE("a run with adapters, its export and the model with --adapter are one model") {
  const Folder folder;
  train_adapters(folder, "f32", "--set 'adapter.modules_to_save=[\"embed_tokens\",\"norm\"]'");
  double validated = 0;
  for (const nlohmann::json& line : metrics(folder / "lora")) {
    if (line["event"] == "eval") validated = line["val_loss"];
  }
  const double found = loss_of(folder, folder / "lora");
  CHECK(found == Approx(validated).epsilon(1e-5));
  CHECK(std::abs(found - loss_of(folder, folder / "first")) > 1e-3);
  ended_well(folder, "export " + (folder / "lora") + " " + (folder / "merged") + " --dtype f32");
  ended_well(folder, "export --adapter-only " + (folder / "lora") + " " + (folder / "peft") +
                         " --dtype f32");
  const std::string context = " --context 33";
  const double merged = loss_of(folder, (folder / "merged") + context);
  CHECK(loss_of(folder, (folder / "lora") + context) == merged);
  for (const std::string adapter : {"lora", "peft"}) {
    INFO(adapter);
    CHECK(loss_of(folder, (folder / "base") + " --adapter " + (folder / adapter) + context) ==
          merged);
  }
  const std::string drawn = " --prompt line --max-tokens 20";
  CHECK(printed(folder, "generate " + (folder / "base") + " --adapter " + (folder / "peft") +
                            drawn) == printed(folder, "generate " + (folder / "merged") + drawn));
}

TEST_CASE(
    "training begins with the adapters of a folder, a run or a checkpoint, and goes on alone") {
  const Folder folder;
  train_adapters(folder, "f32", "--set 'adapter.modules_to_save=[\"lm_head\"]'");
  ended_well(folder,
             "export --adapter-only --dtype f32 " + (folder / "lora") + " " + (folder / "peft"));
  const std::string data = tokenize_text(folder) + " --set checkpoint.at_end=true" +
                           " --set run.dtype=f32 --set model.path=" + (folder / "base") + " ";
  const auto loss_of_first = [&](const std::string& name) {
    for (const nlohmann::json& line : metrics(folder / name)) {
      if (line["event"] == "step") return line["loss"].get<double>();
    }
    return 0.0;
  };
  const std::string named[] = {folder / "peft", folder / "lora", checkpoint(folder / "lora", 4)};
  std::vector<double> losses;
  for (const std::string& path : named) {
    const std::string name = "on-" + std::to_string(losses.size());
    ended_well(folder, train_tiny(folder, name, data + "--set adapter.path=" + path));
    losses.push_back(loss_of_first(name));
    CHECK(losses.back() == losses.front());
  }
  CHECK(losses.front() < loss_of_first("lora") - 1e-3);

  fs::remove_all(folder / "peft");
  ended_well(folder, train_tiny(folder, "on-0",
                                data + "--set adapter.path=" + named[0] +
                                    " --set run.steps=5 --resume auto --allow run.steps"));
  check_refused(folder, train_tiny(folder, "anew", data + "--set adapter.path=" + named[0]),
                "adapter.path: " + named[0] + ": there is nothing of this name");
}

TEST_CASE("adapters that training cannot begin with are refused by name") {
  const Folder folder;
  train_adapters(folder, "f32");
  const std::string peft = folder / "peft";
  ended_well(folder, "export --adapter-only " + (folder / "lora") + " " + peft);
  const std::string data = tokenize_text(folder) + " --set run.dtype=f32 ";
  const auto refused = [&](const std::string& model, const std::string& more,
                           const std::string& text) {
    check_refused(folder, train_tiny(folder, "on", data + "--set model.path=" + model + " " + more),
                  text);
  };
  const std::string base = folder / "base";
  refused(base, "--set adapter.path=" + peft + " --set adapter.alpha=7",
          "adapter.alpha: differs from " + peft + "/adapter_config.json; leave it out");
  refused(base, "--set adapter.path=" + (folder / "first"),
          "adapter.path: " + (folder / "first") + " holds a whole model and no adapters");
  ended_well(folder, "export " + (folder / "lora") + " " + (folder / "merged"));
  refused(folder / "merged", "--set adapter.path=" + (folder / "lora"),
          "has adapters for other weights than the model's");
  const std::string file = peft + "/adapter_config.json";
  auto config = parse_json<nlohmann::json>(read_file(file));
  config["r"] = 5;
  write_file(file, json_text(config));
  refused(base, "--set adapter.path=" + peft, "the adapter is for another model");
}

TEST_CASE("adapters that do not fit are refused by name") {
  const Folder folder;
  train_adapters(folder, "f32");
  const std::string base = folder / "base";
  const std::string peft = folder / "peft";
  ended_well(folder, "export --adapter-only " + (folder / "lora") + " " + peft);
  const auto refused = [&](const std::string& model, const std::string& adapter,
                           const std::string& text) {
    check_refused(folder, "generate " + model + " --adapter " + adapter + " --prompt a", text);
  };
  refused(folder / "lora", peft, "has adapters of its own");
  refused(base, folder / "first", "holds a whole model and no adapters");
  ended_well(folder, train_tiny(folder, "later",
                                tokenize_text(folder) + " --set checkpoint.at_end=true" +
                                    " --set optimizer.lr=0.5 --set model.path=" + base));
  refused(folder / "later", folder / "lora", "has adapters for other weights than the model's");
  const std::string file = peft + "/adapter_config.json";
  const auto config = parse_json<nlohmann::json>(read_file(file));
  const auto with = [&](const std::string& key, const nlohmann::json& value) {
    nlohmann::json changed = config;
    changed[key] = value;
    write_file(file, json_text(changed));
  };
  with("use_dora", true);
  refused(base, peft, "use_dora: is not supported");
  with("modules_to_save", nlohmann::json{"norm"});
  refused(base, peft, "modules_to_save: expected a list of embed_tokens, lm_head and model.norm");
  with("modules_to_save", nlohmann::json{"lm_head"});
  refused(base, peft, "the adapter has no tensor base_model.model.lm_head.weight");
  with("target_modules", ".*_proj");
  refused(base, peft, "target_modules: expected a list of names");
  with("target_modules", nlohmann::json{"q_proj"});
  refused(base, peft, "is of no adapter that the config names");
  with("r", 5);
  refused(base, peft, "the adapter is for another model");
  fs::rename(folder / "base", folder / "moved");
  check_refused(folder, "export " + (folder / "lora") + " " + (folder / "merged"),
                "its adapters are for the weights of " + base + ", which is not there");
}

}  // namespace strata::test
