// Tests that `generate` and `chat` do what users ask them for, say what is wrong before anything is
// drawn, and lose nothing when they are killed.

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "e2e/lines.h"
#include "strata/base/text.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"
#include "support/terminal.h"

namespace strata::test {
namespace {

const std::string kModel = goldens_folder() + "/mha ";  // has no tokenizer

/// Prompts of tokens, with settings of their own.
std::string token_prompts(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    nlohmann::json tokens = nlohmann::json::array();
    for (int j = 0; j <= i % 7; ++j) tokens.push_back((5 * i + 3 * j) % 67);
    text += json_text(nlohmann::json{{"id", "prompt " + std::to_string(i)},
                                     {"tokens", tokens},
                                     {"max_tokens", 1 + i % 4},
                                     {"temperature", i % 3},
                                     {"seed", i}}) +
            "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("a prompt is continued as text, and as a line of JSON on request") {
  const Folder folder;
  const std::string model = byte_model(folder);
  const std::string arguments =
      "generate " + model + "--prompt \"line 3 of\" --max-tokens 20 --temperature 0.9 --seed 7";
  const std::string text = printed(folder, arguments);
  const auto line = parse_json<nlohmann::json>(printed(folder, arguments + " --json --logprobs"));
  CHECK(text == line["text"].get<std::string>() + "\n");
  CHECK(line["id"] == "1");
  CHECK(line["prompt_tokens"] == 9);
  CHECK(line["tokens"] == line["ids"].size());
  CHECK(line["logprobs"].size() == line["ids"].size());
  for (const double logprob : line["logprobs"]) CHECK(logprob <= 0);
  CHECK(printed(folder, arguments + " --threads 1") == text);
  check_refused(folder, arguments + " --logprobs", "--logprobs: stand in JSON lines");
  check_refused(folder, arguments + " --chat --chat-template chatml", "is one of bytes");
  CHECK(printed(folder, arguments + " --context 30") == text);

  write_file(folder / "prompt.txt", "line 3 of");
  CHECK(printed(folder, "generate " + model + "--input " + (folder / "prompt.txt") +
                            " --max-tokens 20 --temperature 0.9 --seed 7") == text);
  // A stop ends the text before it, wherever pieces of it come from.
  const auto is_ascii = [](char c) { return c >= ' ' && c <= '~'; };
  std::size_t at = 1;
  while (at + 2 < text.size() && !(is_ascii(text[at]) && is_ascii(text[at + 1]))) ++at;
  REQUIRE(at + 2 < text.size());
  const std::string stop = text.substr(at, 2);
  const nlohmann::json record{{"prompt", "line 3 of"},
                              {"max_tokens", 20},
                              {"temperature", 0.9},
                              {"seed", 7},
                              {"stop", {"no such text", stop}}};
  write_file(folder / "in.jsonl", json_text(record));
  const auto stopped = parse_json<nlohmann::json>(
      printed(folder, "generate " + model + "--input " + (folder / "in.jsonl")));
  CHECK(stopped["finish_reason"] == "stop");
  CHECK(stopped["text"] == text.substr(0, text.find(stop)));
}

TEST_CASE("a terminal gets a model's text without what it would obey, a pipe gets all of it") {
  const Folder folder;
  // A model that has hardly learnt draws all bytes, of which every ninth is such a control.
  const std::string arguments = "generate " + byte_model(folder) +
                                "--prompt x --max-tokens 300 --temperature 1 --ignore-eos --seed 7";
  const auto is_control = [](char c) { return c >= 0 && c < ' ' && c != '\n' && c != '\t'; };
  const std::string text = printed(folder, arguments);
  REQUIRE(std::ranges::any_of(text, is_control));
  const Terminal terminal(200);
  CHECK(run(folder, "sh -c '" + strata_program() + " " + arguments + " > " + terminal.name() + "'")
            .code == 0);
  terminal.end();
  std::string shown = terminal.read_shown();
  std::erase(shown, '\r');  // the terminal's own, before each line end
  CHECK(std::ranges::none_of(shown, is_control));
  CHECK(shown == printable(text));
}

TEST_CASE("JSON lines are continued alone as in any batch, and samples differ") {
  const Folder folder;
  write_file(folder / "in.jsonl", token_prompts(23));
  const std::string arguments =
      "generate " + kModel + "--logprobs --ignore-eos --input " + (folder / "in.jsonl");
  const auto by_id = [&](const std::string& more) {
    std::map<std::string, nlohmann::json> all;
    REQUIRE(strata(folder, arguments + " --overwrite --output " + (folder / "out.jsonl ") + more)
                .code == 0);
    for (const auto& line : lines_of(folder / "out.jsonl")) {
      all[line["id"].get<std::string>() + "/" + json_text(line["sample"])] = line;
    }
    return all;
  };
  const auto together = by_id("");
  CHECK(together.size() == 23);
  CHECK(together.at("prompt 3/0")["tokens"] == 4);
  CHECK(together.at("prompt 3/0")["finish_reason"] == "length");
  CHECK(by_id("--batch 1") == together);
  CHECK(by_id("--batch 3 --threads 1") == together);
  const auto int8 = by_id("--kv-dtype int8");
  CHECK(int8 != together);
  CHECK(by_id("--kv-dtype int8 --batch 3") == int8);
  write_file(folder / "in.jsonl",
             R"({"tokens": [5, 6], "max_tokens": 6, "temperature": 1, "samples": 5})");
  std::set<std::string> samples;
  for (const auto& [key, line] : by_id("")) samples.insert(json_text(line["ids"]));
  CHECK(samples.size() > 1);
}

TEST_CASE("what cannot be continued is refused before anything is drawn") {
  const Folder folder;
  const std::string in = folder / "in.jsonl";
  const std::string arguments = "generate " + kModel + "--input " + in;
  write_file(folder / "out.jsonl", "what was there\n");
  const auto check = [&](const std::string& record, const std::string& text) {
    write_file(in, R"({"tokens": [1], "id": "first"})"
                   "\n" +
                       record + "\n");
    const Outcome outcome =
        strata(folder, arguments + " --overwrite --output " + (folder / "out.jsonl"));
    INFO(record);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.text, ContainsSubstring("in.jsonl:2: ") && ContainsSubstring(text));
    CHECK(read_file(folder / "out.jsonl") == "what was there\n");
  };
  check("[1, 2]", "a record is an object");
  check("{", "is not JSON");
  check("{}", "has one of \"prompt\", \"messages\" and \"tokens\"");
  check(R"({"tokens": [1], "prompt": "a"})", "has one of");
  check(R"({"prompt": "a"})", "name the model's tokenizer by --tokenizer");
  check(R"({"messages": [{"role": "user", "content": "a"}]})", "has no chat template");
  check(R"({"tokens": [67]})", "token 67 is not one of the model's 67");
  check(R"({"tokens": [-1]})", "a list of ids");
  check(R"({"tokens": "1"})", "a list of ids");
  check(R"({"tokens": []})", "the prompt has no token");
  check(R"({"tokens": [1], "max_tokens": 0})", "max_tokens is 0, and at least 1");
  check(R"({"tokens": [1], "max_tokens": 1e9})", "max_tokens is 1000000000.0");
  check(R"({"tokens": [1], "max_tokens": 512})", "max_position_embeddings");
  const std::string most = std::to_string(std::numeric_limits<std::int64_t>::max());
  check(R"({"tokens": [1], "max_tokens": )" + most + "}", "max_tokens must be 1 to 2,147,483,647");
  check(R"({"tokens": [1], "temperature": 1, "samples": )" + most + "}",
        "samples must be 1 to 1,000,000");
  check(R"({"tokens": [1], "top_k": )" + most + "}", "top_k must be 0, which draws from all");
  check(R"({"tokens": [1], "temperature": "hot"})", "temperature is \"hot\", and a number");
  check(R"({"tokens": [1], "temperature": -1})", "temperature must be 0");
  check(R"({"tokens": [1], "top_k": -1})", "top_k must be");
  check(R"({"tokens": [1], "samples": 2})", "samples are all the same at temperature 0");
  check(R"({"tokens": [1], "stop": 3})", "stop is 3");
  check(R"({"tokens": [1], "id": "first"})", "is that of");
  check(R"({"tokens": [1], "id": 1.5})", "a text or a whole number");
  check_refused(folder, "generate " + kModel, "give one of --prompt TEXT and --input FILE");
  check_refused(folder, "generate " + kModel + "--prompt a --input b", "give one of");
  check_refused(folder, "generate " + kModel + "--input " + (folder / "missing.jsonl"),
                "missing.jsonl: cannot be read");
  fs::create_directories(folder / "folder.jsonl");
  check_refused(folder, "generate " + kModel + "--input " + (folder / "folder.jsonl"),
                "is no regular file");
  check_refused(folder, "generate " + kModel + "--prompt a --top-p 2", "top_p must be");
  check_refused(folder, "generate " + kModel + "--prompt a --chat-template chatml",
                "--chat-template: is for conversations");
  check_refused(folder, "generate " + kModel + "--prompt a --resume", "--output");
  check_refused(folder, "generate " + (folder / "nothing") + " --prompt a", "nothing of this name");
  check_refused(folder, "chat " + kModel, "has no chat template");
  check_refused(folder, arguments + " --backend cuda --dtype f64", "cuda");
  const Outcome memory = [&] {
    write_file(in, R"({"tokens": [1]})");
    return strata(folder, arguments + " --host-memory 1MiB");
  }();
  CHECK(memory.code == 3);
  CHECK_THAT(memory.text, ContainsSubstring("lower --batch or --context"));
}

TEST_CASE("an output is neither overwritten nor gone on with by accident") {
  const Folder folder;
  write_file(folder / "in.jsonl", token_prompts(5));
  const std::string arguments = "generate " + kModel + "--ignore-eos --input " +
                                (folder / "in.jsonl") + " --output " + (folder / "out.jsonl");
  REQUIRE(strata(folder, arguments).code == 0);
  const std::string all = read_file(folder / "out.jsonl");
  check_refused(folder, arguments, "is there already");
  CHECK(read_file(folder / "out.jsonl") == all);
  // Some lines are there, of which the last is torn.
  const std::size_t third = all.find('\n', all.find('\n') + 1) + 1;
  write_file(folder / "out.jsonl", all.substr(0, third + 10));
  const Outcome resumed = strata(folder, arguments + " --resume");
  INFO(resumed.text);
  CHECK(resumed.code == 0);
  CHECK_THAT(resumed.text, ContainsSubstring("has 2 completions"));
  const auto sorted = [](const std::string& file) {
    std::vector<std::string> lines;
    for (const auto& line : lines_of(file)) lines.push_back(json_text(line));
    std::ranges::sort(lines);
    return lines;
  };
  const auto gone_on = sorted(folder / "out.jsonl");
  write_file(folder / "out.jsonl", all);
  CHECK(gone_on == sorted(folder / "out.jsonl"));
  CHECK_THAT(strata(folder, arguments + " --resume").text, ContainsSubstring("nothing is left"));
  write_file(folder / "out.jsonl", "something else\n");
  check_refused(folder, arguments + " --resume", "out.jsonl:1: is no line that `generate` wrote");
  CHECK(read_file(folder / "out.jsonl") == "something else\n");
}

TEST_CASE("of 200 kills none loses or doubles a completion", "[slow][kills]") {
  if (skips_preload()) return;
  const Folder folder;
  fs::create_directories(folder / "checkpoints");  // where calls are counted
  write_file(folder / "in.jsonl", token_prompts(900));
  const auto arguments = [&](const std::string& output) {
    return "generate " + kModel + "--threads 1 --batch 5 --ignore-eos --input " +
           (folder / "in.jsonl") + " --resume --output " + output;
  };
  REQUIRE(strata(folder, arguments(folder / "whole.jsonl")).code == 0);
  const std::string output = folder / "checkpoints/out.jsonl";
  int kills = 0;
  for (; kills < 200; ++kills) {
    // The first call opens the file; the one at which it is killed leaves half a line, or none.
    const int at = 1 + kills % 8;
    Process process(folder, "env LD_PRELOAD=" + built("libkill_at_call.so") + " KILL_AT_CALL=" +
                                std::to_string(at) + " " + kProgram + arguments(output));
    const int code = process.wait();
    INFO(process.text());
    REQUIRE(code == -SIGKILL);
  }
  const std::size_t before = lines_of(folder / "whole.jsonl").size();
  REQUIRE(before == 900);
  REQUIRE(strata(folder, arguments(output)).code == 0);
  std::multiset<std::string> whole;
  std::multiset<std::string> killed;
  for (const auto& line : lines_of(folder / "whole.jsonl")) whole.insert(json_text(line));
  for (const auto& line : lines_of(output)) killed.insert(json_text(line));
  CHECK(killed == whole);
}

TEST_CASE("a chat answers each line, and remembers what was said") {
  const Folder folder;
  const std::string model = byte_model(folder);
  // 256 bytes and an end: as many ids as the model has.
  REQUIRE(strata(folder, "tokenizer train " + (folder / "text") + " --vocab-size 257 --output " +
                             (folder / "tokenizer"))
              .code == 0);
  const std::string with = model + "--tokenizer " + (folder / "tokenizer") +
                           " --chat-template chatml --temperature 1 --context 400 --max-tokens ";
  write_file(folder / "said.txt", "line 1\n\nline 2\n");
  const std::string said = printed(folder, "chat " + with + "5 < " + (folder / "said.txt"));
  const std::string first = printed(folder, "generate " + with + "5 --chat --prompt \"line 1\"");
  REQUIRE(said.size() > first.size());
  CHECK(said.substr(0, first.size()) == first);
  // The second answer is that to the whole conversation.
  const std::string answer = first.substr(0, first.size() - 1);
  write_file(folder / "in.jsonl",
             json_text(nlohmann::json{{"messages",
                                       {{{"role", "user"}, {"content", "line 1"}},
                                        {{"role", "assistant"}, {"content", answer}},
                                        {{"role", "user"}, {"content", "line 2"}}}}}) +
                 "\n");
  const auto second = parse_json<nlohmann::json>(
      printed(folder, "generate " + with + "5 --input " + (folder / "in.jsonl")));
  CHECK(said.substr(first.size()) == second["text"].get<std::string>() + "\n");
}

TEST_CASE(
    "a load of prompts is planned without a GPU, and measured on the CPU with as many tokens") {
  const Folder folder;
  const std::string plan = printed(folder, "plan " + configs_folder() +
                                               "/llama-7b.json --generate --gpu H200 --prompts 8 "
                                               "--prompt-tokens 100 --max-tokens 20");
  CHECK_THAT(plan, ContainsSubstring("8 prompts of 100 tokens, 20 drawn after each"));
  CHECK_THAT(plan, ContainsSubstring("sequences at once 8,"));
  CHECK_THAT(plan, ContainsSubstring("predicted for H200 (measured)"));
  CHECK_THAT(printed(folder, "plan " + configs_folder() +
                                 "/llama-7b.json --generate --gpu H200 --prompts 8 --prompt-tokens "
                                 "100 --max-tokens 20 --kv-dtype int8"),
             ContainsSubstring("keys and values as int8 on the device"));
  const std::string file = folder / "bench.json";
  const std::string load = "--generate --prompts 5 --prompt-tokens 6 --max-tokens 7 --batch 2 ";
  const std::string bench =
      "bench " + configs_folder() + "/tiny-cpu.json " + load + "--json " + file;
  REQUIRE(strata(folder, bench).code == 0);
  REQUIRE(strata(folder, bench).code == 0);  // results may be replaced
  const auto json = parse_json<nlohmann::json>(read_file(file));
  CHECK(json["generated_tokens"] == 5 * 7);
  CHECK(json["sequences_at_once"] == 2);
  CHECK(json["kv_dtype"] == "auto");
  CHECK(json["sweeps"] >= 3 * 7);  // of five prompts two go at once
  CHECK(json["first_token_s"] > 0);
  CHECK(json["first_token_s"] < json["seconds"]);
  CHECK(json["host_peak_bytes"] > 0);
  CHECK(json["prediction"].contains("unknown"));
}

TEST_CASE("a benchmark of generation traces two sweeps") {
  const Folder folder;
  const std::string file = folder / "trace.json";
  const std::string bench = "bench " + configs_folder() +
                            "/tiny-cpu.json --generate --prompts 3 --prompt-tokens 4 --max-tokens 8"
                            " --batch 3 --trace " +
                            file;
  REQUIRE(strata(folder, bench).code == 0);
  const Outcome result = strata(folder, bench);  // a trace may be replaced
  REQUIRE(result.code == 0);
  CHECK_THAT(result.text, ContainsSubstring("lane compute"));
  CHECK_THAT(result.text, ContainsSubstring("races in the traced sweeps: 0"));
  constexpr int kLayers = 4;  // of the config
  CHECK_THAT(result.text, ContainsSubstring(std::to_string(kLayers) + " times fused_attend"));
  int attended = 0;
  const auto trace = parse_json<nlohmann::json>(read_file(file));
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "fused_attend") ++attended;
  }
  CHECK(attended == 2 * kLayers);
  std::string one = bench;
  const Outcome brief = strata(folder, one.replace(one.find("tokens 8"), 8, "tokens 1"));
  CHECK(brief.code == 0);
  CHECK_THAT(brief.text, ContainsSubstring("no sweep follows"));
  CHECK(parse_json<nlohmann::json>(read_file(file)) == trace);  // the file of before is left
  const std::string held = folder / "config.json";
  write_file(held, "{}");
  check_refused(folder, bench.substr(0, bench.size() - file.size()) + held, "--trace: " + held);
  CHECK(read_file(held) == "{}");
  check_refused(folder, "bench " + configs_folder() + "/tiny-cpu.json --trace " + file,
                "--generate");
}

TEST_CASE("a load that cannot be generated is refused by the option that is wrong") {
  const Folder folder;
  const std::string tiny = configs_folder() + "/tiny-cpu.json --generate ";
  check_refused(folder, "bench " + tiny + "--prompt-tokens 100 --max-tokens 29",
                "lower --prompt-tokens or --max-tokens");
  check_refused(folder, "plan " + tiny + "--ranks 2 --max-tokens 2 --prompt-tokens 2", "--ranks");
  check_refused(folder, "plan " + configs_folder() + "/tiny-cpu.json --prompts 2", "--generate");
  check_refused(folder, "bench " + tiny + "--batch 0", "--batch");
  check_refused(folder, "plan " + configs_folder() + "/tiny-cpu.json --kv-dtype int8",
                "--generate");
  check_refused(folder, "plan " + tiny + "--kv-dtype int4", "int4");
  const std::string held = folder / "config.json";
  write_file(held, "{}");
  const Outcome kept =
      strata(folder, "bench " + tiny + "--prompt-tokens 2 --max-tokens 2 --json " + held);
  CHECK(kept.code == 2);
  CHECK(read_file(held) == "{}");
}

}  // namespace strata::test
