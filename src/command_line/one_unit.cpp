// All sources of the command line, which are compiled as this one: reading CLI11's header takes
// several times as long as what any of them does with it. Names that are local to a source are
// local to all.

#include "command_line/assignments.cpp"        // NOLINT(bugprone-suspicious-include)
#include "command_line/bench_command.cpp"      // NOLINT(bugprone-suspicious-include)
#include "command_line/command_tree.cpp"       // NOLINT(bugprone-suspicious-include)
#include "command_line/config_commands.cpp"    // NOLINT(bugprone-suspicious-include)
#include "command_line/doctor_commands.cpp"    // NOLINT(bugprone-suspicious-include)
#include "command_line/generate_commands.cpp"  // NOLINT(bugprone-suspicious-include)
#include "command_line/help_commands.cpp"      // NOLINT(bugprone-suspicious-include)
#include "command_line/man_pages.cpp"          // NOLINT(bugprone-suspicious-include)
#include "command_line/model_commands.cpp"     // NOLINT(bugprone-suspicious-include)
#include "command_line/number_range.cpp"       // NOLINT(bugprone-suspicious-include)
#include "command_line/report_commands.cpp"    // NOLINT(bugprone-suspicious-include)
#include "command_line/run_arguments.cpp"      // NOLINT(bugprone-suspicious-include)
#include "command_line/run_command_line.cpp"   // NOLINT(bugprone-suspicious-include)
#include "command_line/run_commands.cpp"       // NOLINT(bugprone-suspicious-include)
#include "command_line/shell_completion.cpp"   // NOLINT(bugprone-suspicious-include)
#include "command_line/suggestions.cpp"        // NOLINT(bugprone-suspicious-include)
#include "command_line/token_commands.cpp"     // NOLINT(bugprone-suspicious-include)
