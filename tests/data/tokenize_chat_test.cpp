// Token files of conversations: ids and loss against those of transformers, records of several
// kinds in one file, where templates come from, and what is refused.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/data/token_file.h"
#include "strata/data/tokenize.h"
#include "strata/data/tokenizer_folder.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/log_text.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

using nlohmann::json;

const json& goldens() {
  static const json loaded =
      test::read_json(test::tokenizer_goldens_folder() + "/conversations.json");
  return loaded;
}

/// A folder with the tokenizer of the goldens, its markers and, if it has one, a chat template.
struct ChatModel {
  explicit ChatModel(const std::string& chat_template = "") {
    json tokenizer = test::read_json(test::tokenizer_goldens_folder() + "/llama3.json");
    for (const auto& [marker, id] : goldens()["markers"].items()) {
      tokenizer["added_tokens"].push_back({{"id", id}, {"content", marker}, {"special", true}});
    }
    json config{{"bos_token", goldens()["bos_token"]}, {"eos_token", goldens()["eos_token"]}};
    if (!chat_template.empty()) config["chat_template"] = chat_template;
    folder.write("model/tokenizer.json", json_text(tokenizer));
    folder.write("model/tokenizer_config.json", json_text(config));
  }
  [[nodiscard]] TokenizeOptions options(const std::string& records) const {
    return {.inputs = {folder.write("chats.jsonl", records)},
            .output = folder.file("out.bin"),
            .tokenizer = folder.file("model")};
  }
  ScratchFolder folder{};
};

struct Tokens {
  Tokens() = default;
  explicit Tokens(const std::string& name) {
    const auto file = TokenFile::open(name);
    ids.resize(static_cast<std::size_t>(file->size()));
    loss.resize(ids.size(), 1);
    file->read(0, ids);
    if (file->has_loss()) file->read_loss(0, loss);
    file->document_ends_in(0, file->size(), ends);
  }
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> loss;
  std::vector<std::int64_t> ends;
};

std::string refusal_of_chats(const TokenizeOptions& options) {
  try {
    (void)tokenize(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

const std::string kAnswered =
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"
    "\n";
const std::string kUnanswered = R"({"messages": [{"role": "user", "content": "a"}]})"
                                "\n";

}  // namespace

TEST_CASE("ids and loss of conversations are those of transformers") {
  for (const auto& [name, forms] : goldens()["templates"].items()) {
    for (const char* form : {"plain", "marked"}) {
      INFO(name << ", " << form);
      const ChatModel model(forms[form]);
      std::string records;
      Tokens expected;
      for (const json& example : goldens()["cases"]) {
        if (example["template"] != name) continue;
        records += json_text(json{{"messages", example["messages"]}}) + "\n";
        for (const auto& id : example["ids"]) expected.ids.push_back(id.get<std::int32_t>());
        for (const auto& loss : example["loss"]) expected.loss.push_back(loss.get<std::uint8_t>());
        expected.ends.push_back(std::ssize(expected.ids));
      }
      REQUIRE(expected.ends.size() == 8);
      const TokenizeStatistics made = tokenize(model.options(records));
      const Tokens found(model.folder.file("out.bin"));
      CHECK(found.ids == expected.ids);
      CHECK(found.loss == expected.loss);
      CHECK(found.ends == expected.ends);
      CHECK(made.conversations == 8);
      CHECK(made.learnt_tokens == std::count(expected.loss.begin(), expected.loss.end(), 1));
    }
  }
}

TEST_CASE("records of ShareGPT and Alpaca are the conversations that their words say") {
  const ChatModel model(goldens()["templates"]["chatml"]["plain"].get<std::string>());
  struct Case {
    std::string record;
    std::string messages;  ///< the same as a conversation, written by hand
    std::string said;
  };
  const std::vector<Case> cases{
      {R"({"id": "x", "conversations": [{"from": "human", "value": "a"},
          {"from": "gpt", "value": "b"}]})",
       R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])",
       "ShareGPT's"},
      {R"({"system": "s", "conversations": [{"from": "user", "value": "a"},
          {"from": "assistant", "value": "b"}]})",
       R"([{"role": "system", "content": "s"}, {"role": "user", "content": "a"},
           {"role": "assistant", "content": "b"}])",
       "ShareGPT's"},
      {R"({"conversations": [{"role": "user", "content": "a"}, {"role": "model", "content": "b"}]})",
       R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])",
       "ShareGPT's"},
      {R"({"instruction": "do", "input": "", "output": "done"})",
       R"([{"role": "user", "content": "do"}, {"role": "assistant", "content": "done"}])",
       "Alpaca's"},
      {R"({"instruction": "do", "input": "this", "output": "done", "system": "s",
          "history": [["q", "r"]]})",
       R"([{"role": "system", "content": "s"}, {"role": "user", "content": "q"},
           {"role": "assistant", "content": "r"}, {"role": "user", "content": "do\n\nthis"},
           {"role": "assistant", "content": "done"}])",
       "Alpaca's"}};
  const auto on_one_line = [](std::string text) {
    std::ranges::replace(text, '\n', ' ');
    return text;
  };
  for (const Case& c : cases) {
    INFO(c.record);
    (void)tokenize(model.options("{\"messages\": " + on_one_line(c.messages) + "}"));
    const Tokens expected(model.folder.file("out.bin"));
    const bool alpaca = c.said == "Alpaca's";
    for (const InputFormat format :
         {InputFormat::kAuto, alpaca ? InputFormat::kAlpaca : InputFormat::kShareGpt}) {
      for (const std::string& text : {on_one_line(c.record), "[" + c.record + "]"}) {
        TokenizeOptions options = model.options(text);
        options.format = format;
        const test::LogText log;
        CHECK(tokenize(options).conversations == 1);
        const Tokens found(model.folder.file("out.bin"));
        CHECK(found.ids == expected.ids);
        CHECK(found.loss == expected.loss);
        CHECK_THAT(log.text(), ContainsSubstring("records are " + c.said));
      }
    }
  }
}

TEST_CASE("a pair becomes the conversations of both answers, of which the last turn has loss") {
  const ChatModel model(goldens()["templates"]["chatml"]["plain"].get<std::string>());
  const auto conversation = [](const std::string& answer) {
    return R"({"messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "train": false}, {"role": "user", "content": "c"},
        {"role": "assistant", "content": ")" +
           answer + "\"}]}";
  };
  const auto on_one_line = [](std::string text) {
    std::ranges::replace(text, '\n', ' ');
    return text + "\n";
  };
  (void)tokenize(model.options(on_one_line(conversation("yes")) + on_one_line(conversation("no"))));
  const Tokens expected(model.folder.file("out.bin"));
  const std::string said = R"([{"role": "user", "content": "a"},
      {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"})";
  const std::string answers = R"(, "chosen": [{"role": "assistant", "content": "yes"}],
      "rejected": [{"role": "assistant", "content": "no"}]})";
  for (const std::string& record :
       {"{\"prompt\": " + said + "]" + answers,
        "{\"prompt\": " + said + R"(], "chosen": "yes", "rejected": "no"})",
        "{\"prompt\": \"c\", \"chosen\": " + said +
            R"(, {"role": "assistant", "content": "yes"}], "rejected": )" + said +
            R"(, {"role": "assistant", "content": "no"}]})"}) {
    INFO(record);
    for (const InputFormat format : {InputFormat::kAuto, InputFormat::kPairs}) {
      TokenizeOptions options = model.options(on_one_line(record));
      options.format = format;
      const TokenizeStatistics made = tokenize(options);
      CHECK(made.documents == 2);
      const Tokens found(model.folder.file("out.bin"));
      CHECK(TokenFile::open(model.folder.file("out.bin"))->has_pairs());
      CHECK(found.ids == expected.ids);
      CHECK(found.loss == expected.loss);
      CHECK(found.ends == expected.ends);
    }
  }
}

TEST_CASE("pairs are not mixed with other documents, parted by shards, or without a prompt") {
  const ChatModel model(goldens()["templates"]["chatml"]["plain"].get<std::string>());
  const std::string pair = R"({"prompt": "a", "chosen": "yes", "rejected": "no"})"
                           "\n";
  CHECK_THAT(refusal_of_chats(model.options(pair + kAnswered)),
             ContainsSubstring("mix pairs of answers with other documents"));
  CHECK_THAT(refusal_of_chats(model.options(R"({"chosen": "yes", "rejected": "no"})")),
             ContainsSubstring("chats.jsonl:1: ") && ContainsSubstring("has no prompt"));
  const std::string equal = R"({"prompt": "a", "chosen": "yes", "rejected": "yes"})"
                            "\n";
  CHECK(tokenize(model.options(pair + equal)).conversations_without_loss == 1);
  TokenizeOptions options = model.options(pair + pair);
  options.shard_tokens = 1;
  CHECK(tokenize(options).shards == 2);
}

TEST_CASE("what a record of ShareGPT or Alpaca does not say is not guessed") {
  const ChatModel model(goldens()["templates"]["chatml"]["plain"].get<std::string>());
  const std::vector<std::tuple<InputFormat, std::string, std::string>> cases{
      {InputFormat::kAuto, R"({"conversations": [{"from": "narrator", "value": "a"}]})",
       "the speaker narrator is not known"},
      {InputFormat::kAuto, R"({"conversations": [{"from": "human", "value": 3}]})",
       "the field value is no text: 3"},
      {InputFormat::kAuto, R"({"conversations": [{"from": "human"}]})", "has no field value"},
      {InputFormat::kAuto, R"({"conversations": "a"})", "has no list conversations"},
      {InputFormat::kShareGpt, R"({"text": "a"})", "has no list conversations"},
      {InputFormat::kAlpaca, R"({"text": "a"})", "has no field instruction"},
      {InputFormat::kAlpaca, R"({"instruction": "a", "output": ["b"]})",
       R"(the field output is no text: ["b"])"},
      {InputFormat::kAuto, R"({"instruction": "a", "output": "b", "history": [["c"]]})",
       "an entry of history is no pair of texts"},
      {InputFormat::kAuto,
       R"({"messages": [{"role": "user", "content": "a"},
           {"role": "assistant", "content": "b\u0000c"}]})",
       "has a zero byte"}};
  for (const auto& [format, record, problem] : cases) {
    INFO(record);
    std::string line = record;
    std::ranges::replace(line, '\n', ' ');
    TokenizeOptions options = model.options(line);
    options.format = format;
    CHECK_THAT(refusal_of_chats(options),
               ContainsSubstring("chats.jsonl:1: ") && ContainsSubstring(problem));
  }
  // A text beside them, which Alpaca's own file has, is the document that it says it is.
  (void)tokenize(model.options(R"({"instruction": "a", "output": "b", "text": "t"})"));
  const Tokens found(model.folder.file("out.bin"));
  CHECK(std::ranges::count(found.loss, 1) == std::ssize(found.loss));
}

TEST_CASE("a file may hold conversations and documents, with the same bytes on any threads") {
  const ChatModel model(goldens()["templates"]["chatml"]["plain"].get<std::string>());
  std::string records;
  for (int i = 0; i < 400; ++i) {
    const std::string number = std::to_string(i);
    const json user{{"role", "user"}, {"content", "number " + number}};
    const json assistant{{"role", "assistant"}, {"content", std::string(1 + i * 7 % 301, 'x')}};
    records += json_text(json{{"messages", {user, assistant}}, {"id", i}}) + "\n";
    records += json_text(json{{"text", "a plain text, " + number}}) + "\n\n";
    records += json_text(json{{"prompt", "question " + number}, {"completion", "answer"}}) + "\n";
  }
  TokenizeOptions options = model.options(records);
  options.validation_fraction = 0.25;
  options.validation_output = model.folder.file("held.bin");
  options.threads = 1;
  const TokenizeStatistics made = tokenize(options);
  CHECK(made.documents + made.validation_documents == 1200);
  CHECK(made.conversations == 800);
  CHECK(made.validation_documents > 200);
  CHECK(made.learnt_tokens < made.tokens);
  CHECK(made.validation_learnt_tokens < made.validation_tokens);
  const auto bytes = [](const std::string& file) { return read_text_file(file, 1U << 30); };
  const std::string training = bytes(options.output);
  const std::string validation = bytes(options.validation_output);
  options.threads = 3;
  (void)tokenize(options);
  CHECK(bytes(options.output) == training);
  CHECK(bytes(options.validation_output) == validation);

  // The text field alone, and a field of that name where conversations are taken too.
  options = model.options(R"({"messages": 3, "body": "words"})");
  options.text_field = "body";
  CHECK(tokenize(options).conversations == 0);
  const Tokens text(options.output);
  CHECK(std::count(text.loss.begin(), text.loss.end(), 0) == 0);
  CHECK(tokenize(model.options(R"({"prompt": "no answer", "text": "words"})")).conversations == 0);
}

TEST_CASE("conversations without loss are left out and counted") {
  const ChatModel model(goldens()["templates"]["chatml"]["plain"].get<std::string>());
  TokenizeOptions options = model.options(kUnanswered + kAnswered + kUnanswered);
  const TokenizeStatistics made = tokenize(options);
  CHECK(made.conversations == 3);
  CHECK(made.conversations_without_loss == 2);
  CHECK(made.documents == 1);
  options.loss = ChatLoss::kAll;
  const TokenizeStatistics all = tokenize(options);
  CHECK(all.conversations_without_loss == 0);
  CHECK(all.documents == 3);
  CHECK(all.learnt_tokens == all.tokens);
  CHECK_THAT(refusal_of_chats(model.options(kUnanswered)),
             ContainsSubstring("out.bin: no text for it"));
}

TEST_CASE("a template is the model's own, a built-in one or a file") {
  const ChatModel own(goldens()["templates"]["llama3"]["plain"].get<std::string>());
  const auto tokens = [&](const ChatModel& model, const std::string& chat_template) {
    TokenizeOptions options = model.options(kAnswered);
    options.chat_template = chat_template;
    (void)tokenize(options);
    return Tokens(options.output).ids;
  };
  const auto llama3 = tokens(own, "");
  CHECK(tokens(own, "llama3") == llama3);
  const auto chatml = tokens(own, "chatml");
  CHECK(chatml != llama3);
  const std::string file =
      own.folder.write("own.jinja", goldens()["templates"]["chatml"]["plain"].get<std::string>());
  CHECK(tokens(own, file) == chatml);
  // A file of its own goes before the config, as in transformers.
  own.folder.write("model/chat_template.jinja",
                   goldens()["templates"]["chatml"]["plain"].get<std::string>());
  CHECK(tokens(own, "") == chatml);
}

TEST_CASE("tokenizer, template and the end of answers lie beside a token file of conversations") {
  const ChatModel model("{{ messages[0].content }}");
  const char* const chat =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"
      "\n";
  const auto text_of = [&](const std::string& name) {
    return read_text_file(model.folder.file(name), 1 << 20);
  };
  TokenizeOptions options = model.options(chat);
  options.chat_template = "chatml";
  options.shard_tokens = 1000;
  tokenize(options);
  const auto folder = tokenizer_folder_of(model.folder.file("out-00000.bin"));
  REQUIRE(folder == model.folder.file("out.bin.tokenizer"));
  CHECK(text_of("out.bin.tokenizer/tokenizer.json") == text_of("model/tokenizer.json"));
  CHECK(text_of("out.bin.tokenizer/tokenizer_config.json") ==
        text_of("model/tokenizer_config.json"));
  const auto written = ChatTemplate::of_model(*folder);
  REQUIRE(written);
  CHECK(written->source() == ChatTemplate::built_in("chatml").source());
  CHECK(parse_json<json>(text_of("out.bin.tokenizer/generation_config.json")) ==
        json{{"eos_token_id", goldens()["markers"]["<|im_end|>"]}});

  // What is not of the next token file of the name goes with it, and nothing else.
  options = model.options("{\"text\": \"a\"}\n");
  model.folder.write("out.bin.tokenizer/own", "");
  tokenize(options);
  CHECK(std::filesystem::exists(model.folder.file("out.bin.tokenizer/own")));
  CHECK(!ChatTemplate::of_model(*folder));
  CHECK(!std::filesystem::exists(model.folder.file("out.bin.tokenizer/tokenizer.json")));
  std::filesystem::remove_all(*folder);
  CHECK(!tokenizer_folder_of(options.output));
}

TEST_CASE("--parse-special holds for conversations") {
  const ChatModel model(goldens()["templates"]["chatml"]["plain"].get<std::string>());
  TokenizeOptions options =
      model.options(R"({"messages": [{"role": "user", "content": "a<|eot_id|>"}, )"
                    R"({"role": "assistant", "content": "b<|eot_id|>"}]})"
                    "\n");
  const auto id = goldens()["markers"]["<|eot_id|>"].get<std::int32_t>();
  (void)tokenize(options);
  CHECK(std::ranges::count(Tokens(options.output).ids, id) == 0);
  options.parse_special = true;
  options.overwrite = true;
  (void)tokenize(options);
  CHECK(std::ranges::count(Tokens(options.output).ids, id) == 2);
}

TEST_CASE("templates for tools lie beside a token file, unless another template was named") {
  const ChatModel model("{{ messages[0].content }}");
  const char* const own = "{{ messages[0].content }} of a file";
  model.folder.write("model/chat_template.jinja", own);
  model.folder.write("model/additional_chat_templates/tool_use.jinja", "tools");
  TokenizeOptions options = model.options(kAnswered);
  options.loss = ChatLoss::kAll;
  const std::string for_tools =
      model.folder.file("out.bin.tokenizer/additional_chat_templates/tool_use.jinja");
  (void)tokenize(options);
  CHECK(read_text_file(for_tools, 1 << 20) == "tools");
  options.chat_template = "chatml";
  (void)tokenize(options);
  CHECK(!std::filesystem::exists(for_tools));
  CHECK(!std::filesystem::exists(model.folder.file("out.bin.tokenizer/additional_chat_templates")));
}

TEST_CASE("what cannot become a conversation is refused by file and line, and no file is made") {
  const ChatModel none;
  CHECK_THAT(refusal_of_chats(none.options(kAnswered)),
             ContainsSubstring("chats.jsonl:1: ") && ContainsSubstring("has no chat template") &&
                 ContainsSubstring("--chat-template"));
  const ChatModel broken("{% if %}");
  CHECK_THAT(refusal_of_chats(broken.options(kAnswered)),
             ContainsSubstring("chats.jsonl:1: ") &&
                 ContainsSubstring("tokenizer_config.json: $.chat_template:1") &&
                 ContainsSubstring("--chat-template"));
  CHECK(tokenize(broken.options(R"({"text": "words"})")).documents == 1);

  const ChatModel model(goldens()["templates"]["chatml"]["plain"].get<std::string>());
  const auto refusal = [&](const std::string& line) {
    return refusal_of_chats(model.options(kAnswered + "\n" + line));
  };
  CHECK_THAT(refusal(R"({"messages": "a"})"),
             ContainsSubstring("chats.jsonl:3: ") && ContainsSubstring("must be a list"));
  CHECK_THAT(refusal(R"({"messages": [{"content": "a"}]})"),
             ContainsSubstring("chats.jsonl:3: ") && ContainsSubstring("has no \"role\""));
  CHECK_THAT(refusal(R"({"prompt": 1, "completion": "a"})"),
             ContainsSubstring("chats.jsonl:3: ") && ContainsSubstring("\"prompt\" must be"));
  TokenizeOptions options = model.options(
      R"({"messages": [{"role": "judge", "content": "a"}, {"role": "assistant", "content": "b"}]})");
  options.chat_template = "mistral";
  CHECK_THAT(refusal_of_chats(options),
             ContainsSubstring("chats.jsonl:1: ") && ContainsSubstring("not judge"));
  options.chat_template = "nowhere";
  CHECK_THAT(refusal_of_chats(options),
             ContainsSubstring("nowhere") && ContainsSubstring("chatml"));
  options.tokenizer.clear();
  CHECK_THAT(refusal_of_chats(options), ContainsSubstring("are for --tokenizer"));
  options.chat_template.clear();
  CHECK_THAT(refusal_of_chats(options),
             ContainsSubstring("chats.jsonl:1: ") && ContainsSubstring("--tokenizer"));
  CHECK(model.folder.entries() == 2);  // the model and the records
}

TEST_CASE("markers for which the tokenizer has no token are found") {
  const ChatModel model;
  const auto tokenizer = Tokenizer::load(model.folder.file("model"));
  const auto missing = [&](const char* source) {
    const ChatTemplate chat_template = ChatTemplate::parse(source, "test");
    return ConversationEncoder(*tokenizer, chat_template, ChatLoss::kAssistant)
        .markers_without_token();
  };
  CHECK(
      missing("{{ bos_token }}<|im_start|>{% for m in messages %}<|im_end|>{% endfor %}").empty());
  CHECK(missing("{% for m in messages %}<|{{ m.role }}|><|eot_id|>{% endfor %}<|open") ==
        std::vector<std::string>{"<|user|>", "<|assistant|>"});
  CHECK(missing("{{ raise_exception('no') }}").empty());
}

TEST_CASE("documents can be shown instead of written") {
  const ChatModel model(goldens()["templates"]["chatml"]["plain"].get<std::string>());
  TokenizeOptions options = model.options(kAnswered + R"({"text": "words"})" + "\n" + kAnswered);
  (void)tokenize(options);
  const Tokens written(options.output);
  const std::size_t entries = model.folder.entries();
  options.output.clear();
  std::vector<std::string> names;
  std::vector<std::int32_t> ids;
  options.show = [&](const EncodedDocument& document, const Tokenizer* tokenizer) {
    REQUIRE(tokenizer != nullptr);
    CHECK(document.loss.size() == document.ids.size());
    names.push_back(document.name);
    ids.insert(ids.end(), document.ids.begin(), document.ids.end());
    return names.size() < 2;
  };
  (void)tokenize(options);
  REQUIRE(names.size() == 2);
  CHECK(names[0] == options.inputs[0] + ":1");
  CHECK(names[1] == options.inputs[0] + ":2");
  REQUIRE(ids.size() == static_cast<std::size_t>(written.ends.at(1)));
  CHECK(std::equal(ids.begin(), ids.end(), written.ids.begin()));
  CHECK(model.folder.entries() == entries);
}

}  // namespace strata
