// What a user can type: the sub-commands with their options. Parsing arguments sets what is done.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "strata/base/kv_dtype.h"

namespace strata {

/// Does what the arguments ask for, and returns the exit code. What it throws ends the program.
using Action = std::function<int()>;

/// Each declares some sub-commands; when parsing meets one of them, `action` becomes what it does.
/// Options live as long as `app`.
void add_run_commands(CLI::App& app, Action& action);       ///< train, plan, tune
void add_bench_command(CLI::App& app, Action& action);      ///< bench
void add_config_commands(CLI::App& app, Action& action);    ///< config-help, config-schema
void add_token_commands(CLI::App& app, Action& action);     ///< tokenize, tokenizer
void add_model_commands(CLI::App& app, Action& action);     ///< models, inspect, export, import
void add_generate_commands(CLI::App& app, Action& action);  ///< generate, chat, evaluate
void add_help_commands(CLI::App& app, Action& action);      ///< completions, man
void add_report_commands(CLI::App& app, Action& action);    ///< report
void add_doctor_commands(CLI::App& app, Action& action);    ///< doctor

/// Declares all sub-commands.
void add_all_commands(CLI::App& app, Action& action);

/// Declares --kv-dtype, which sets in what keys and values are kept.
CLI::Option& add_kv_dtype(CLI::App& command, KvDType& kept);

/// Returns what the user probably meant by arguments that could not be understood, or nothing.
[[nodiscard]] std::string meant(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace strata
