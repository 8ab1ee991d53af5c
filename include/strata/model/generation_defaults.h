// What a Hugging Face model says of how it wants to be generated with: generation_config.json, and
// the end token of config.json. Commands that generate take it where their options are silent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
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

/// Returns the ids that a text of generation_config.json or config.json names as eos_token_id;
/// nothing if it names none. Throws ConfigError that begins with `source` for what is no such
/// value.
[[nodiscard]] std::vector<std::int32_t> end_tokens_in(std::string_view text,
                                                      const std::string& source);
/// Returns the text of a generation_config.json whose generation ends at `ends`, one or more.
/// `imported` is the one that the model came with: its other keys stay. A new one names `begin`,
/// too. Throws ConfigError that begins with `source` for what is no object of JSON.
[[nodiscard]] std::string generation_config_text(std::optional<std::string_view> imported,
                                                 const std::string& source,
                                                 std::optional<std::int32_t> begin,
                                                 const std::vector<std::int32_t>& ends);

/// Returns the text of a config.json that names which ids begin and end texts, where it named none.
[[nodiscard]] std::string config_text_with_ends(const std::string& text,
                                                std::optional<std::int32_t> begin,
                                                std::optional<std::int32_t> end);

}  // namespace strata
