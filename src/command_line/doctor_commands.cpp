// The command that looks at the machine, and at a run that is to be made there: `doctor`.

#include <memory>
#include <string>
#include <vector>

#include "command_line/assignments.h"
#include "command_line/number_range.h"
#include "command_line/sub_commands.h"
#include "strata/commands/commands.h"
#include "strata/config/config.h"
#include "strata/runfiles/named_adapter.h"

namespace strata {

namespace {

/// What is said of a run.
struct DoctorArguments {
  std::string config;
  std::vector<std::string> sets;
};

RunConfig load(const DoctorArguments& arguments) {
  warn_of_replaced(arguments.sets);
  RunConfig config = load_run_config(arguments.config, arguments.sets, TrainingData::kRequired,
                                     {.adapter = find_start_adapter});
  config.validate(arguments.config);
  return config;
}

/// Declares what says which run is looked at, and on how many ranks.
CLI::Option& add_run(CLI::App& doctor, DoctorRun& run, DoctorArguments& arguments) {
  CLI::Option& config =
      *doctor.add_option("config", arguments.config,
                         "run config, a JSON file: also see whether it is right, whether its model "
                         "and data are there, and whether it fits this machine and its disk");
  add_assignments(doctor, arguments.sets)->needs(&config);
  CLI::Option* const ranks =
      doctor
          .add_option("--ranks", run.plan.ranks,
                      "the run is to have so many ranks; without this one, or those of a launcher")
          ->needs(&config)
          ->check(whole_number(1))
          ->type_name("COUNT");
  doctor
      .add_option("--ranks-per-node", run.plan.ranks_per_node,
                  "so many of the ranks are on each host, all without this")
      ->needs(ranks)
      ->check(whole_number(1))
      ->type_name("COUNT");
  return config;
}

}  // namespace

void add_doctor_commands(CLI::App& app, Action& action) {
  const auto options = std::make_shared<DoctorOptions>();
  const auto arguments = std::make_shared<DoctorArguments>();
  CLI::App& doctor =
      *app.add_subcommand("doctor", "Look what of this machine would go wrong, and say what to do");
  CLI::Option& config = add_run(doctor, options->run, *arguments);
  doctor
      .add_option("--folder", options->folder,
                  "where checkpoints are to be written; default: the config's run.output, or the "
                  "working folder")
      ->type_name("DIR");
  doctor
      .add_flag("--self-test", options->self_test,
                "also see whether the program computes what it should here; takes a minute at "
                "most, and some MB below --folder")
      ->excludes(&config);
  doctor.add_flag("--json", options->json, "print one JSON object instead of lines");
  doctor.callback([options, arguments, &action] {
    action = [options, arguments] {
      if (!arguments->config.empty()) {
        options->run.file = arguments->config;
        options->run.load = [arguments] { return load(*arguments); };
      }
      return doctor_command(*options);
    };
  });
}

}  // namespace strata
