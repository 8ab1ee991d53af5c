// Tests where completions end, what is written of them, and that their tokens are the generator's.

#include "strata/complete/completion.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "complete/generation_layouts.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/complete/completion_file.h"
#include "support/catch.h"
#include "support/scratch_folder.h"
#include "support/tiny_generation.h"

namespace strata::test {
namespace {

ModelText bytes_text() { return ModelText({.folder = "", .vocabulary = 257}); }

Prompt prompt_of(const std::string& text, std::int64_t most_tokens) {
  Prompt prompt{.id = "a", .where = "here", .ids = bytes_text().encode(text, false)};
  prompt.settings.most_tokens = most_tokens;
  return prompt;
}

/// Adds ids until the completion is over; returns the pieces of its text.
std::vector<std::string> added(Completion& completion, const std::string& bytes) {
  std::vector<std::string> pieces;
  for (const char byte : bytes) {
    if (completion.over()) break;
    pieces.push_back(completion.add({.id = static_cast<unsigned char>(byte), .logprob = -0.5}));
  }
  return pieces;
}

}  // namespace

TEST_CASE("a completion is over when it has the tokens that were asked for") {
  const ModelText text = bytes_text();
  Completion completion(text, prompt_of("say ", 3), 0);
  CHECK(added(completion, "cats") == std::vector<std::string>{"c", "a", "t"});
  CHECK(completion.over());
  CHECK(completion.text() == "cat");
  CHECK(completion.line(false) ==
        R"({"id":"a","sample":0,"text":"cat","finish_reason":"length","prompt_tokens":4,)"
        R"("tokens":3})"
        "\n");
}

TEST_CASE("a completion ends with an end token, which has no text, or before a stop") {
  const ModelText text = bytes_text();
  Prompt prompt = prompt_of("say ", 20);
  prompt.settings.end_tokens = {'!'};
  Completion by_token(text, prompt, 2);
  CHECK(added(by_token, "ab!c") == std::vector<std::string>{"a", "b", ""});
  CHECK(by_token.text() == "ab");
  CHECK(by_token.ids() == std::vector<std::int32_t>{'a', 'b', '!'});
  CHECK(by_token.line(true) ==
        R"({"id":"a","sample":2,"text":"ab","finish_reason":"stop","prompt_tokens":4,)"
        R"("tokens":3,"ids":[97,98,33],"logprobs":[-0.5,-0.5,-0.5]})"
        "\n");
  prompt.settings.stops = {"xy"};
  Completion by_text(text, prompt, 0);
  CHECK(added(by_text, "axbxyz") == std::vector<std::string>{"a", "", "xb", "", ""});
  CHECK(by_text.finish_reason() == "stop");
  CHECK(by_text.text() == "axb");
  CHECK(by_text.ids().size() == 5);
}

TEST_CASE("what a completion holds back comes out when it ends early") {
  const ModelText text = bytes_text();
  Prompt prompt = prompt_of("say ", 20);
  prompt.settings.stops = {"xy"};
  Completion completion(text, prompt, 0);
  CHECK(added(completion, "ax") == std::vector<std::string>{"a", ""});
  CHECK(completion.finish() == "x");
  CHECK(completion.text() == "ax");
  CHECK(completion.finish_reason() == "length");
}

TEST_CASE("prompts become what the generator draws after them, up to where they end") {
  constexpr std::int32_t kEnd = 7;
  const ModelText text({.folder = "", .vocabulary = long_model().vocab_size});  // has no texts
  std::vector<GenerateRequest> requests;
  std::vector<PromptSample> wanted;
  for (std::uint64_t i = 0; i < 9; ++i) {
    Prompt prompt{.id = std::to_string(i), .where = "line", .ids = random_prompt(i, 5)};
    prompt.settings.sampling.seed = 11;
    prompt.settings.most_tokens = 20;
    prompt.settings.end_tokens = {kEnd};
    const std::int64_t sample = static_cast<std::int64_t>(i % 2);
    requests.push_back({.prompt = prompt.ids,
                        .sampling = prompt.settings.sampling,
                        .most_tokens = 20,
                        .sample = sample});
    wanted.push_back({.prompt = std::move(prompt), .sample = sample});
  }
  const GenerationNeeds layout = needs(DType::kF32);
  const std::vector<Continuation> expected =
      TinyGeneration({.model = long_model(), .needs = layout})
          .run(requests, [&](const DrawnToken& token) { return token.id != kEnd; });
  TinyGeneration generation({.model = long_model(), .needs = layout});
  std::size_t taken = 0;
  std::size_t ended = 0;
  complete_prompts(
      generation.generator(), text,
      [&]() -> std::optional<PromptSample> {
        if (taken == wanted.size()) return std::nullopt;
        return wanted[taken++];
      },
      [&](const Completion& completion, const std::string&) {
        if (!completion.over()) return;
        ++ended;
        const auto& ids = expected.at(std::stoul(completion.prompt().id)).ids;
        CHECK(completion.ids() == ids);
        CHECK(completion.finish_reason() == (ids.back() == kEnd ? "stop" : "length"));
      });
  CHECK(ended == wanted.size());
}

TEST_CASE("one generator draws the answers of a talk, turn by turn") {
  const ModelText text({.folder = "", .vocabulary = long_model().vocab_size});
  TinyGeneration generation({.model = long_model(), .needs = needs(DType::kF32)});
  for (std::uint64_t turn = 0; turn < 3; ++turn) {
    Prompt prompt{.id = "1", .where = "here", .ids = random_prompt(turn, 5)};
    prompt.settings.most_tokens = 6;
    std::optional<PromptSample> once = PromptSample{.prompt = prompt};
    std::vector<std::int32_t> ids;
    complete_prompts(
        generation.generator(), text, [&] { return std::exchange(once, std::nullopt); },
        [&](const Completion& completion, const std::string&) { ids = completion.ids(); });
    TinyGeneration alone({.model = long_model(), .needs = needs(DType::kF32)});
    CHECK(ids == alone.run({request_of(prompt, 0)}).front().ids);
  }
}

TEST_CASE("a prompt that the model cannot continue is refused with its place") {
  const ModelText text({.folder = "", .vocabulary = long_model().vocab_size});
  TinyGeneration generation({.model = long_model(), .needs = needs(DType::kF32)});
  Prompt prompt{.id = "1", .where = "p.jsonl:3", .ids = random_prompt(1, 30)};
  prompt.settings.most_tokens = 11;
  CHECK_THROWS_WITH(complete_prompts(
                        generation.generator(), text,
                        [&] { return std::optional(PromptSample{.prompt = prompt}); },
                        [](const Completion&, const std::string&) {}),
                    ContainsSubstring("p.jsonl:3: the prompt has 30 tokens and up to 11"));
}

TEST_CASE("a file of completions is gone on with behind its last whole line") {
  const ScratchFolder folder;
  const std::string whole = R"({"id": "a", "sample": 0, "text": "x"})"
                            "\n";
  const std::string path = folder.write("out.jsonl", whole + R"({"id": "a", "sam)");
  CHECK_THROWS_AS(CompletionFile(path, OldOutput::kRefuse), ConfigError);
  {
    CompletionFile file(path, OldOutput::kResume);
    CHECK(file.found() == 1);
    CHECK(file.has("a", 0));
    CHECK(!file.has("a", 1));
    file.open();
    file.write("next\n");
  }
  CHECK(read_text_file(path, 1000) == whole + "next\n");
  CHECK_THROWS_AS(CompletionFile(path, OldOutput::kResume), ConfigError);
  CompletionFile(path, OldOutput::kReplace).open();
  CHECK(read_text_file(path, 1000).empty());
}

}  // namespace strata::test
