// Clocks of this process for reports: a steady one for durations, and the time since the program
// was started, which includes what ran before main. Safe from any thread; nothing throws.
#pragma once

namespace strata {

/// Returns seconds of a steady clock, of which only differences mean something.
[[nodiscard]] double steady_seconds();

/// Returns the seconds since this process was started, to a hundredth; 0 where the system does not
/// say.
[[nodiscard]] double process_age_s();

}  // namespace strata
