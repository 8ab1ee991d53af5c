// render_chat: renders conversations by a template, for compare_with_jinja.py and for looking at
// what has loss. Usage: render_chat TEMPLATE < CONVERSATIONS, of which each is a line of JSON with
// the keys of Conversation and of RenderOptions. Each answer is a line of JSON: {"text", "loss"}
// with the learnt pieces of text, or {"error"}.

#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/chat/assistant_spans.h"
#include "strata/chat/chat_template.h"

namespace {

using Json = nlohmann::json;

strata::RenderOptions options_of(const Json& line) {
  strata::RenderOptions options;
  if (line.contains("bos_token")) options.bos_token = line["bos_token"].get<std::string>();
  if (line.contains("eos_token")) options.eos_token = line["eos_token"].get<std::string>();
  if (line.contains("now_s")) options.now_s = line["now_s"].get<std::int64_t>();
  options.add_generation_prompt = line.value("add_generation_prompt", false);
  return options;
}

Json answer(const strata::ChatTemplate& chat_template, const std::string& line) {
  try {
    const auto conversation = strata::Conversation::parse(line, "standard input");
    const strata::RenderOptions options = options_of(strata::parse_json<Json>(line));
    const auto rendered = chat_template.render(conversation, options);
    Json loss = Json::array();
    for (const auto& span : assistant_spans(chat_template, conversation, options, rendered).spans) {
      loss.push_back(rendered.text.substr(span.begin, span.end - span.begin));
    }
    return {{"text", rendered.text}, {"loss", loss}};
  } catch (const strata::Error& error) {
    return {{"error", error.what()}};
  }
}

void run(const char* path) {
  constexpr std::size_t kMostBytes = 1u << 20;
  const auto chat_template =
      strata::ChatTemplate::parse(strata::read_text_file(path, kMostBytes), path);
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << strata::json_text(answer(chat_template, line)) << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: render_chat TEMPLATE < CONVERSATIONS\n", stderr);
    return 2;
  }
  try {
    run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
