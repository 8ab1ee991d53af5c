// The commands that use a model: `generate` and `chat`.

#include <limits>
#include <memory>
#include <string>

#include "command_line/number_range.h"
#include "command_line/sub_commands.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/commands/generate.h"
#include "strata/complete/prompts.h"

namespace strata {

namespace {

void add_bytes(CLI::App& command, const char* name, std::optional<ByteSize>& bytes,
               const char* description) {
  command
      .add_option_function<std::string>(
          name, [&bytes](const std::string& text) { bytes = ByteSize{parse_bytes(text)}; },
          description)
      ->check(size_in_bytes())
      ->type_name("BYTES");
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option("model", options.model,
                  "the folder of a Hugging Face model, a checkpoint, or a run folder, whose newest "
                  "checkpoint is taken")
      ->required();
  command
      .add_option("--adapter", options.adapter,
                  "adapters (LoRA) to add to the model's weights: a folder of PEFT, a checkpoint, "
                  "or a run folder")
      ->type_name("DIR");
  command
      .add_option("--tokenizer", options.tokenizer,
                  "the file of a tokenizer, or its folder, instead of the model's")
      ->type_name("PATH");
  command
      .add_option_function<std::string>(
          "--backend",
          [&options](const std::string& name) {
            options.backend = name == "cpu"    ? BackendChoice::kCpu
                              : name == "cuda" ? BackendChoice::kCuda
                                               : BackendChoice::kAuto;
          },
          "what computes")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->type_name("auto|cpu|cuda");
  command
      .add_option_function<std::string>(
          "--dtype",
          [&options](const std::string& name) {
            options.dtype = name == "bf16"  ? DType::kBF16
                            : name == "f64" ? DType::kF64
                                            : DType::kF32;
          },
          "of weights and activations; by default bf16 if all weights of the model are, else f32")
      ->check(CLI::IsMember({"bf16", "f32", "f64"}))
      ->type_name("bf16|f32|f64");
  add_kv_dtype(command, options.kv_dtype);
  command.add_option("--threads", options.threads, "threads that compute (default: all cores)")
      ->check(whole_number(1, kMostThreads))
      ->type_name("N");
  add_bytes(command, "--device-memory", options.memory.device_limit,
            "what may be taken of device memory");
  add_bytes(command, "--host-memory", options.memory.host_limit,
            "what may be taken of host memory");
  command
      .add_option("--context", options.context,
                  "tokens that a sequence may have, its prompt included (default: what the "
                  "prompts need)")
      ->check(whole_number(1))
      ->type_name("N");
}

void add_chat_template_option(CLI::App& command, ModelOptions& options) {
  command
      .add_option("--chat-template", options.chat_template,
                  "what makes texts of conversations, instead of the model's template: chatml, "
                  "llama2, llama3, mistral, or a file")
      ->type_name("NAME|FILE");
}

void add_draw_options(CLI::App& command, DrawOptions& options) {
  command
      .add_option("--max-tokens", options.max_tokens, "tokens that are drawn at most (default 256)")
      ->check(whole_number(1))
      ->type_name("N");
  command
      .add_option("--temperature", options.temperature,
                  "0 takes the likeliest token; by default as generation_config.json says, else 0, "
                  "or 1 with one of the next three options")
      ->check(sampling_number(&Sampling::temperature))
      ->type_name("NUMBER");
  command.add_option("--top-k", options.top_k, "draw from the likeliest K tokens; 0: from all")
      ->check(whole_number(0))
      ->type_name("K");
  command
      .add_option("--top-p", options.top_p,
                  "draw from the likeliest tokens that have this probability together")
      ->check(sampling_number(&Sampling::top_p))
      ->type_name("0..1");
  command
      .add_option("--min-p", options.min_p,
                  "draw from tokens at least so likely as this share of the likeliest")
      ->check(sampling_number(&Sampling::min_p))
      ->type_name("0..1");
  command
      .add_option("--repeat-penalty", options.repeat_penalty,
                  "divide logits of tokens that were there by this, or multiply negative ones")
      ->check(sampling_number(&Sampling::repeat_penalty))
      ->type_name("NUMBER");
  command
      .add_option("--seed", options.seed,
                  "decides all draws, together with prompt, sample and position (default 0)")
      ->check(whole_number(0, std::numeric_limits<std::int64_t>::max()))
      ->type_name("N");
  command
      .add_option("--stop", options.stops,
                  "end before this text, also that of a special token; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command.add_flag("--ignore-eos", options.ignore_eos, "do not end at tokens that end texts");
}

}  // namespace

void add_generate_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<GenerateOptions>();
  CLI::App& generate = *app.add_subcommand("generate", "Continue prompts with a model");
  add_model_options(generate, options->model);
  add_chat_template_option(generate, options->model);
  generate.add_option("--prompt", options->prompt, "the text to continue")->type_name("TEXT");
  CLI::Option* const input =
      generate
          .add_option("--input", options->input,
                      "a file with the text to continue, or JSON lines (.jsonl) with prompts; - "
                      "for standard input")
          ->type_name("FILE");
  generate.add_flag("--jsonl", options->jsonl, "the input has JSON lines, whatever its name")
      ->needs(input);
  CLI::Option* const chat =
      generate.add_flag("--chat", options->chat, "a text is what a user says, to be answered");
  generate.add_option("--system", options->system, "what the system says first, with --chat")
      ->needs(chat)
      ->type_name("TEXT");
  generate.add_flag("--parse-special", options->parse_special,
                    "take texts of special tokens in prompts and messages for these tokens");
  add_draw_options(generate, options->draw);
  generate.add_option("--samples", options->samples, "continuations of each prompt (default 1)")
      ->check(whole_number(1, kMostSamples))
      ->type_name("N");
  generate
      .add_option(
          "--batch", options->model.sequences,
          "sequences that are continued at once (default: as many as should be fastest, else "
          "up to 16, as memory allows)")
      ->check(whole_number(1, kMostAtOnce))
      ->type_name("N");
  CLI::Option* const output =
      generate.add_option("--output", options->output, "write JSON lines to this file")
          ->type_name("FILE");
  generate.add_flag("--json", options->json_lines, "print JSON lines where there is one text, too")
      ->excludes(output);
  generate.add_flag("--logprobs", options->logprobs,
                    "write ids of tokens and logarithms of their probabilities");
  CLI::Option* const overwrite =
      generate
          .add_flag("--overwrite", options->overwrite, "replace the output file if there is one")
          ->needs(output);
  generate
      .add_flag("--resume", options->resume,
                "go on with the output file: what is in it is not made again")
      ->needs(output)
      ->excludes(overwrite);
  generate.callback(
      [options, &action] { action = [options] { return generate_command(*options); }; });
}

void add_chat_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<ChatOptions>();
  CLI::App& chat = *app.add_subcommand("chat", "Talk with a model that has a chat template");
  add_model_options(chat, options->model);
  add_chat_template_option(chat, options->model);
  chat.add_option("--system", options->system, "what the system says first")->type_name("TEXT");
  add_draw_options(chat, options->draw);
  chat.callback([options, &action] { action = [options] { return chat_command(*options); }; });
}

void add_evaluate_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<EvaluateOptions>();
  CLI::App& evaluate =
      *app.add_subcommand("evaluate", "Measure how likely a model finds texts, tokens or answers");
  add_model_options(evaluate, options->model);
  evaluate
      .add_option("--input", options->input,
                  "a file of text, a token file (.bin), or JSON lines (.jsonl) with texts or "
                  "choices; - for standard input")
      ->required()
      ->type_name("FILE");
  evaluate.add_flag("--jsonl", options->jsonl, "the input has JSON lines, whatever its name");
  evaluate
      .add_option(
          "--stride", options->stride,
          "tokens from one window of a text to the next (default: they overlap by one token)")
      ->check(whole_number(1))
      ->type_name("N");
  evaluate.add_flag("--reference", options->reference,
                    "store the log-probabilities of a token file's pairs beside it, for "
                    "train.reference");
  evaluate.add_flag("--truncate", options->truncate,
                    "cut records that are longer than a sequence from the left, and count them");
  evaluate
      .add_option("--batch", options->model.sequences,
                  "sequences that are scored at once (default: up to 16, as memory allows)")
      ->check(whole_number(1, kMostAtOnce))
      ->type_name("N");
  evaluate
      .add_option_function<std::string>(
          "--products",
          [options](const std::string& name) {
            options->model.products = name == "fp8" ? Products::kFp8 : Products::kPlain;
          },
          "what products of layers multiply: numbers of --dtype (bf16, the default), or these "
          "rounded to e4m3 as in training with run.products fp8")
      ->check(CLI::IsMember({"bf16", "fp8"}))
      ->type_name("bf16|fp8");
  evaluate.callback(
      [options, &action] { action = [options] { return evaluate_command(*options); }; });
}

CLI::Option& add_kv_dtype(CLI::App& command, KvDType& kept) {
  return *command
              .add_option_function<std::string>(
                  "--kv-dtype",
                  [&kept](const std::string& name) {
                    for (const EnumName<KvDType>& row : kKvDTypeNames) {
                      if (row.name == name) kept = row.value;
                    }
                  },
                  "of keys and values: auto, that of the model, or int8, which takes half of the "
                  "memory of bf16 and rounds them")
              ->check(CLI::IsMember({"auto", "int8"}))
              ->type_name("auto|int8");
}

}  // namespace strata
