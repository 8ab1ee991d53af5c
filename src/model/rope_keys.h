// Which keys of a config.json's rope_scaling each type of it reads, beside the type. The reader and
// the writer of config.json go by it.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "strata/model/config.h"

namespace strata {

struct RopeKey {
  std::string_view name;
  bool required =
      false;  ///< else RopeScaling, or the longest row, has what a missing one stands for
};

inline constexpr std::string_view kOriginalLength = "original_max_position_embeddings";

/// Returns the keys that a type reads; none for kDefault.
[[nodiscard]] inline std::span<const RopeKey> rope_keys(RopeType type) {
  static constexpr RopeKey kFactor[] = {{"factor", true}};
  static constexpr RopeKey kOfYarn[] = {{"factor", true},   {"beta_fast"},    {"beta_slow"},
                                        {"truncate"},       {"mscale"},       {"attention_factor"},
                                        {"mscale_all_dim"}, {kOriginalLength}};
  static constexpr RopeKey kOfLlama3[] = {
      {"factor", true}, {"low_freq_factor", true}, {"high_freq_factor", true}, {kOriginalLength}};
  static constexpr RopeKey kOfLongRope[] = {{"short_factor", true},
                                            {"long_factor", true},
                                            {"factor"},
                                            {"attention_factor"},
                                            {kOriginalLength}};
  switch (type) {
    case RopeType::kDefault: break;
    case RopeType::kLinear:
    case RopeType::kDynamic: return kFactor;
    case RopeType::kYarn: return kOfYarn;
    case RopeType::kLlama3: return kOfLlama3;
    case RopeType::kLongRope: return kOfLongRope;
  }
  return {};
}

}  // namespace strata
