// Tests what is read of run folders: runs that went back, damaged files, and folders of others.

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "report/run_files.h"
#include "strata/base/error.h"
#include "strata/report/run_history.h"
#include "support/catch.h"
#include "support/json.h"

namespace strata::test {
namespace {

using Steps = std::vector<std::int64_t>;

std::vector<std::string> texts_of(const RunHistory& run) {
  std::vector<std::string> texts;
  for (const DrawnSample& sample : run.samples) texts.push_back(sample.text);
  return texts;
}

TEST_CASE("a history holds what the lines of metrics say") {
  const ScratchFolder folder;
  Json first = step_line(1, 4);
  first["targets_per_s"] = 384.0;
  first["mfu_attended"] = 0.25;
  first["reward_margin"] = -0.5;
  first["preferred"] = 0.75;
  Json bad = step_line(2, 0);
  bad["loss"] = nullptr;
  bad["nonfinite"] = {{"loss", "nan"}};
  bad["applied"] = false;
  folder.write("run/metrics.jsonl",
               lines({start_line(),
                      first,
                      bad,
                      eval_line(2, 3.5),
                      {{"event", "trace"},
                       {"step", 1},
                       {"host_busy_s", 0.5},
                       {"host_exposed_s", 0.25},
                       {"compute_busy_s", 2},
                       {"compute_exposed_s", 0.0},
                       {"updates_busy_s", 0.5},
                       {"updates_exposed_s", 0.125},
                       {"updates_hidden", 0.75}},
                      parse_json<Json>(R"({"event": "fp8", "step": 2,
                        "down": {"x": {"amax": [3, 4], "flushed": [0.125, null],
                                       "subnormal": [0.5, null]},
                                 "dy": {"amax": [1, 7], "flushed": [0, 0.25],
                                        "subnormal": [0, 0.375]},
                                 "w": {"amax": "no list"}},
                        "later": {}, "qkv": []})"),
                      {{"event", "checkpoint"},
                       {"step", 2},
                       {"weights_alone", true},
                       {"saved", false},
                       {"seconds", 1.5},
                       {"bytes", 100},
                       {"failure", "the disk is full"}},
                      {{"event", "something_new"}, {"step", "of a later strata"}},
                      {{"event", "end"},
                       {"reason", "done"},
                       {"steps", 2},
                       {"device_measured_bytes", 4000},
                       {"host_peak_bytes", 9000},
                       {"lost_lines", 3}}}));
  folder.write("run/config.json", R"({"run": {"steps": 2}, "optimizer": {"lr": 1e-3}})");
  const RunHistory run = read_run(folder.file("run"));
  CHECK(run.steps.step == Steps{1, 2});
  CHECK(run.steps.loss[0] == 4);
  CHECK(std::isnan(run.steps.loss[1]));
  CHECK(run.steps.grad_norm[0] == 2);
  CHECK(std::isnan(run.steps.mfu[0]));
  CHECK(run.steps.targets_per_s[0] == 384);
  CHECK(run.steps.mfu_attended[0] == 0.25);
  CHECK(std::isnan(run.steps.mfu_attended[1]));
  CHECK(run.steps.reward_margin[0] == -0.5);
  CHECK(run.steps.preferred[0] == 0.75);
  CHECK(std::isnan(run.steps.preferred[1]));
  REQUIRE(run.skipped.size() == 1);
  CHECK(run.skipped[0].step == 2);
  CHECK(run.skipped[0].what == "loss is nan");
  REQUIRE(run.validations.size() == 1);
  CHECK(run.validations[0].loss == 3.5);
  REQUIRE(run.fp8.size() == 1);
  CHECK(run.fp8[0].step == 2);
  REQUIRE(run.fp8[0].linears.size() == 1);
  const Fp8Worst& down = run.fp8[0].linears[0];
  CHECK(down.linear == "down");
  CHECK(down.operand == "dy");
  CHECK(down.layer == 1);
  CHECK(down.flushed == 0.25);
  CHECK(down.subnormal == 0.375);
  CHECK(down.amax == 7);
  REQUIRE(run.traced.size() == 1);
  REQUIRE(run.traced[0].lanes.size() == 2);
  CHECK(run.traced[0].lanes[0].lane == "compute");
  CHECK(run.traced[0].lanes[1].exposed_s == 0.25);
  CHECK(run.traced[0].updates.exposed_s == 0.125);
  REQUIRE(run.saves.size() == 1);
  CHECK(run.saves[0].weights_alone);
  CHECK(run.saves[0].failure == "the disk is full");
  CHECK(run.memory.device_planned == 4096.0);
  CHECK(run.memory.host_peak == 9000.0);
  CHECK(run.end_reason == "done");
  CHECK(run.facts.at("device") == "a device");
  CHECK(run.facts.at("parameters") == "1000");
  REQUIRE(run.config.size() == 2);
  CHECK(run.config[1].path == "optimizer.lr");
  CHECK(run.config[1].value == "0.001");
  REQUIRE(run.notes.size() == 1);
  CHECK_THAT(run.notes[0], ContainsSubstring("could not write 3 lines"));
}

TEST_CASE("steps that a resumed run does again replace those that it did before") {
  const ScratchFolder folder;
  Json resume = start_line();
  resume["event"] = "resume";
  resume["step"] = 2;
  resume["checkpoint"] = "checkpoints/step-2";
  folder.write("run/metrics.jsonl",
               lines({start_line(),
                      step_line(1, 9),
                      step_line(2, 8),
                      eval_line(2, 8.5),
                      step_line(3, 7),
                      eval_line(3, 7.5),
                      step_line(4, 6),
                      {{"event", "end"}, {"reason", "SIGTERM"}, {"steps", 4}, {"lost_lines", 0}},
                      resume,
                      step_line(3, 70),
                      eval_line(3, 75)}));
  const RunHistory run = read_run(folder.file("run"));
  CHECK(run.steps.step == Steps{1, 2, 3});
  CHECK(run.steps.loss == std::vector<double>{9, 8, 70});
  CHECK(run.steps.seconds.size() == 3);
  REQUIRE(run.validations.size() == 2);
  CHECK(run.validations[1].loss == 75);
  REQUIRE(run.resumes.size() == 1);
  CHECK(run.resumes[0].step == 2);
  CHECK(run.end_reason.empty());
}

TEST_CASE("a run that goes back from a bad step keeps the rollback and not the step") {
  const ScratchFolder folder;
  Json resume = start_line();
  resume["event"] = "resume";
  resume["step"] = 1;
  folder.write("run/metrics.jsonl",
               lines({start_line(),
                      step_line(1, 9),
                      step_line(2, 800),
                      {{"event", "rollback"}, {"step", 2}, {"what", "an outlier"}, {"samples", 4}},
                      resume,
                      step_line(2, 8)}));
  const RunHistory run = read_run(folder.file("run"));
  CHECK(run.steps.loss == std::vector<double>{9, 8});
  REQUIRE(run.rollbacks.size() == 1);
  CHECK(run.rollbacks[0].what == "an outlier");
}

TEST_CASE("samples that are drawn again replace those of before") {
  const ScratchFolder folder;
  folder.write("run/metrics.jsonl", lines({start_line()}));
  folder.write("run/config.json", R"({"run": {"sample_prompts": ["a", "a"]}})");
  folder.write("run/samples.jsonl", lines({sample_line(10, "a", "1"), sample_line(10, "a", "2"),
                                           sample_line(20, "a", "3"), sample_line(20, "a", "4"),
                                           sample_line(20, "a", "5"), sample_line(20, "a", "6")}));
  CHECK(texts_of(read_run(folder.file("run"))) == std::vector<std::string>{"1", "2", "5", "6"});
  folder.write("run/samples.jsonl", lines({sample_line(10, "a", "1"), sample_line(20, "a", "2"),
                                           sample_line(10, "a", "3"), sample_line(20, "a", "4")}));
  CHECK(texts_of(read_run(folder.file("run"))) == std::vector<std::string>{"3", "4"});
}

TEST_CASE("a sample of a conversation is shown with what was said before it") {
  const ScratchFolder folder;
  folder.write("run/metrics.jsonl", lines({start_line()}));
  Json line = sample_line(10, "", "yes");
  line["prompt"] = {{"messages", Json::array({{{"role", "system"}, {"content", "Be short."}},
                                              {{"role", "user"}, {"content", "Is it far?"}}})}};
  Json odd = sample_line(10, "", "no");
  odd["prompt"] = {{"messages", 5}};
  folder.write("run/samples.jsonl", lines({line, odd}));
  const RunHistory run = read_run(folder.file("run"));
  REQUIRE(run.samples.size() == 2);
  CHECK(run.samples[0].prompt == "system: Be short.\nuser: Is it far?\nassistant: ");
  CHECK(run.samples[0].text == "yes");
  CHECK(run.samples[1].prompt.empty());
}

TEST_CASE("a last line that is written in part is left out, and said") {
  const ScratchFolder folder;
  const std::string whole = lines({start_line(), step_line(1, 9), step_line(2, 8)});
  const std::string next = json_text(step_line(3, 7));
  for (std::size_t bytes = 1; bytes < next.size(); bytes += 7) {
    folder.write("run/metrics.jsonl", whole + next.substr(0, bytes));
    const RunHistory run = read_run(folder.file("run"));
    CHECK(run.steps.size() == 2);
    REQUIRE(run.notes.size() == 2);
    CHECK_THAT(run.notes[0], ContainsSubstring("the last line is written in part"));
    CHECK_THAT(run.notes[1], ContainsSubstring("config.json: is missing"));
  }
  folder.write("run/metrics.jsonl", whole + next);  // without its newline, and whole
  CHECK(read_run(folder.file("run")).steps.size() == 3);
}

TEST_CASE("damaged lines are counted and named, and cost nothing else") {
  const ScratchFolder folder;
  folder.write("run/metrics.jsonl", lines({start_line(), step_line(1, 9)}) + std::string(40, '\0') +
                                        "\n{\"event\":\"step\",\"step\":\"two\"}\n[1, 2]\n\n" +
                                        lines({step_line(3, 7)}));
  folder.write("run/config.json", "{\"run\": ");
  folder.write("run/samples.jsonl", "not a line\n");
  folder.write("run/trace.json", "not a trace");
  const RunHistory run = read_run(folder.file("run"));
  CHECK(run.steps.step == Steps{1, 3});
  REQUIRE(run.notes.size() == 4);
  CHECK_THAT(run.notes[0],
             ContainsSubstring("3 of 7 lines are damaged and left out (line 3, 4, 5)"));
  CHECK_THAT(run.notes[1], ContainsSubstring("config.json: is damaged"));
  CHECK_THAT(run.notes[2], ContainsSubstring("samples.jsonl: 1 of 1 lines are damaged"));
  CHECK_THAT(run.notes[3], ContainsSubstring("trace.json: is damaged"));
}

TEST_CASE("what nests deeper than any run writes is damaged") {
  const ScratchFolder folder;
  const int levels = 400000;  // more than a stack holds
  const std::string deep = std::string(levels, '[') + std::string(levels, ']');
  folder.write("run/metrics.jsonl", lines({start_line(), step_line(1, 9)}) +
                                        R"({"event":"step","step":2,"more":)" + deep + "}\n" +
                                        lines({step_line(3, 7)}));
  folder.write("run/config.json", "{\"run\":" + deep + "}");
  folder.write(
      "run/trace.json",
      R"({"traceEvents":[{"ph":"X","name":"a","tid":0,"ts":1,"dur":2},{"args":)" + deep + "}]}");
  const RunHistory run = read_run(folder.file("run"));
  CHECK(run.steps.step == Steps{1, 3});
  CHECK(run.config.empty());
  REQUIRE(run.trace);
  CHECK(run.trace->events == 1);
  REQUIRE(run.notes.size() == 3);
  CHECK_THAT(run.notes[0], ContainsSubstring("1 of 4 lines are damaged and left out (line 3)"));
  CHECK_THAT(run.notes[1], ContainsSubstring("config.json: is damaged and left out"));
  CHECK_THAT(run.notes[2], ContainsSubstring("trace.json: is damaged"));

  std::string nested = "{\"a\":";
  for (int i = 1; i < levels; ++i) nested += "{\"a\":";
  folder.write("run/config.json", nested + "1" + std::string(levels, '}'));
  CHECK(read_run(folder.file("run")).config.empty());
}

TEST_CASE("steps that no run reaches are damaged, and lost lines are counted without overflow") {
  const ScratchFolder folder;
  const std::int64_t last = std::int64_t{1} << 53;
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  Json resume = start_line();
  resume["event"] = "resume";
  resume["step"] = most;
  Json far = resume;
  far["step"] = last;
  const Json end{{"event", "end"}, {"reason", "done"}, {"lost_lines", most}};
  folder.write("run/metrics.jsonl",
               lines({start_line(), step_line(1, 9), resume, far, step_line(last, 8),
                      step_line(last + 1, 7), step_line(most, 6), eval_line(-1, 5), end, end}));
  folder.write("run/samples.jsonl", lines({sample_line(most, "a", "1"), sample_line(1, "a", "2")}));
  const RunHistory run = read_run(folder.file("run"));
  CHECK(run.steps.step == Steps{1, last});
  CHECK(run.resumes.size() == 1);
  CHECK(run.validations.empty());
  CHECK(texts_of(run) == std::vector<std::string>{"2"});
  REQUIRE(run.notes.size() == 4);
  CHECK_THAT(run.notes[0], ContainsSubstring("(line 3, 6, 7, 8)"));
  CHECK_THAT(run.notes[1], ContainsSubstring("could not write 9,007,199,254,740,992 lines"));
}

TEST_CASE("a run that has not done a step has a history") {
  const ScratchFolder folder;
  folder.write("run/metrics.jsonl", "");
  const RunHistory run = read_run(folder.file("run"));
  CHECK(run.steps.size() == 0);
  CHECK_THAT(run.notes[0], ContainsSubstring("no step has ended yet"));
}

TEST_CASE("folders that are no runs are refused by name, with what to do") {
  const ScratchFolder folder;
  folder.write("empty/readme", "nothing");
  folder.write("other/metrics.jsonl", "epoch,loss\n1,2\n");
  CHECK_THROWS_AS(read_run(folder.file("empty")), IoError);
  CHECK_THROWS_WITH(
      read_run(folder.file("empty")),
      ContainsSubstring("empty: is not the folder of a run") && ContainsSubstring("run.output"));
  CHECK_THROWS_WITH(read_run(folder.file("nowhere")), ContainsSubstring("there is no such folder"));
  CHECK_THROWS_WITH(read_run(folder.file("empty/readme")),
                    ContainsSubstring("name the run folder"));
  CHECK_THROWS_WITH(read_run(folder.file("other")),
                    ContainsSubstring("none of its lines is an event"));
}

TEST_CASE("runs are named by the shortest end of their paths that tells them apart") {
  std::vector<RunHistory> runs(4);
  runs[0].folder = "/data/a/run";
  runs[1].folder = "/data/b/run/";
  runs[2].folder = "/data/b/other";
  runs[3].folder = "/data/b/other";
  name_runs(runs);
  CHECK(runs[0].name == "a/run");
  CHECK(runs[1].name == "b/run");
  CHECK(runs[2].name == "/data/b/other (3)");
  CHECK(runs[3].name == "/data/b/other (4)");
  runs.resize(1);
  runs[0].folder = "/data/a\xff";
  name_runs(runs);
  CHECK(runs[0].name == "a\xef\xbf\xbd");
}

TEST_CASE("configs differ in values and in keys that one of them lacks") {
  std::vector<RunHistory> runs(3);
  runs[0].config = {{"run.output", "\"a\""}, {"run.steps", "5"}, {"optimizer.lr", "0.1"}};
  runs[1].config = {{"run.output", "\"b\""}, {"optimizer.lr", "0.1"}, {"data.dtype", "\"u16\""}};
  const std::vector<ConfigDifference> differences = config_differences(runs);
  REQUIRE(differences.size() == 2);
  CHECK(differences[0].path == "run.steps");
  CHECK(differences[0].values == std::vector<std::string>{"5", "", ""});
  CHECK(differences[1].path == "data.dtype");
  CHECK(differences[1].values == std::vector<std::string>{"", "\"u16\"", ""});
}

}  // namespace
}  // namespace strata::test
