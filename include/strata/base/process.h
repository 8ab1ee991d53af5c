#pragma once

namespace strata {

/// Seconds of a steady clock.
[[nodiscard]] double steady_seconds();

/// Seconds since this process was started, to a hundredth; 0 where the system does not say.
[[nodiscard]] double process_age_s();

}  // namespace strata
