// Tests `tune` as users start it: what it takes, writes, refuses and remembers. The search itself
// is tested below (tests/plan/tune_test.cpp).

#include <cctype>
#include <filesystem>
#include <fstream>
#include <string>

#include "e2e/program.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"

namespace strata::test {

namespace {

/// Starts the program as on a machine without a GPU, with a cache folder of the test's own.
Outcome on_paper(const Folder& folder, const std::string& arguments) {
  return run(folder, "CUDA_VISIBLE_DEVICES= STRATA_HOSTID=here XDG_CACHE_HOME=" +
                         (folder / "cache") + " " + strata_program() + " " + arguments);
}

const std::string kTinyBF16 =
    configs_folder() + "/tiny-cpu.json --set run.dtype=bf16 --backend cpu ";
const std::string kRates =
    "--set hardware.product_tflops=0.05 --set hardware.attention_forward_tflops=0.05 --set "
    "hardware.attention_backward_tflops=0.05 --set hardware.device_gbs=4 --set "
    "hardware.host_gbs=4 ";

/// Stores rates as tune does for this device.
void store_rates(const Folder& folder, const std::string& config) {
  const std::string results = folder / "device.json";
  const Outcome bench = on_paper(folder, "bench " + config + " --json " + results +
                                             " --set run.steps=1 --set optimizer.warmup_steps=0");
  REQUIRE(bench.code == 0);
  const std::string device = parse_json<nlohmann::json>(read_file(results))["device"];
  std::string name = "rates-";
  for (const char c : device) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain || name.back() != '-') name += plain ? c : '-';
  }
  fs::create_directories(folder / "cache/strata");
  std::ofstream(folder / ("cache/strata/" + name + ".json"))
      << nlohmann::json{{"device", device},
                        {"host", "here"},
                        {"measured", "2026-11-27"},
                        {"program", "a test"},
                        {"threads", 1},
                        {"product_tflops", 0.05},
                        {"device_gbs", 4},
                        {"host_gbs", 4},
                        {"attention_forward_tflops", 0.05},
                        {"attention_backward_tflops", 0.05}};
}

std::string write_model_config(const Folder& folder) {
  const std::string file = folder / "model/config.json";
  fs::create_directories(folder / "model");
  std::ofstream(file) << R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "vocab_size": 512, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": false})";
  return folder / "model";
}

}  // namespace

TEST_CASE("tune writes a config that train takes as it is, and replaces none unasked") {
  const Folder folder;
  const std::string tune = "tune " + kTinyBF16 + kRates + "--tokens 1024 --output " +
                           (folder / "tuned.json") + " --json " + (folder / "found.json");
  const Outcome tuned = on_paper(folder, tune);
  INFO(tuned.text);
  REQUIRE(tuned.code == 0);
  CHECK_THAT(tuned.text, ContainsSubstring("a step of 1,024 tokens: 8 rows of 128 on 1 rank"));
  CHECK_THAT(tuned.text, ContainsSubstring("(all rates as given)"));
  CHECK_THAT(tuned.text, ContainsSubstring("chosen:"));
  const nlohmann::json config = parse_json<nlohmann::json>(read_file(folder / "tuned.json"));
  const nlohmann::json& schedule = config["schedule"];
  CHECK(schedule["rows"].get<int>() * schedule["sub_batches"].get<int>() *
            schedule["passes"].get<int>() ==
        8);
  CHECK(config["optimizer"]["moment_dtype"] == "f32");
  CHECK(config["optimizer"]["grad_clip"] == 1.0);
  // What programs read is what was written, and the first of the best.
  const nlohmann::json found = parse_json<nlohmann::json>(read_file(folder / "found.json"));
  CHECK(found["chosen"] == found["best"][0]["keys"]);
  CHECK(found["best"][0]["prediction"]["tokens_per_s"] > 0);
  CHECK(found["best"].size() <= found["fitting"]);
  for (const auto& [key, value] : found["chosen"].items()) {
    const std::size_t dot = key.find('.');
    CHECK(config[key.substr(0, dot)][key.substr(dot + 1)] == value);
  }
  const Outcome again = on_paper(folder, tune);
  CHECK(again.code == 2);
  CHECK_THAT(again.text, ContainsSubstring("add --overwrite"));
  CHECK(on_paper(folder, tune + " --overwrite").code == 0);
  const Outcome trained =
      on_paper(folder, "train " + (folder / "tuned.json") + " --output " + (folder / "run") +
                           " --set run.steps=2 --set optimizer.warmup_steps=1");
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  CHECK(metrics(folder / "run").at(1)["tokens"] == 1024);
}

TEST_CASE("tune takes a model alone, and everything that it is told of the machine") {
  const Folder folder;
  const std::string model = write_model_config(folder);
  const Outcome tuned =
      on_paper(folder, "tune " + model +
                           " --gpu 4090 --host-memory 8GiB --tokens 16384 --grad-clip none "
                           "--sequence-length 512 --ranks 2 --output " +
                           (folder / "tuned.json"));
  INFO(tuned.text);
  REQUIRE(tuned.code == 0);
  CHECK_THAT(tuned.text, ContainsSubstring("chosen: --set data.sequence_length=512 --set "
                                           "optimizer.grad_clip=null"));
  CHECK_THAT(tuned.text, ContainsSubstring("planned for NVIDIA GeForce RTX 4090"));
  CHECK_THAT(tuned.text, ContainsSubstring("host memory 8 GiB (memory.host_limit)"));
  CHECK_THAT(tuned.text, ContainsSubstring("32 rows of 512 on 2 ranks; no clipping"));
  CHECK_THAT(tuned.text, ContainsSubstring("RTX 4090 (datasheet estimates"));
  CHECK_THAT(tuned.text, ContainsSubstring("--set data.train=FILE"));
  const nlohmann::json config = parse_json<nlohmann::json>(read_file(folder / "tuned.json"));
  CHECK(config["model"]["hidden_size"] == 256);
  CHECK(config["model"]["path"] == "");  // the folder has no weights
  CHECK(config["data"]["synthetic"] == false);
  CHECK(config["data"]["sequence_length"] == 512);
}

TEST_CASE("tune finds the weights beside a config.json of the folder that it is started in") {
  const Folder folder;
  std::ofstream(fs::path(write_model_config(folder)) / "model.safetensors") << "not looked at";
  const std::string tune =
      "tune config.json --gpu 4090 --tokens 1024 --host-memory 8GiB --output ../tuned.json";
  const Outcome tuned =
      run(folder, "cd " + (folder / "model") + " && CUDA_VISIBLE_DEVICES= XDG_CACHE_HOME=" +
                      (folder / "cache") + " " + strata_program() + " " + tune);
  INFO(tuned.text);
  REQUIRE(tuned.code == 0);
  CHECK(parse_json<nlohmann::json>(read_file(folder / "tuned.json"))["model"]["path"] == ".");
}

TEST_CASE("tune refuses with the remedy what it cannot rank, cut or hold") {
  const Folder folder;
  const std::string model = write_model_config(folder);
  struct Case {
    std::string arguments;
    int code;
    std::string says;
  };
  for (const Case& c : std::vector<Case>{
           {model + " --tokens 4096", 2, "name one with --gpu"},
           {kTinyBF16 + "--tokens 1024", 2, "nobody has measured this device; set hardware."},
           {kTinyBF16 + "--tokens 1024", 2, "(--measure 1)"},
           {model + " --gpu 4090 --tokens 1000", 2, "give 1024 or 2048"},
           {model + " --gpu 4090 --allow optimizer.lr", 2, "optimizer.lr is not searched"},
           {model + " --gpu 4090 --sequence-length 1 --tokens 4611686018427387904", 2,
            "must be a whole number from 1 to 1,099,511,627,776"},
           {model + " --gpu 4090 --sequence-length 1 --tokens 1099511627776", 2,
            "2,147,483,648 rows at most"},
           {model + " --gpu 4090 --set schedule.rows=1048576 --set schedule.passes=65536", 2,
            "make a step of more than 2,147,483,648 rows"},
           {model + " --gpu 4090 --output " + (folder / "nowhere/tuned.json"), 2,
            "there is no folder " + (folder / "nowhere")},
           {model + " --gpu 4090 --measure 1", 2, "leave out --gpu"},
           {configs_folder() + "/llama-7b.json --gpu 4090 --host-memory 60GiB --tokens 2048", 3,
            "--allow optimizer.moment_dtype"}}) {
    CAPTURE(c.arguments);
    const Outcome refused = on_paper(folder, "tune " + c.arguments);
    CHECK(refused.code == c.code);
    CHECK_THAT(refused.text, ContainsSubstring(c.says));
  }
}

TEST_CASE("what tune measures is stored, and used until somebody says otherwise", "[long]") {
  const Folder folder;
  const std::string tune = "tune " + kTinyBF16 +
                           "--tokens 1024 --measure 2 --steps 3 --set run.threads=1 --overwrite "
                           "--output " +
                           (folder / "tuned.json");
  const std::string stored = "are stored in " + (folder / "cache");
  const Outcome tuned = on_paper(folder, tune);
  INFO(tuned.text);
  REQUIRE(tuned.code == 0);
  CHECK_THAT(tuned.text, ContainsSubstring("no rates are known of this device: one run"));
  CHECK_THAT(tuned.text, ContainsSubstring("measured, the median of 3 steps each"));
  // Where other programs disturb a run its rates are not stored, and tune says so.
  if (tuned.text.find(stored) == std::string::npos) {
    CHECK_THAT(tuned.text,
               ContainsSubstring("the rates that were seen are not stored: steps took"));
    store_rates(folder, folder / "tuned.json");
  }
  const std::string plan = "plan " + (folder / "tuned.json");
  CHECK_THAT(on_paper(folder, plan).text, ContainsSubstring("(measured on this machine, "));
  const Outcome bench = on_paper(folder, "bench " + (folder / "tuned.json") +
                                             " --set run.steps=1 --set "
                                             "optimizer.warmup_steps=0");
  CHECK(bench.code == 0);
  CHECK_THAT(bench.text, ContainsSubstring("(measured on this machine, "));
  CHECK_THAT(on_paper(folder, plan + " --set hardware.stored_rates=false").text,
             ContainsSubstring("nobody has measured this device"));
  CHECK_THAT(on_paper(folder, plan + " --set hardware.host_gbs=3").text,
             ContainsSubstring("; as given: hardware.host_gbs)"));
  const std::string other_threads = on_paper(folder, plan + " --set run.threads=3").text;
  CHECK_THAT(other_threads,
             ContainsSubstring("was measured with 1 thread, and here the host has 3"));
  CHECK_THAT(other_threads, ContainsSubstring("nobody has measured this device"));
  for (const auto& entry : fs::directory_iterator(folder / "cache/strata")) {
    std::ofstream(entry.path()) << "{";
  }
  const Outcome damaged = on_paper(folder, plan);
  CHECK(damaged.code == 0);
  CHECK_THAT(damaged.text, ContainsSubstring("the stored rates are not used: remove the file"));
}

}  // namespace strata::test
