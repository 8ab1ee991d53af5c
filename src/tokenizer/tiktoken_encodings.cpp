// Lists the encodings of tiktoken whose vocabularies are known. Special tokens are those that the
// models' own programs list: llama_models for Llama 3 and 4, dashscope for Qwen, tiktoken for the
// encodings of OpenAI.

#include "tokenizer/tiktoken_encodings.h"

#include <string>
#include <utility>

#include "tokenizer/sha256.h"

namespace strata {
namespace {

using Special = ByteVocabulary::Special;

/// Special tokens in a row.
class SpecialList {
 public:
  explicit SpecialList(std::size_t first_id) : next_(static_cast<std::int32_t>(first_id)) {}

  SpecialList& add(std::string text) {
    tokens_.push_back({.text = std::move(text), .id = next_++});
    return *this;
  }
  /// Adds <|NAME_N|> for `count` numbers from `first` on.
  SpecialList& add_numbered(const std::string& name, int first, int count) {
    for (int n = first; n < first + count; ++n) add("<|" + name + '_' + std::to_string(n) + "|>");
    return *this;
  }
  std::vector<Special> take() { return std::move(tokens_); }

 private:
  std::int32_t next_;
  std::vector<Special> tokens_{};
};

void add_llama3(ByteVocabulary& v) {
  SpecialList list(v.tokens.size());
  list.add("<|begin_of_text|>").add("<|end_of_text|>").add_numbered("reserved_special_token", 0, 2);
  for (const char* name : {"finetune_right_pad_id", "step_id", "start_header_id", "end_header_id",
                           "eom_id", "eot_id", "python_tag", "image"}) {
    list.add("<|" + std::string(name) + "|>");
  }
  list.add_numbered("reserved_special_token", 2, 244);
  v.pattern = SplitPattern::kLlama3;
  v.special = list.take();
  v.bos = "<|begin_of_text|>";
  v.eos = "<|end_of_text|>";
}

void add_llama4(ByteVocabulary& v) {
  const std::string text = "text_post_train_reserved_special_token";
  const std::string vision = "vision_reserved_special_token";
  const std::string reasoning = "reasoning_reserved_special_token";
  SpecialList list(v.tokens.size());
  for (const char* name : {"begin_of_text", "end_of_text", "fim_prefix", "fim_middle", "fim_suffix",
                           "header_start", "header_end", "eom", "eot", "step"}) {
    list.add("<|" + std::string(name) + "|>");
  }
  list.add_numbered(text, 0, 6).add("<|python_start|>").add("<|python_end|>");
  list.add("<|finetune_right_pad|>").add_numbered(text, 8, 61);
  list.add("<|image_start|>").add("<|image_end|>").add_numbered(vision, 0, 2);
  list.add("<|tile_x_separator|>").add("<|tile_y_separator|>").add_numbered(vision, 2, 4);
  list.add("<|image|>").add_numbered(vision, 6, 1).add("<|patch|>").add_numbered(vision, 7, 1041);
  list.add_numbered(reasoning, 0, 8);
  list.add("<|reasoning_thinking_start|>").add("<|reasoning_thinking_end|>");
  list.add_numbered("reserved_special_token", 0, 904);
  v.pattern = SplitPattern::kO200k;
  v.special = list.take();
  v.bos = "<|begin_of_text|>";
  v.eos = "<|end_of_text|>";
}

void add_qwen(ByteVocabulary& v) {
  SpecialList list(v.tokens.size());
  list.add("<|endoftext|>").add("<|im_start|>").add("<|im_end|>").add_numbered("extra", 0, 205);
  v.pattern = SplitPattern::kQwen2;
  v.normal = ByteVocabulary::Normal::kNfc;
  v.special = list.take();
  v.eos = "<|endoftext|>";
}

void add_cl100k(ByteVocabulary& v) {
  v.pattern = SplitPattern::kCl100k;
  v.special = {{"<|endoftext|>", 100257},
               {"<|fim_prefix|>", 100258},
               {"<|fim_middle|>", 100259},
               {"<|fim_suffix|>", 100260},
               {"<|endofprompt|>", 100276}};
  v.eos = "<|endoftext|>";
}

void add_o200k(ByteVocabulary& v) {
  v.pattern = SplitPattern::kO200k;
  v.special = {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}};
  v.eos = "<|endoftext|>";
}

struct KnownFile {
  std::string_view sha256;
  void (*complete)(ByteVocabulary& vocabulary);
};

constexpr KnownFile kFiles[] = {
    {"82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55", add_llama3},
    {"d0bdbaf59b0762c8c807617e2d8ea51420eb1b1de266df2495be755c8e0ed6ed", add_llama4},
    {"b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186", add_qwen},
    {"223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7", add_cl100k},
    {"446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d", add_o200k}};

}  // namespace

bool complete_tiktoken_encoding(std::string_view contents, ByteVocabulary& vocabulary) {
  const std::string sha256 = sha256_of(contents);
  for (const KnownFile& known : kFiles) {
    if (known.sha256 != sha256) continue;
    known.complete(vocabulary);
    return true;
  }
  return false;
}

}  // namespace strata
