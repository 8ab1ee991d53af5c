// What a user can type: the sub-commands with their options. Parsing arguments sets what is done.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/kv_dtype.h"

namespace strata {

/// Does what the arguments ask for, and returns the exit code. What it throws ends the program.
using Action = std::function<int()>;

/// Each declares a sub-command or a few; when parsing meets one of them, `action` becomes what it
/// does. Options live as long as `app`.
void add_train_command(CLI::App& app, Action& action);
void add_plan_command(CLI::App& app, Action& action);
void add_tune_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);
void add_config_commands(CLI::App& app, Action& action);  ///< config-help, config-schema
void add_token_commands(CLI::App& app, Action& action);   ///< tokenize, tokenizer
void add_model_commands(CLI::App& app, Action& action);   ///< models, inspect, export, import, ...
void add_generate_command(CLI::App& app, Action& action);
void add_chat_command(CLI::App& app, Action& action);
void add_evaluate_command(CLI::App& app, Action& action);
void add_help_commands(CLI::App& app, Action& action);  ///< completions, man
void add_report_commands(CLI::App& app, Action& action);
void add_doctor_commands(CLI::App& app, Action& action);

/// Declares all sub-commands.
void add_all_commands(CLI::App& app, Action& action);

/// Declares the sub-command of this name, and a few others with it, or all where it has none: to
/// make the options of all commands takes a tenth of a start, and more under sanitizers.
void add_commands(CLI::App& app, Action& action, std::string_view name);

/// Declares --kv-dtype, which sets in what keys and values are kept.
CLI::Option& add_kv_dtype(CLI::App& command, KvDType& kept);

/// Returns what the user probably meant by arguments that could not be understood, or nothing.
[[nodiscard]] std::string meant(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace strata
