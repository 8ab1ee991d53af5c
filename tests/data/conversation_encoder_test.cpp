// Ids and loss of three-turn conversations, written out by hand for the ways in which models'
// templates frame turns; texts of special tokens in messages; and token files of both.

#include "strata/data/conversation_encoder.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/data/token_file.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

using Pieces = std::vector<std::string>;

/// The tokenizer of the goldens with the markers of chats, which begin at id 604.
std::unique_ptr<const Tokenizer> chat_tokenizer(const ScratchFolder& folder) {
  nlohmann::json json = test::read_json(test::tokenizer_goldens_folder() + "/llama3.json");
  int id = 604;
  for (const char* marker :
       {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
        "<|im_start|>", "<|im_end|>", "[INST]", "[/INST]", "<|user|>", "<|assistant|>"}) {
    json["added_tokens"].push_back({{"id", id++}, {"content", marker}, {"special", true}});
  }
  folder.write("tokenizer.json", json_text(json));
  folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  return Tokenizer::load(folder.file("tokenizer.json"));
}

/// Returns the texts of the runs of tokens whose loss counts.
Pieces learnt(const Tokenizer& tokenizer, const EncodedConversation& encoded) {
  REQUIRE(encoded.ids.size() == encoded.loss.size());
  CHECK(tokenizer.decode(encoded.ids) == encoded.text);
  Pieces pieces;
  for (std::size_t i = 0; i < encoded.ids.size(); ++i) {
    if (encoded.loss[i] == 0) continue;
    if (i == 0 || encoded.loss[i - 1] == 0) pieces.emplace_back();
    pieces.back() += tokenizer.decode(std::vector{encoded.ids[i]});
  }
  return pieces;
}

struct Chat {
  ScratchFolder folder{};
  std::unique_ptr<const Tokenizer> tokenizer = chat_tokenizer(folder);

  [[nodiscard]] EncodedConversation encode(const ChatTemplate& chat_template,
                                           const std::string& json,
                                           ChatLoss loss = ChatLoss::kAssistant) const {
    const ConversationEncoder encoder(*tokenizer, chat_template, loss);
    EncodeCache cache;
    return encoder.encode(Conversation::parse(json, "test"), cache);
  }
  [[nodiscard]] Pieces learnt_by(const ChatTemplate& chat_template, const std::string& json,
                                 ChatLoss loss = ChatLoss::kAssistant) const {
    return learnt(*tokenizer, encode(chat_template, json, loss));
  }
  [[nodiscard]] std::int64_t count(const EncodedConversation& encoded, const char* token) const {
    return std::count(encoded.ids.begin(), encoded.ids.end(), tokenizer->id_of(token).value());
  }
};

const char* const kThreeTurns = R"([{"role": "user", "content": "One?"},
    {"role": "assistant", "content": "First one."}, {"role": "user", "content": "Two?"},
    {"role": "assistant", "content": "Second."}, {"role": "user", "content": "Three?"},
    {"role": "assistant", "content": "Third."}])";

}  // namespace

TEST_CASE("a message of weight 0, or not to train on, has no loss") {
  const Chat chat;
  const auto chatml = ChatTemplate::built_in("chatml");
  const auto turns = [](const std::string& of_first, const std::string& of_question) {
    return R"([{"role": "user", "content": "One?"},
        {"role": "assistant", "content": "First one.", )" +
           of_first + R"(}, {"role": "user", "content": "Two?", )" + of_question +
           R"(}, {"role": "assistant", "content": "Second.", "weight": 1, "train": true}])";
  };
  for (const std::string none : {R"("weight": 0)", R"("train": false)", R"("weight": 0.0)"}) {
    INFO(none);
    const std::string json = turns(none, R"("weight": null)");
    CHECK(chat.learnt_by(chatml, json) == Pieces{"Second.<|im_end|>"});
    CHECK(chat.learnt_by(chatml, json, ChatLoss::kAll) ==
          Pieces{"<|im_start|>user\nOne?<|im_end|>\n<|im_start|>assistant\n",
                 "\n<|im_start|>user\nTwo?<|im_end|>\n<|im_start|>assistant\nSecond.<|im_end|>\n"});
  }
  const std::string question = turns(R"("weight": 1)", R"("train": false)");
  CHECK(chat.learnt_by(chatml, question) == Pieces{"First one.<|im_end|>", "Second.<|im_end|>"});
  CHECK(chat.learnt_by(chatml, question, ChatLoss::kAll).size() == 2);
  CHECK_THROWS_WITH(chat.learnt_by(chatml, turns(R"("weight": 0.5)", R"("train": true)")),
                    ContainsSubstring("message 1: \"weight\" is 0.5, and must be 0 or 1"));
}

TEST_CASE("what a template writes at the very end has no loss where a message shows nothing") {
  const Chat chat;
  const auto quiet = ChatTemplate::parse(
      "{% for m in messages %}{% if m.content %}<|im_start|>{{ m.role }}\n{{ m.content "
      "}}<|im_end|>\n"
      "{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% else %}</s>"
      "{% endif %}",
      "test");
  CHECK(chat.learnt_by(quiet, R"([{"role": "user", "content": "One?"},
      {"role": "assistant", "content": "First."}, {"role": "user", "content": ""}])") ==
        Pieces{"First.<|im_end|>"});
}

TEST_CASE("answers and the ends of turns have loss, by whatever markers") {
  const Chat chat;
  const auto of = [&](const char* name) {
    return chat.learnt_by(ChatTemplate::built_in(name), kThreeTurns);
  };
  CHECK(of("llama3") == Pieces{"First one.<|eot_id|>", "Second.<|eot_id|>", "Third.<|eot_id|>"});
  CHECK(of("chatml") == Pieces{"First one.<|im_end|>", "Second.<|im_end|>", "Third.<|im_end|>"});
  CHECK(of("mistral") == Pieces{" First one.</s>", " Second.</s>", " Third.</s>"});
  // Markers that are made of a role are special tokens too.
  const auto of_roles = ChatTemplate::parse(
      "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}"
      "{{ eos_token if m.role == 'assistant' }}{% endfor %}"
      "{{ '<|assistant|>' if add_generation_prompt }}",
      "test");
  CHECK(chat.learnt_by(of_roles, kThreeTurns) ==
        Pieces{"First one.</s>", "Second.</s>", "Third.</s>"});
  CHECK(chat.count(chat.encode(of_roles, kThreeTurns), "<|assistant|>") == 3);
}

TEST_CASE("loss on the completion is loss on the last message, loss on all on everything") {
  const Chat chat;
  const ChatTemplate chatml = ChatTemplate::built_in("chatml");
  CHECK(chat.learnt_by(chatml, kThreeTurns, ChatLoss::kCompletion) == Pieces{"Third.<|im_end|>"});
  const EncodedConversation all = chat.encode(chatml, kThreeTurns, ChatLoss::kAll);
  CHECK(learnt(*chat.tokenizer, all) == Pieces{all.text});
  const auto unanswered = R"([{"role": "assistant", "content": "a"},
      {"role": "user", "content": "b"}])";
  CHECK(!chat.encode(chatml, unanswered, ChatLoss::kCompletion).teaches());
  CHECK(chat.encode(chatml, unanswered).teaches());
  CHECK(parse_chat_loss("completion") == ChatLoss::kCompletion);
  CHECK_THROWS_WITH(parse_chat_loss("some"), ContainsSubstring("assistant, completion or all"));
}

TEST_CASE("texts of special tokens in messages stay text") {
  const Chat chat;
  const auto hostile = R"([{"role": "user", "content": "a<|eot_id|>b<|start_header_id|>"},
      {"role": "assistant", "content": "<|eot_id|>c"}])";
  const EncodedConversation encoded = chat.encode(ChatTemplate::built_in("llama3"), hostile);
  CHECK(chat.count(encoded, "<|eot_id|>") == 2);
  CHECK(chat.count(encoded, "<|start_header_id|>") == 2);
  CHECK(learnt(*chat.tokenizer, encoded) == Pieces{"<|eot_id|>c<|eot_id|>"});
  const auto as_role = R"([{"role": "<|im_end|>", "content": "x"}])";
  CHECK(chat.count(chat.encode(ChatTemplate::built_in("chatml"), as_role), "<|im_end|>") == 1);
}

TEST_CASE("texts of special tokens in messages are tokens if that is asked for") {
  const Chat chat;
  const auto chatml = ChatTemplate::built_in("chatml");
  const ConversationEncoder encoder(*chat.tokenizer, chatml, ChatLoss::kAssistant,
                                    SpecialTextsOf::kAll);
  const auto turns = Conversation::parse(R"([{"role": "user", "content": "a<|user|>"},
      {"role": "assistant", "content": "b<|user|>c"}])",
                                         "test");
  EncodeCache cache;
  const EncodedConversation encoded = encoder.encode(turns, cache);
  CHECK(chat.count(encoded, "<|user|>") == 2);
  CHECK(learnt(*chat.tokenizer, encoded) == Pieces{"b<|user|>c<|im_end|>"});
  const auto user = chat.tokenizer->id_of("<|user|>").value();
  CHECK(std::ranges::count(encoder.encode_prompt(turns, cache), user) == 2);
}

TEST_CASE("templates get the special tokens that files name, as transformers gives them") {
  const nlohmann::json golden =
      test::read_json(test::tokenizer_goldens_folder() + "/special_tokens.json");
  for (const auto& [name, expected] : golden["cases"].items()) {
    INFO(name);
    const ScratchFolder folder;
    folder.write("tokenizer.json",
                 json_text(test::read_json(test::tokenizer_goldens_folder() + "/llama3.json")));
    for (const auto& [file, content] : expected["files"].items()) {
      folder.write(file, content.is_string() ? content.get<std::string>() : json_text(content));
    }
    const auto tokenizer = Tokenizer::load(folder.file("tokenizer.json"));
    const auto chat_template = ChatTemplate::of_model(folder.file("."));
    REQUIRE(chat_template);
    const ConversationEncoder encoder(*tokenizer, *chat_template, ChatLoss::kAll);
    nlohmann::json record{{"messages", golden["messages"]}};
    const auto rendered = [&] {
      EncodeCache cache;
      return encoder.encode(Conversation::parse(json_text(record), "test"), cache).text;
    };
    CHECK(rendered() == expected["without_tools"].get<std::string>());
    record["tools"] = golden["tools"];
    CHECK(rendered() == expected["with_tools"].get<std::string>());
  }
}

TEST_CASE("a token with any learnt text has loss, and bos is what the template writes") {
  const Chat chat;
  // The space before an answer is the template's, and one token with the word behind it.
  const auto spaced = ChatTemplate::parse(
      "{{ bos_token }}{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}"
      "{{ 'assistant: ' if add_generation_prompt }}",
      "test");
  const auto turns = R"([{"role": "user", "content": "a"}, {"role": "assistant",
      "content": "the"}])";
  const EncodedConversation encoded = chat.encode(spaced, turns);
  CHECK(chat.count(encoded, "<s>") == 1);
  CHECK(encoded.ids.front() == chat.tokenizer->id_of("<s>"));
  CHECK(learnt(*chat.tokenizer, encoded) == Pieces{" the"});
}

TEST_CASE("a prompt and its completion are a question and its answer") {
  const Chat chat;
  const ChatTemplate chatml = ChatTemplate::built_in("chatml");
  const EncodedConversation texts = chat.encode(chatml, R"({"prompt": "a", "completion": "b"})");
  CHECK(texts.text == "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n");
  CHECK(learnt(*chat.tokenizer, texts) == Pieces{"b<|im_end|>"});
  const EncodedConversation lists =
      chat.encode(chatml, R"({"prompt": [{"role": "user", "content": "a"}],
                  "completion": [{"role": "assistant", "content": "b"}]})");
  CHECK(lists.ids == texts.ids);
  CHECK(lists.loss == texts.loss);
  CHECK_THROWS_WITH(Conversation::parse(R"({"prompt": "a"})", "a.jsonl:3"),
                    ContainsSubstring("a.jsonl:3") && ContainsSubstring("\"completion\""));
  CHECK_THROWS_WITH(Conversation::parse(R"({"prompt": 1, "completion": "b"})", "x"),
                    ContainsSubstring("\"prompt\" must be a text or a list of messages"));
}

TEST_CASE("the end of an answer is the first added token behind its words") {
  const Chat chat;
  const auto end_by = [&](const ChatTemplate& chat_template, const Tokenizer& tokenizer) {
    return ConversationEncoder(tokenizer, chat_template, ChatLoss::kAll).turn_end();
  };
  const auto end_of = [&](const char* source) {
    return end_by(ChatTemplate::parse(source, "test"), *chat.tokenizer);
  };
  const std::vector<std::pair<std::string, std::string>> known{
      {"chatml", "<|im_end|>"}, {"llama2", "</s>"}, {"llama3", "<|eot_id|>"}, {"mistral", "</s>"}};
  REQUIRE(known.size() == ChatTemplate::built_in_names().size());
  for (const auto& [name, token] : known) {
    CAPTURE(name);
    CHECK(end_by(ChatTemplate::built_in(name), *chat.tokenizer) ==
          TurnEnd{.id = chat.tokenizer->id_of(token), .text = token});
  }
  // What stands before the words, or begins the next turn, ends nothing.
  CHECK(end_of("{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}{% endfor %}") ==
        TurnEnd{});
  CHECK(end_of("{% for m in messages %}{{ m.content }} ### {% endfor %}") ==
        TurnEnd{.id = std::nullopt, .text = "###"});
  CHECK(end_of("{{ raise_exception('no') }}") == TurnEnd{});
  const auto bare = Tokenizer::load(test::tokenizer_goldens_folder() + "/llama3.json");
  CHECK(end_by(ChatTemplate::built_in("chatml"), *bare) ==
        TurnEnd{.id = std::nullopt, .text = "<|im_end|>"});
}

TEST_CASE("token files keep the loss of conversations") {
  const Chat chat;
  const EncodedConversation encoded = chat.encode(ChatTemplate::built_in("llama3"), kThreeTurns);
  const std::string name = chat.folder.file("chat.bin");
  TokenFileWriter writer(name, {.type = token_type_for(chat.tokenizer->vocabulary()),
                                .vocabulary = chat.tokenizer->vocabulary(),
                                .tokenizer_hash = chat.tokenizer->hash()});
  writer.append(encoded.ids, encoded.loss);
  writer.end_document();
  writer.close();
  writer.publish();
  const auto file = TokenFile::open(name);
  REQUIRE(file->has_loss());
  std::vector<std::uint8_t> loss(encoded.loss.size());
  file->read_loss(0, loss);
  CHECK(loss == encoded.loss);
}

}  // namespace strata
