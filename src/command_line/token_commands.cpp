// The commands about texts, token files and tokenizers.

#include "command_line/sub_commands.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "command_line/number_range.h"
#include "strata/commands/commands.h"
#include "strata/data/tokenize.h"

namespace strata {

namespace {

/// What `tokenize` is told.
struct TokenizeArguments {
  TokenizeOptions tokenize;
  std::int64_t show = 0;
};

InputFormat format_named(const std::string& text) {
  return text == "text"       ? InputFormat::kText
         : text == "jsonl"    ? InputFormat::kRecords
         : text == "sharegpt" ? InputFormat::kShareGpt
         : text == "alpaca"   ? InputFormat::kAlpaca
         : text == "pairs"    ? InputFormat::kPairs
                              : InputFormat::kAuto;
}

/// Declares what inputs are taken for. `names` has the words, `more` what is said of others than
/// auto, text and jsonl.
void add_format(CLI::App& command, InputFormat& format, const std::vector<std::string>& names,
                const std::string& more) {
  std::string words;
  for (const std::string& name : names) words += (words.empty() ? "" : "|") + name;
  command
      .add_option_function<std::string>(
          "--format", [&format](const std::string& text) { format = format_named(text); },
          "text, also if it looks like JSON or another format; jsonl: a record on each line, or a "
          "list of them; " +
              more + "auto: by names and first bytes")
      ->check(CLI::IsMember(names))
      ->type_name(words);
}

void add_tokenize(CLI::App& app, const std::shared_ptr<TokenizeArguments>& options,
                  Action& action) {
  CLI::App& tokenize = *app.add_subcommand(
      "tokenize",
      "Make token files of UTF-8 text, by bytes (vocabulary 257) or with a model's tokenizer");
  tokenize
      .add_option(
          "input", options->tokenize.inputs,
          "files of text or JSON lines, also compressed by gzip or zstd, or of Parquet; folders "
          "to search; - for standard input")
      ->required();
  tokenize.add_option("--output", options->tokenize.output, "token file of the training set")
      ->type_name("FILE");
  tokenize
      .add_option("--validation-output", options->tokenize.validation_output,
                  "token file of the validation set")
      ->type_name("FILE");
  tokenize
      .add_option(
          "--validation-fraction", options->tokenize.validation_fraction,
          "share of the tokens that goes to the validation set, in whole documents that their "
          "hash picks")
      ->check(number(0, 1))
      ->type_name("0..1");
  tokenize
      .add_option("--extension", options->tokenize.extensions,
                  "ending of the files taken from folders, before .gz or .zst, instead of .txt "
                  ".text .md .rst; may be repeated")
      ->type_name(".EXT")
      ->allow_extra_args(false);
  CLI::Option* const tokenizer =
      tokenize
          .add_option("--tokenizer", options->tokenize.tokenizer,
                      "the file of a model's tokenizer, or its folder, instead of bytes")
          ->type_name("PATH");
  const auto add_put = [&](const char* name, PutToken& put, const char* description) {
    const auto set = [&put](const std::string& text) {
      put = text == "yes" ? PutToken::kAlways : text == "no" ? PutToken::kNever : PutToken::kAuto;
    };
    tokenize.add_option_function<std::string>(name, set, description)
        ->needs(tokenizer)
        ->check(CLI::IsMember({"auto", "yes", "no"}))
        ->type_name("auto|yes|no");
  };
  add_put("--bos", options->tokenize.bos,
          "begin documents with the tokenizer's bos token; auto: if it begins texts so");
  add_put("--eos", options->tokenize.eos,
          "end documents with its eos token; auto: if the tokenizer's files name one");
  tokenize
      .add_flag("--parse-special", options->tokenize.parse_special,
                "take texts of special tokens in documents and messages for these tokens")
      ->needs(tokenizer);
  tokenize.add_flag("--overwrite", options->tokenize.overwrite,
                    "replace outputs that are there and are not token files");
  add_format(tokenize, options->tokenize.format,
             {"auto", "text", "jsonl", "sharegpt", "alpaca", "pairs"},
             "sharegpt, alpaca: likewise, and each is such a conversation; ");
  tokenize
      .add_option("--skip-bad", options->tokenize.skip_bad,
                  "leave out up to so many records that are refused, and name each")
      ->check(whole_number(0))
      ->type_name("COUNT");
  tokenize
      .add_option("--text-field", options->tokenize.text_field,
                  "member of a record that is the text, instead of \"text\" or a conversation")
      ->type_name("NAME");
  tokenize
      .add_option("--chat-template", options->tokenize.chat_template,
                  "what makes texts of conversations, instead of the template beside the "
                  "tokenizer: chatml, llama2, llama3, mistral, or a file")
      ->needs(tokenizer)
      ->type_name("NAME|FILE");
  tokenize
      .add_option_function<std::string>(
          "--loss",
          [options](const std::string& text) { options->tokenize.loss = parse_chat_loss(text); },
          "tokens of conversations whose loss counts: what assistants say, the last message of "
          "them alone, or all")
      ->needs(tokenizer)
      ->check(CLI::IsMember({"assistant", "completion", "all"}))
      ->type_name("assistant|completion|all");
  tokenize
      .add_option("--show", options->show,
                  "print the first so many documents, with ids and loss, and write nothing")
      ->type_name("COUNT")
      ->check(whole_number(1));
  tokenize
      .add_option("--shard-tokens", options->tokenize.shard_tokens,
                  "cut outputs where documents end into files of at most so many tokens: "
                  "train-00000.bin, train-00001.bin, ... of train.bin")
      ->type_name("N")
      ->check(whole_number(1, kMostTokens));
  tokenize
      .add_option("--threads", options->tokenize.threads,
                  "threads that encode, which change no byte; 0: as many as there are cores")
      ->check(whole_number(0, kMostThreads))
      ->type_name("COUNT");
  tokenize.callback([options, &action] {
    action = [options] { return tokenize_command(options->tokenize, options->show); };
  });
}

void add_tokenizer_train(CLI::App& tokenizer, const std::shared_ptr<TrainTokenizerCommand>& options,
                         Action& action) {
  CLI::App& train = *tokenizer.add_subcommand(
      "train", "Make a tokenizer of UTF-8 text: byte-level BPE, as tokenizer.json");
  TrainTokenizerOptions& training = options->options;
  train
      .add_option(
          "input", training.inputs,
          "files of text or JSON lines, also compressed by gzip or zstd; folders to search; "
          "- for standard input")
      ->required();
  train.add_option("--output", options->output, "the folder that is made")
      ->required()
      ->type_name("FOLDER");
  train
      .add_option("--vocab-size", training.training.vocabulary,
                  "ids in all: special tokens, 256 bytes and merges (default 32000)")
      ->check(whole_number(1))
      ->type_name("N");
  train
      .add_option(
          "--split", training.training.split,
          "how texts are cut before pairs are merged: " + split_names() + " (default llama3)")
      ->type_name("NAME");
  train
      .add_option("--eos", training.training.eos,
                  "special token that ends texts (default <|endoftext|>); \"\": none")
      ->type_name("TOKEN");
  train
      .add_option("--special", training.training.special, "another special token; may be repeated")
      ->type_name("TOKEN")
      ->allow_extra_args(false);
  train
      .add_option("--extension", training.extensions,
                  "ending of the files taken from folders instead of .txt .text .md .rst; may be "
                  "repeated")
      ->type_name(".EXT")
      ->allow_extra_args(false);
  train.add_option("--threads", training.threads, "threads that count (default: all cores)")
      ->check(whole_number(1, kMostThreads))
      ->type_name("N");
  add_format(train, training.format, {"auto", "text", "jsonl"}, "");
  train
      .add_option("--text-field", training.text_field,
                  "member of a record that is the text, instead of \"text\"")
      ->type_name("NAME");
  train.add_flag("--overwrite", options->overwrite,
                 "replace a tokenizer that lies in the output folder");
  train.callback(
      [options, &action] { action = [options] { return tokenizer_train_command(*options); }; });
}

void add_tokenizer_add(CLI::App& tokenizer, const std::shared_ptr<AddTokensCommand>& options,
                       Action& action) {
  CLI::App& add = *tokenizer.add_subcommand(
      "add", "Make a tokenizer of another one with more special tokens, such as markers of chats");
  add.add_option("tokenizer", options->tokenizer, "a tokenizer.json, or its folder")->required();
  add.add_option("token", options->tokens, "texts that become tokens: '<|im_start|>' '<|im_end|>'")
      ->required();
  add.add_option("--output", options->output, "the folder that is made")
      ->required()
      ->type_name("FOLDER");
  add.callback(
      [options, &action] { action = [options] { return tokenizer_add_command(*options); }; });
}

void add_tokenizer(CLI::App& app, Action& action) {
  const auto options = std::make_shared<TokenizerOptions>();
  CLI::App& tokenizer = *app.add_subcommand(
      "tokenizer", "Train a tokenizer, add tokens to one, or show what one holds and does");
  tokenizer.require_subcommand(1);
  const auto add = [&](const std::string& name, const std::string& description, auto command) {
    CLI::App& added = *tokenizer.add_subcommand(name, description);
    added
        .add_option(
            "tokenizer", options->tokenizer,
            "a tokenizer.json, tokenizer.model, tekken.json or .tiktoken file, or its folder")
        ->required();
    added.callback(
        [options, &action, command] { action = [options, command] { return command(*options); }; });
    return &added;
  };
  add("inspect", "Print size and hash of the vocabulary", tokenizer_inspect_command);
  CLI::App* encode = add("encode", "Print the ids of a text on one line", tokenizer_encode_command);
  encode->add_option("input", options->input, "a file in UTF-8, or - for standard input");
  encode->add_flag("--parse-special", options->parse_special,
                   "take the texts of special tokens for these tokens");
  encode->add_flag("--add-special", options->add_special,
                   "add what the post-processor puts around a text");
  CLI::App* decode = add("decode", "Print the text of ids", tokenizer_decode_command);
  decode->add_option("input", options->input, "a file of ids, or - for standard input");
  decode->add_flag("--skip-special", options->skip_special, "leave special tokens out");
  add_tokenizer_train(tokenizer, std::make_shared<TrainTokenizerCommand>(), action);
  add_tokenizer_add(tokenizer, std::make_shared<AddTokensCommand>(), action);
}

}  // namespace

void add_token_commands(CLI::App& app, Action& action) {
  add_tokenize(app, std::make_shared<TokenizeArguments>(), action);
  add_tokenizer(app, action);
}

}  // namespace strata
