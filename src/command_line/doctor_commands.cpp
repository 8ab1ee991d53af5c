// The command that looks at the machine: `doctor`.

#include <memory>

#include "strata/command_line/command_line.h"
#include "strata/commands/commands.h"

namespace strata {

void add_doctor_commands(CLI::App& app, Action& action) {
  const auto options = std::make_shared<DoctorOptions>();
  CLI::App& doctor =
      *app.add_subcommand("doctor", "Look what of this machine would go wrong, and say what to do");
  doctor
      .add_option("--folder", options->folder,
                  "where checkpoints are to be written; default: the working folder")
      ->type_name("DIR");
  doctor.add_flag("--self-test", options->self_test,
                  "also see whether the program computes what it should here; takes a minute at "
                  "most, and some MB below --folder");
  doctor.add_flag("--json", options->json, "print one JSON object instead of lines");
  doctor.callback([options, &action] { action = [options] { return doctor_command(*options); }; });
}

}  // namespace strata
