// Passing over what a library proposes and then refuses: whoever chooses or launches an algorithm
// goes on with the next one. It is plain C++, so that a test does so with a library that is made
// up.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace strata::cuda {

/// Returns those of `algorithms`, in their order, whose product has the bits of `wanted`.
/// `fingerprint` takes an algorithm and returns nothing if it does not run.
template <class Algorithm, class Fingerprint>
[[nodiscard]] std::vector<Algorithm> with_fingerprint(std::vector<Algorithm> algorithms,
                                                      std::uint64_t wanted,
                                                      const Fingerprint& fingerprint) {
  std::erase_if(algorithms, [&](const Algorithm& algorithm) {
    const std::optional<std::uint64_t> got = fingerprint(algorithm);
    return got != wanted;
  });
  return algorithms;
}

/// Launches the first of `algorithms` that is not refused, and forgets those before it. `launch`
/// takes an algorithm and returns false if that is refused and nothing was launched. Returns false
/// if none is left.
template <class Algorithm, class Launch>
[[nodiscard]] bool launch_first(std::vector<Algorithm>& algorithms, const Launch& launch) {
  std::size_t refused = 0;
  while (refused < algorithms.size() && !launch(algorithms[refused])) ++refused;
  algorithms.erase(algorithms.begin(), algorithms.begin() + static_cast<std::ptrdiff_t>(refused));
  return !algorithms.empty();
}

}  // namespace strata::cuda
