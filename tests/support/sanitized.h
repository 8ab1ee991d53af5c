// Whether a sanitizer watches the tests. It makes them ten times slower, and what it looks for is
// in the code that runs, not in how often it runs.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STRATA_TESTS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define STRATA_TESTS_SANITIZED 1
#endif
#endif
#ifndef STRATA_TESTS_SANITIZED
#define STRATA_TESTS_SANITIZED 0
#endif

namespace strata::test {

inline constexpr bool kSanitized = STRATA_TESTS_SANITIZED != 0;

/// Whether threads are watched: only what several of them do can show a race.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadsWatched = true;
#else
inline constexpr bool kThreadsWatched = false;
#endif

/// Returns how many of `all` cases of one kind to try, where their number finds wrong answers: all
/// of them, or a tenth under sanitizers, as the same tests run without them.
constexpr std::size_t draws(std::size_t all) { return kSanitized ? all / 10 : all; }

}  // namespace strata::test
