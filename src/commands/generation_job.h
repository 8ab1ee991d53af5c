// The load that `plan --generate` and `bench --generate` are about: the first predicts it, the
// second runs it and sets the prediction beside it.

#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "strata/commands/commands.h"
#include "strata/engine/sweep_layout.h"

namespace strata {

/// Returns what a job with the config's model needs. Throws ConfigError if its sequences are longer
/// than the model has positions for, naming the options.
[[nodiscard]] GenerationNeeds needs_of(const RunConfig& config, const GenerationJob& job);
/// Returns "64 prompts of 512 tokens, 128 drawn after each".
[[nodiscard]] std::string to_string(const GenerationLoad& load);

/// Prints every byte that generation will take, and what is predicted for the load.
int plan_generation(const RunConfig& config, const PlanOptions& options);
/// Generates the load with random weights and random prompts, and prints a table.
int bench_generation(const RunConfig& config, const BenchOptions& options);
/// Keys of which each benchmark's results have one.
inline constexpr std::string_view kResultKeys[] = {"step_s_each", "generated_tokens"};
/// Throws IoError, naming the option, if what is to be written would replace a file that is no JSON
/// object with one of `keys`: a config, say, or a device.
void require_replaceable(std::string_view option, const std::filesystem::path& file,
                         std::span<const std::string_view> keys);

}  // namespace strata
