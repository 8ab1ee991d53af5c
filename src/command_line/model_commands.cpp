// The commands about checkpoints and models, and what lies in files.

#include "command_line/sub_commands.h"

#include <memory>
#include <string>

#include "command_line/number_range.h"
#include "strata/commands/commands.h"
#include "strata/commands/generate.h"

namespace strata {

namespace {

void add_models(CLI::App& app, const std::shared_ptr<ModelsOptions>& options, Action& action) {
  CLI::App& command = *app.add_subcommand("models", "List the families of models that are read");
  CLI::Option* const markdown =
      command.add_flag("--markdown", options->markdown, "as docs/models.md has them");
  command
      .add_option("family", options->family,
                  "the model_type of one, such as qwen3, or its class: say what is refused of it")
      ->excludes(markdown)
      ->type_name("FAMILY");
  command.callback([options, &action] { action = [options] { return models_command(*options); }; });
}

void add_inspect_tokens(CLI::App& inspect, InspectOptions& options) {
  inspect
      .add_option("--document", options.document,
                  "of token files: show this document, counted from 1, by its ids")
      ->check(whole_number(1, kMostTokens))
      ->type_name("N");
  inspect
      .add_option("--tokenizer", options.tokenizer,
                  "a tokenizer.json, or its folder: show the text of the document as well")
      ->type_name("FILE|DIR");
  inspect.add_option("--dtype", options.dtype, "of files with nothing but ids, as data.dtype")
      ->check(CLI::IsMember({"u16", "u32"}))
      ->type_name("u16|u32");
  inspect
      .add_option("--eos-token", options.eos_token,
                  "id that ends documents where a file does not list them, as data.eos_token")
      ->check(whole_number(0))
      ->type_name("ID");
}

void add_inspect(CLI::App& app, const std::shared_ptr<InspectOptions>& options, Action& action) {
  CLI::App& inspect = *app.add_subcommand(
      "inspect", "Show what a checkpoint, a model or token files hold, and verify its files");
  inspect
      .add_option("path", options->paths,
                  "a checkpoint, a run folder (its newest whole checkpoint is shown), the "
                  "folder of a Hugging Face model, or token files")
      ->required();
  CLI::Option* verify =
      inspect.add_flag("--verify", options->verify,
                       "read every byte of the checkpoint and compare it with the manifest");
  inspect.add_flag("--files", options->every_file,
                   "list every file and tensor, also those of layers that are alike; with --step, "
                   "every sample");
  inspect.add_flag("--json", options->json, "print one JSON object, with every file and tensor");
  CLI::Option* step =
      inspect
          .add_option("--step", options->step,
                      "list the samples that this step trained on or will train on instead, with "
                      "their places in the training set")
          ->check(whole_number(1))
          ->type_name("STEP");
  step->excludes(verify);
  inspect
      .add_option("--ranks", options->ranks,
                  "on how many ranks that step is; by default, what the checkpoint tells")
      ->check(whole_number(1))
      ->type_name("COUNT");
  add_inspect_tokens(inspect, *options);
  inspect.callback(
      [options, &action] { action = [options] { return inspect_command(*options); }; });
}

void add_export(CLI::App& app, const std::shared_ptr<ExportOptions>& options, Action& action) {
  CLI::App& command = *app.add_subcommand(
      "export",
      "Make a Hugging Face folder or a GGUF file of a checkpoint, in bf16 or with the exact f32 "
      "masters");
  command
      .add_option("checkpoint", options->checkpoint,
                  "a checkpoint, or a run folder, whose newest whole one is taken; with --format "
                  "gguf also the folder of a Hugging Face model")
      ->required();
  command.add_option("folder", options->to, "the folder to make, or with --format gguf the file")
      ->required();
  command
      .add_option("--format", options->format,
                  "hf: a Hugging Face folder, as transformers and vLLM read it; gguf: one file, as "
                  "llama.cpp and Ollama do")
      ->check(CLI::IsMember({"hf", "gguf"}))
      ->type_name("hf|gguf")
      ->capture_default_str();
  command
      .add_option("--dtype", options->dtype,
                  "of the weights: bf16, or f32, which is exact where the checkpoint has low "
                  "halves; with --format gguf also q8_0, blocks of 32 bytes with a scale. What the "
                  "checkpoint holds in more digits is rounded to nearest")
      ->check(CLI::IsMember({"bf16", "f32", "q8_0"}))
      ->type_name("bf16|f32|q8_0")
      ->capture_default_str();
  command.add_flag("--adapter-only", options->adapter_only,
                   "of a run that trained adapters: a folder of PEFT, with them alone");
  command.add_flag("--overwrite", options->overwrite,
                   "replace the model that is in the folder, or the GGUF file");
  command.callback([options, &action] { action = [options] { return export_command(*options); }; });
}

void add_import(CLI::App& app, const std::shared_ptr<ImportOptions>& options, Action& action) {
  CLI::App& command =
      *app.add_subcommand("import", "Make a model as export writes it of any Hugging Face model");
  command.add_option("source", options->from, "the folder of a Hugging Face model")->required();
  command.add_option("folder", options->to, "the folder to make")->required();
  command
      .add_option("--dtype", options->dtype,
                  "of the weights: bf16 or f32; by default bf16 if all weights of the model are, "
                  "else f32. What the model holds in more digits is rounded to nearest")
      ->check(CLI::IsMember({"bf16", "f32"}))
      ->type_name("bf16|f32");
  command.add_flag("--overwrite", options->overwrite, "replace the model that is in the folder");
  command.callback([options, &action] { action = [options] { return import_command(*options); }; });
}

void add_chat_template_command(CLI::App& app, const std::shared_ptr<std::string>& name,
                               Action& action) {
  CLI::App& command =
      *app.add_subcommand("chat-template", "Print a chat template: a built-in one, or a model's");
  command
      .add_option("name", *name,
                  "chatml, llama2, llama3 or mistral; or the folder of a model, a checkpoint or a "
                  "run, whose newest checkpoint is taken")
      ->required();
  command.callback([name, &action] { action = [name] { return chat_template_command(*name); }; });
}

}  // namespace

void add_model_commands(CLI::App& app, Action& action) {
  add_models(app, std::make_shared<ModelsOptions>(), action);
  add_inspect(app, std::make_shared<InspectOptions>(), action);
  add_export(app, std::make_shared<ExportOptions>(), action);
  add_import(app, std::make_shared<ImportOptions>(), action);
  add_chat_template_command(app, std::make_shared<std::string>(), action);
}

}  // namespace strata
