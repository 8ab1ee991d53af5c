// The commands that make a run, or plan and choose one.

#include <memory>
#include <string>

#include "command_line/assignments.h"
#include "command_line/number_range.h"
#include "command_line/run_arguments.h"
#include "command_line/sub_commands.h"
#include "strata/device/gpu_models.h"

namespace strata {

void add_train_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<RunArguments>();
  CLI::App& train = add_run_command(app, "train", "Train a model", *options);
  train.add_option("--output", options->output, "run folder (run.output)")->type_name("DIR");
  CLI::Option* const overwrite = train.add_flag("--overwrite", options->overwrite,
                                                "replace the run that is in the run folder");
  train
      .add_option("--resume", options->resume.from,
                  "go on from a checkpoint: auto, the newest whole one of the run folder if there "
                  "is one; a step of it; or the folder of a checkpoint or of another run")
      ->excludes(overwrite)
      ->type_name("auto|STEP|DIR");
  train
      .add_option(
          "--allow", options->resume.allowed,
          "a key that may differ from the checkpoint's though it changes the numbers, or data: "
          "what the files of data hold")
      ->type_name("KEY")
      ->allow_extra_args(false);
  train.callback([options, &action] {
    action = [options] {
      return train_command([options] { return load_config(*options, TrainingData::kRequired); },
                           {.old_run = options->overwrite ? OldRun::kReplace : OldRun::kRefuse,
                            .resume = options->resume});
    };
  });
}

void add_plan_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<RunArguments>();
  CLI::App& plan = add_run_command(
      app, "plan",
      "Show every byte that a run takes, and predict its speed, before anything is allocated",
      *options);
  add_size(plan, "--device-memory", options->device_memory, "memory.device_limit, such as 24GiB");
  plan.add_option("--gpu", options->plan.gpu,
                  "plan for this GPU's memory and speed instead of this machine's: " + gpu_names())
      ->type_name("NAME");
  add_size(plan, "--host-memory", options->host_memory, "memory.host_limit, such as 128GiB");
  add_count(plan, "--ranks", options->plan.ranks, "plan for rank 0 of so many, without a launcher");
  add_count(plan, "--ranks-per-node", options->plan.ranks_per_node,
            "so many of the ranks are on each host, all without this; without --gpu they share "
            "the host memory that this machine has now");
  CLI::Option& json = add_json(plan, options->plan.json);
  add_generation(plan, "plan for continuing prompts with the model, instead of training it",
                 options->generation, options->plan.generation);
  json.excludes(plan.get_option("--generate"));
  plan.callback([options, &action] {
    action = [options] {
      return plan_command(load_config(*options, TrainingData::kOptional), options->plan);
    };
  });
}

namespace {

/// Declares what is asked of the config that tune finds.
void add_tune_request(CLI::App& command, TuneRequest& request) {
  add_count(command, "--tokens", request.tokens,
            "tokens of a step of all ranks; rows, sub_batches and passes of a config are then "
            "chosen anew",
            kMostTokens);
  command.add_option("--sequence-length", request.sequence_length, "data.sequence_length")
      ->check(whole_number(1))
      ->type_name("TOKENS");
  command
      .add_option("--grad-clip", request.grad_clip,
                  "optimizer.grad_clip, or none; 1 for a model without a run config")
      ->type_name("NORM|none");
  command
      .add_option("--allow", request.allowed,
                  "a key that is chosen although the config gives it, or, optimizer.moment_dtype, "
                  "optimizer.master, run.products and adapter.base_format, although it changes the "
                  "numbers")
      ->type_name("KEY")
      ->allow_extra_args(false);
}

}  // namespace

void add_tune_command(CLI::App& app, Action& action) {
  const auto options = std::make_shared<RunArguments>();
  CLI::App& command = *app.add_subcommand(
      "tune", "Find the fastest way to train a model on a machine, and write its config");
  TuneOptions& tune = options->tune;
  command
      .add_option(
          "model", tune.request.model,
          "folder of a Hugging Face model, its config.json, or a run config, of which every "
          "key that it gives stays")
      ->required();
  CLI::Option* const output =
      command.add_option("--output", tune.output, "write the best config to this file")
          ->type_name("FILE");
  command.add_flag("--overwrite", tune.overwrite, "replace a file that lies there")->needs(output);
  add_json(command, tune.plan.json);
  add_tune_request(command, tune.request);
  command
      .add_option("--gpu", tune.plan.gpu,
                  "tune for this GPU's memory and speed instead of this machine's: " + gpu_names())
      ->type_name("NAME");
  command.add_option("--backend", tune.request.backend, "run.backend")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->type_name("NAME");
  add_size(command, "--device-memory", options->device_memory,
           "memory.device_limit, such as 24GiB");
  add_size(command, "--host-memory", options->host_memory, "memory.host_limit, such as 128GiB");
  add_count(command, "--ranks", tune.plan.ranks, "tune for so many ranks, without a launcher");
  add_count(command, "--ranks-per-node", tune.plan.ranks_per_node,
            "so many of the ranks are on each host, all without this");
  CLI::Option* const measure =
      add_count(command, "--measure", tune.measure,
                "run so many of the best here, take the fastest, and store the rates that were "
                "seen for later predictions");
  add_count(command, "--steps", tune.steps, "steps that --measure measures of each, 3 without this")
      ->needs(measure);
  add_count(command, "--threads", tune.threads,
            "threads that predict, one for each usable core without this", kMostThreads);
  add_assignments(command, options->sets);
  command.callback([options, &action] {
    action = [options] {
      warn_of_replaced(options->sets);
      options->tune.request.sets = sets_of(*options);
      return tune_command(options->tune);
    };
  });
}

}  // namespace strata
