// Tests what prompts are made of, and that all of a job are read before any is drawn.

#include "strata/complete/prompts.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/complete/prompt_source.h"
#include "support/catch.h"
#include "support/scratch_folder.h"
#include "support/tiny_model.h"

namespace strata::test {
namespace {

/// A model with texts of the letters a and b, which is talked to.
class Talker {
 public:
  Talker() {
    folder_.write("tokenizer.json", R"({"model": {"type": "BPE", "merges": [], "vocab":
        {"a": 0, "b": 1, ":": 2, "s": 3, "u": 4, "<|im_end|>": 5}}, "decoder": {"type": "Fuse"},
        "added_tokens": [{"id": 5, "content": "<|im_end|>", "special": true}]})");
    folder_.write("chat_template.jinja",
                  "{% for m in messages %}{{ m.role[0] + ':' + m.content + '<|im_end|>' }}"
                  "{% endfor %}{% if add_generation_prompt %}a:{% endif %}");
    text_ =
        std::make_unique<ModelText>(ModelTextOptions{.folder = folder_.file(""), .vocabulary = 6});
  }
  [[nodiscard]] const ModelText& text() const { return *text_; }
  [[nodiscard]] PromptReading reading() const {
    return {.text = *text_, .positions = 100, .answer_end = text_->turn_end()};
  }

 private:
  ScratchFolder folder_;
  std::unique_ptr<ModelText> text_;
};

std::string prompt_complaint(const PromptReading& how, const std::string& json) {
  try {
    (void)read_prompt_record(how, json, "p.jsonl:2", 2);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a text to answer is the conversation of the system and the user") {
  const Talker talker;
  PromptReading how = talker.reading();
  how.chat = true;
  how.system = "b";
  const Prompt prompt = read_text_prompt(how, "ab", "--prompt");
  const std::vector<std::int32_t> expected{3, 2, 1, 5, 4, 2, 0, 1, 5, 0, 2};  // s:b<>u:ab<>a:
  CHECK(prompt.ids == expected);
  CHECK(prompt.is_conversation);
  CHECK(prompt.settings.end_tokens == std::vector<std::int32_t>{5});
  const Prompt record = read_prompt_record(
      talker.reading(),
      R"({"messages": [{"role": "system", "content": "b"}, {"role": "user", "content": "ab"}]})",
      "p.jsonl:1", 1);
  CHECK(record.ids == expected);
  CHECK(record.settings.end_tokens == prompt.settings.end_tokens);
}

TEST_CASE("a text to go on with does not end where answers do") {
  const Talker talker;
  const Prompt prompt = read_text_prompt(talker.reading(), "ab", "--prompt");
  CHECK(prompt.ids == std::vector<std::int32_t>{0, 1});
  CHECK(prompt.settings.end_tokens.empty());
  CHECK(prompt.settings.most_tokens == 98);
}

TEST_CASE("an answer ends at the text of its end where no token does") {
  PromptSettings settings;
  end_answer(settings, {.id = {}, .text = "#"});
  CHECK(settings.stops == std::vector<std::string>{"#"});
  end_answer(settings, {});
  CHECK(settings.stops.size() == 1);
  CHECK(settings.end_tokens.empty());
}

TEST_CASE("a record has settings of its own, and those of the job otherwise") {
  const Talker talker;
  PromptReading how = talker.reading();
  how.settings.sampling.top_p = 0.5;
  how.settings.stops = {"job"};
  const Prompt prompt = read_prompt_record(
      how,
      R"({"id": "x", "tokens": [1, 0], "max_tokens": 7, "temperature": 2, "top_k": 3, "samples": 2,
          "seed": 9, "stop": ["a", "b"]})",
      "p.jsonl:1", 1);
  CHECK(prompt.id == "x");
  CHECK(prompt.ids == std::vector<std::int32_t>{1, 0});
  CHECK(prompt.settings.stops == std::vector<std::string>{"a", "b"});
  const GenerateRequest request = request_of(prompt, 1);
  CHECK(request.prompt == prompt.ids);
  CHECK(request.most_tokens == 7);
  CHECK(request.sample == 1);
  CHECK(request.sampling.temperature == 2);
  CHECK(request.sampling.top_k == 3);
  CHECK(request.sampling.top_p == 0.5);
  CHECK(request.sampling.seed == 9);
}

TEST_CASE("a record that is wrong is refused with its place and key") {
  const Talker talker;
  const PromptReading how = talker.reading();
  const auto check = [&](const std::string& json, const std::string& text) {
    const std::string said = prompt_complaint(how, json);
    CHECK(said.starts_with("p.jsonl:2: "));
    CHECK_THAT(said, ContainsSubstring(text));
  };
  check("{", "is not JSON");
  check("{}", "a record has one of");
  check(R"({"prompt": "a", "tokens": [1]})", "a record has one of");
  check(R"({"prompt": 1})", "prompt is 1, and a text is expected");
  check(R"({"prompt": "a", "max_tokens": 0})", "max_tokens is 0, and at least 1 is expected");
  check(R"({"prompt": "a", "top_p": 2})", "top_p must be above 0");
  check(R"({"prompt": "a", "samples": 2, "temperature": 0})", "samples are all the same");
  check(R"({"messages": [{"content": "a"}]})", "message 0 has no \"role\"");
}

TEST_CASE("a survey counts what prompts need, and finds the first one that is wrong") {
  const Talker talker;
  const ScratchFolder folder;
  LlamaConfig model = tiny_model();
  model.vocab_size = 6;
  model.max_position_embeddings = 100;
  const auto survey = [&](const std::string& lines, std::optional<std::int64_t> context) {
    PromptSource source(talker.reading(), InputLines(folder.write("p.jsonl", lines), true));
    return survey_prompts(source, context, model, nullptr);
  };
  const std::string good =
      R"({"prompt": "aba", "max_tokens": 4, "samples": 2}
         {"tokens": [1], "max_tokens": 9, "repeat_penalty": 2})";
  const PromptSurvey all = survey(good, {});
  CHECK(all.longest == 10);
  CHECK(all.sequences == 3);
  CHECK(all.tokens == 4 + 4 + 9);
  CHECK(all.prompt_tokens == 3 + 3 + 1);
  CHECK(all.penalties);
  CHECK(!all.conversations);
  CHECK(all.load().drawn_tokens == 5);
  CHECK_THROWS_WITH(survey(good, 9), ContainsSubstring("p.jsonl:2: the prompt has 1 tokens") &&
                                         ContainsSubstring("a sequence may have 9 (--context)"));
  CHECK_THROWS_WITH(survey(R"({"tokens": [6]})", {}), ContainsSubstring("is not one of"));
  CHECK_THROWS_WITH(survey(R"({"tokens": []})", {}), ContainsSubstring("has no token"));
  CHECK_THROWS_WITH(survey(R"({"id": 2, "tokens": [1]}
                              {"tokens": [1]})",
                           {}),
                    ContainsSubstring("p.jsonl:2: id \"2\" is that of"));
}

TEST_CASE("samples of prompts are handed out in order, but those that are done") {
  const Talker talker;
  const ScratchFolder folder;
  PromptSource source(talker.reading(),
                      InputLines(folder.write("p.jsonl", R"({"prompt": "a", "samples": 3}
                                                            {"prompt": "b"})"),
                                 true));
  const CompletionFile done(folder.write("out.jsonl", "{\"id\": \"1\", \"sample\": 1}\n"),
                            OldOutput::kResume);
  for (int reading = 0; reading < 2; ++reading) {
    PromptSamples samples(source, &done);
    std::vector<std::string> handed_out;
    while (const auto next = samples.next()) {
      handed_out.push_back(next->prompt.id + "/" + std::to_string(next->sample));
    }
    CHECK(handed_out == std::vector<std::string>{"1/0", "1/2", "2/0"});
    source.rewind();
  }
}

}  // namespace strata::test
