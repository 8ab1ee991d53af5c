// Tests `plan` as users start it: what it tells of memory, time and ranks, and that it takes
// nothing.

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "e2e/program.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"

namespace strata::test {

TEST_CASE("a plan for programs is what the one for people says, and trains as it is") {
  const Folder folder;
  const std::string arguments = "tiny-cpu.json --set run.steps=3 --set optimizer.warmup_steps=1";
  const Outcome text = plan(folder, arguments);
  const Outcome printed = plan(folder, arguments + " --json -");
  INFO(printed.text);
  REQUIRE(printed.code == 0);
  const nlohmann::json json = parse_json<nlohmann::json>(printed.text);
  CHECK(json["steps"] == 3);
  CHECK(json["ranks"] == 1);
  CHECK(json["device_bytes"] > 0);
  CHECK(json["host_bytes"] > 0);
  const nlohmann::json& predicted = json["prediction"];
  const bool known = predicted.contains("step_s") && predicted["step_s"] > 0;
  CHECK((known || !predicted["unknown"].get<std::string>().empty()));
  const Outcome both = plan(folder, arguments + " --json " + (folder / "plan.json"));
  CHECK(both.text == text.text);
  CHECK(parse_json<nlohmann::json>(read_file(folder / "plan.json")) == json);
  std::ofstream(folder / "planned.json") << json["config"];
  const Outcome trained =
      strata(folder, "train " + (folder / "planned.json") + " --output " + (folder / "run"));
  INFO(trained.text);
  CHECK(trained.code == 0);
  CHECK(losses(folder / "run").size() == 3);
}

TEST_CASE("a plan says how long the run takes, where its steps and their time are known") {
  const Folder folder;
  // What a step of few layers takes is predicted sooner.
  const std::string model =
      "llama-7b.json --gpu H200 --host-memory 256GiB --set model.num_hidden_layers=8 --set ";
  const std::string run = model + "run.steps=10000";
  const Outcome text = plan(folder, run);
  const double step_s =
      parse_json<nlohmann::json>(plan(folder, run + " --json -").text)["prediction"]["step_s"];
  const auto at = text.text.find("predicted run: 10,000 steps in ");
  REQUIRE(at != std::string::npos);
  std::istringstream said(
      text.text.substr(at + std::string("predicted run: 10,000 steps in ").size()));
  int hours = 0;
  int minutes = 0;
  char unit = 0;
  said >> hours >> unit >> minutes;
  REQUIRE(unit == 'h');
  CHECK(hours * 3600 + minutes * 60 == Approx(10000 * step_s).margin(120));
  const Outcome unnamed = plan(folder, model + "run.epochs=2");
  CHECK(unnamed.code == 0);
  CHECK_THAT(unnamed.text,
             ContainsSubstring("predicted step: ") && !ContainsSubstring("predicted run"));
}

TEST_CASE("plan prints every memory and allocates nothing") {
  const Folder folder;
  const Outcome planned = plan(folder, "llama-7b.json");
  INFO(planned.text);
  CHECK(planned.code == 0);
  for (const char* text : {"device", "pinned", "pageable", "state.weight", "14.00 bytes"}) {
    CHECK_THAT(planned.text, ContainsSubstring(text));
  }
  CHECK(plan(folder, "llama-7b.json --device-memory 2GiB").code == 3);
  const Outcome no_size = plan(folder, "llama-7b.json --device-memory 2gigs");
  CHECK(no_size.code == 2);
  CHECK_THAT(no_size.text, ContainsSubstring("--device-memory: \"2gigs\" is not a size"));
  // 16 sub-batches of 4096 tokens in 32 layers, 85,120 bytes a token and layer: 166 GiB.
  CHECK_THAT(plan(folder, "llama-7b.json --device-memory 300GiB").text,
             ContainsSubstring("512 cells: 512 full"));
  const Outcome refused =
      plan(folder, "llama-7b.json --device-memory 140GiB --set schedule.activations=full");
  CHECK(refused.code == 3);
  CHECK_THAT(refused.text, ContainsSubstring("schedule.activations"));
}

TEST_CASE("plan predicts for the GPU that is named, within its memory", "[long]") {
  const Folder folder;
  const Outcome measured = plan(folder, "llama-7b.json --gpu h200");
  CHECK(measured.code == 0);
  CHECK_THAT(measured.text, ContainsSubstring("predicted for H200 (measured)"));
  CHECK_THAT(measured.text, ContainsSubstring(" tokens/s, MFU "));
  CHECK_THAT(measured.text, ContainsSubstring("bound by compute"));
  CHECK_THAT(measured.text, ContainsSubstring("of 24 GiB"));  // the config's own limit
  const Outcome estimated = plan(folder, "llama-7b.json --gpu rtx-4090");
  INFO(estimated.text);
  CHECK(estimated.code == 0);
  CHECK_THAT(estimated.text, ContainsSubstring("planned for NVIDIA GeForce RTX 4090, 23.50 GiB"));
  CHECK_THAT(estimated.text, ContainsSubstring("predicted for RTX 4090 (datasheet estimates"));
  // What a run could take there: 97 % of what is free, and the context.
  CHECK_THAT(estimated.text, ContainsSubstring("of 22.81 GiB"));
  const Outcome unknown = plan(folder, "llama-7b.json --gpu 4091");
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.text, ContainsSubstring("did you mean RTX 4090?"));
  const Outcome on_cpu = plan(folder, "tiny-cpu.json --gpu 4090");
  CHECK(on_cpu.code == 2);
  CHECK_THAT(on_cpu.text, ContainsSubstring("run.backend"));
}

TEST_CASE("the configs for desktop machines fit, and docs/fitting.md says how fast they are") {
  const std::string page = read_file(documents_folder() + "/fitting.md");
  struct Machine {
    std::string config;
    std::vector<std::string> gpus;
  };
  const std::vector<Machine> machines{{"llama3-8b-24gb-64gb.json", {"3090", "4090"}},
                                      {"llama3-8b-24gb-32gb.json", {"3090", "4090"}},
                                      {"llama3-8b-16gb-64gb.json", {"5060Ti"}},
                                      {"qwen2.5-14b-24gb-128gb.json", {"3090", "4090"}}};
  const Folder folder;
  for (const Machine& machine : machines) {
    for (const std::string& gpu : machine.gpus) {
      const Outcome planned = plan(folder, machine.config + " --gpu " + gpu);
      INFO(machine.config << " on " << gpu << ": " << planned.text);
      CHECK(planned.code == 0);
      const std::size_t end = planned.text.find(" tokens/s, MFU");
      REQUIRE(end != std::string::npos);
      const std::size_t begin = planned.text.rfind(' ', end - 1) + 1;
      const std::string tokens_per_s = planned.text.substr(begin, end - begin);
      CHECK_THAT(page, ContainsSubstring("| " + tokens_per_s + " |"));
    }
  }
}

TEST_CASE("plan predicts no speed of a GPU that nobody named") {
  const Folder folder;
  const Outcome planned = plan(folder, "llama-7b.json");
  INFO(planned.text);
  CHECK(planned.code == 0);
  CHECK_THAT(planned.text, ContainsSubstring("planned for no GPU in particular"));
  CHECK_THAT(planned.text, ContainsSubstring("name one with --gpu"));
  CHECK_THAT(planned.text, !ContainsSubstring("tokens/s"));
}

TEST_CASE("a plan for several ranks needs no launcher") {
  const Folder folder;
  const auto planned = [&](const std::string& more) {
    const Outcome outcome = plan(folder, "tiny-cpu.json " + more);
    INFO(outcome.text);
    CHECK(outcome.code == 0);
    return outcome.text;
  };
  CHECK(planned("--ranks 1") == planned(""));
  CHECK(planned("--ranks 4") != planned(""));  // a quarter of the state
  CHECK_THAT(planned("--ranks 4 --ranks-per-node 2"), ContainsSubstring("blocks:"));
  const std::string predicted = planned(
      "--ranks 4 --ranks-per-node 2 --gpu h200 --set run.backend=auto "
      "--set run.dtype=bf16 --set run.shard_group=node");
  CHECK_THAT(predicted, ContainsSubstring("4 ranks on 2 hosts with NICs of 100 GB/s"));
  CHECK_THAT(predicted, ContainsSubstring("lane comm") && ContainsSubstring(" a rank)"));
  const Outcome refused = plan(folder, "tiny-cpu.json --ranks 2 --ranks-per-node 4");
  CHECK(refused.code == 2);
  CHECK_THAT(refused.text, ContainsSubstring("--ranks-per-node") && ContainsSubstring("--ranks"));
  const Outcome uneven = plan(folder, "tiny-cpu.json --ranks 64 --ranks-per-node 7");
  CHECK(uneven.code == 2);
  CHECK_THAT(uneven.text, ContainsSubstring("hosts of 7 ranks do not add up to 64"));
}

}  // namespace strata::test
