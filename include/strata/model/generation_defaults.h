// What a Hugging Face model says of how it wants to be generated with: generation_config.json, and
// the end token of config.json. Commands that generate take it where their options are silent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace strata {

/// The keys of a generation_config.json that strata follows. Absent: the file does not say.
struct GenerationDefaults {
  std::vector<std::int32_t> end_tokens{};  ///< eos_token_id; empty if no file names one
  bool do_sample = false;                  ///< false: the likeliest token is taken
  std::optional<double> temperature{};
  std::optional<double> top_p{};
  std::optional<double> min_p{};
  std::optional<double> repetition_penalty{};
  std::optional<std::int64_t> top_k{};
  std::optional<std::int64_t> max_new_tokens{};
};

/// Reads them from a model's folder; a file that is not there says nothing. Throws ConfigError that
/// names file and key for what is no such value, IoError for what cannot be read.
[[nodiscard]] GenerationDefaults load_generation_defaults(const std::filesystem::path& folder);

}  // namespace strata
