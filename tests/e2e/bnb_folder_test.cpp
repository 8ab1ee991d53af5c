// Tests what the program makes of a model that bitsandbytes has in 4 bits, against the weights that
// bitsandbytes makes of it (scripts/golden/bnb_folders.py), and against the same model in bf16.

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "e2e/lines.h"
#include "e2e/model_files.h"
#include "strata/data/token_file.h"

namespace strata::test {
namespace {

const std::string kPacked = goldens_folder() + "/bnb_phi3";

/// Arguments of a short run in bf16 from a folder of weights.
std::string train_from(const Folder& folder, const std::string& model, const std::string& name,
                       const std::string& more) {
  write_file(folder / "short.json",
             R"({"run": {"steps": 3, "backend": "cpu", "dtype": "bf16"},
                 "data": {"synthetic": true, "sequence_length": 16}, "schedule": {"rows": 2},
                 "optimizer": {"gradient_dtype": "f32"}, "checkpoint": {"at_end": true}})");
  return "train " + (folder / "short.json") + " --output " + (folder / name) +
         " --set model.path=" + model + " " + more;
}

/// The losses and norms of a run's steps, which a comparison takes bit by bit.
std::vector<double> steps_of(const std::string& run_folder) {
  std::vector<double> numbers;
  for (const nlohmann::json& line : metrics(run_folder)) {
    if (line["event"] != "step") continue;
    numbers.push_back(line["loss"].get<double>());
    numbers.push_back(line["grad_norm"].get<double>());
  }
  return numbers;
}

}  // namespace

TEST_CASE("a model in 4 bits is imported with the weights that bitsandbytes makes of it") {
  const Folder folder;
  const Outcome imported = strata(folder, "import " + kPacked + " " + (folder / "plain"));
  REQUIRE(imported.code == 0);
  CHECK_THAT(imported.text, ContainsSubstring("weights in bf16, exact from BF16 and 4 bits"));
  const std::map<std::string, Tensor> expected = tensors_of(kPacked + "/expected.safetensors");
  const std::map<std::string, Tensor> stored = tensors_of(kPacked + "/model.safetensors");
  const std::map<std::string, Tensor> made = model_tensors(folder / "plain");
  CHECK(made.size() == 9);
  for (const auto& [name, tensor] : made) {
    INFO(name);
    const auto decoded = expected.find("decoded/" + name);
    CHECK(tensor == (decoded == expected.end() ? stored.at(name) : decoded->second));
  }
  CHECK_THAT(read_file(folder / "plain/config.json"), !ContainsSubstring("quantization_config"));
}

TEST_CASE("runs and evaluations of a model in 4 bits are those of its weights in bf16") {
  const Folder folder;
  const std::string plain = folder / "plain";
  ended_well(folder, "import " + kPacked + " " + plain);
  const std::string adapters = "--set adapter.rank=2 ";
  ended_well(folder,
             train_from(folder, kPacked, "nf4", adapters + "--set adapter.base_format=nf4"));
  ended_well(folder, train_from(folder, kPacked, "read", adapters));
  ended_well(folder, train_from(folder, plain, "plain-lora", adapters));
  ended_well(folder, train_from(folder, kPacked, "full", ""));
  ended_well(folder, train_from(folder, plain, "plain-full", ""));
  CHECK(steps_of(folder / "nf4").size() == 6);
  CHECK(steps_of(folder / "nf4") == steps_of(folder / "plain-lora"));
  CHECK(steps_of(folder / "read") == steps_of(folder / "plain-lora"));
  CHECK(steps_of(folder / "full") == steps_of(folder / "plain-full"));

  for (const std::string name : {"nf4", "plain-lora", "full", "plain-full"}) {
    ended_well(folder, "export " + (folder / name) + " " + (folder / ("of-" + name)));
  }
  CHECK(model_tensors(folder / "of-nf4") == model_tensors(folder / "of-plain-lora"));
  CHECK(model_tensors(folder / "of-full") == model_tensors(folder / "of-plain-full"));
  ended_well(folder, "export --adapter-only " + (folder / "nf4") + " " + (folder / "peft"));
  CHECK_THAT(read_file(folder / "peft/adapter_config.json"), ContainsSubstring(kPacked));

  TokenFileWriter writer(folder / "tokens.bin", {.vocabulary = 75});
  for (std::int32_t id = 0; id < 75; ++id) writer.append(std::vector{id, (7 * id + 3) % 75});
  writer.close();
  writer.publish();
  const auto evaluated = [&](const std::string& model, const std::string& more) {
    const std::string line =
        printed(folder, "evaluate " + model + " --input " + (folder / "tokens.bin") + more);
    return parse_json<nlohmann::json>(line)["loss"].get<double>();
  };
  CHECK(evaluated(kPacked, "") == evaluated(plain, ""));
  const std::string with = " --adapter " + (folder / "peft");
  CHECK(evaluated(kPacked, with) == evaluated(plain, with));
}

TEST_CASE("adapters over the codes of files do not go on over weights rounded again in nf4") {
  const Folder folder;
  const std::string plain = folder / "plain";
  ended_well(folder, "import " + kPacked + " " + plain);
  for (const auto& [from, to] : {std::pair(kPacked, plain), std::pair(plain, kPacked)}) {
    const std::string run = "nf4-" + fs::path(from).filename().string();
    const std::string nf4 = "--set adapter.rank=2 --set adapter.base_format=nf4 ";
    const std::string more = nf4 + "--set run.steps=4 --allow run.steps --resume auto ";
    ended_well(folder, train_from(folder, from, run, nf4));
    check_refused(folder, train_from(folder, to, run, more),
                  "model.path: the adapters of the checkpoint were trained for other weights");
    ended_well(folder, train_from(folder, from, run, more));
    ended_well(folder, "export " + (folder / run) + " " + (folder / ("of-" + run)));
    const std::string start = "--set adapter.path=" + (folder / run) + " ";
    ended_well(folder, train_from(folder, from, run + "-on", start));
    check_refused(folder, train_from(folder, to, run + "-other", start),
                  "has adapters for other weights than the model's");
    ended_well(folder, train_from(folder, from, run,
                                  "--set adapter.rank=2 --set run.steps=5 --resume auto "
                                  "--allow run.steps --allow adapter.base_format"));
  }
}

TEST_CASE("adapters over the codes of files go on with the reference that was stored") {
  const Folder folder;
  TokenFileWriter pairs(folder / "pairs.bin", {.vocabulary = 75});
  pairs.mark_pairs();
  for (std::int32_t answer = 0; answer < 16; ++answer) {
    pairs.append(std::vector{3, 4, 5 + answer, 6}, std::vector<std::uint8_t>{1, 0, 1, 1});
    pairs.end_document();
  }
  pairs.close();
  pairs.publish();
  const std::string input = " --input " + (folder / "pairs.bin");
  ended_well(folder, "evaluate " + kPacked + input + " --reference");
  const std::string learn =
      "--set adapter.rank=2 --set adapter.base_format=nf4 --set data.synthetic=false "
      "--set data.train=" +
      (folder / "pairs.bin") +
      " --set data.document_mask=true --set data.packing=true --set data.overlong=drop "
      "--set train.objective=dpo --set train.reference=stored ";
  ended_well(folder, train_from(folder, kPacked, "run", learn));
  ended_well(folder, train_from(folder, kPacked, "run",
                                learn + "--set run.steps=4 --allow run.steps --resume auto"));
}

TEST_CASE("a model in 4 bits that does not fit together is refused by the tensor's name") {
  const Folder folder;
  const std::string model = folder / "model";
  fs::copy(kPacked, model);
  const std::string weights = read_file(model + "/model.safetensors");
  std::string damaged = weights;
  damaged.replace(damaged.find("\"blocksize\": 64"), 15, "\"blocksize\": 96");
  write_file(model + "/model.safetensors", damaged);
  check_refused(folder, train_from(folder, model, "run", "--set adapter.rank=2"),
                "weight.quant_state.bitsandbytes__nf4': blocksize is 96");
  check_refused(folder, "import " + model + " " + (folder / "plain"), "blocksize is 96");
  CHECK(!fs::exists(folder / "plain"));

  const std::string config = read_file(model + "/config.json");
  std::string other_format = config;
  other_format.replace(other_format.find("\"nf4\""), 5, "\"fp4\"");
  write_file(model + "/config.json", other_format);
  check_refused(folder, "import " + model + " " + (folder / "plain"),
                "quantization_config: of quantized weights only those of bitsandbytes in nf4");
}

}  // namespace strata::test
