// How spilled boundary activations lie in host memory, in the words of the config.
#pragma once

#include <cstdint>

namespace strata {

/// This is the form in which spilled boundary activations lie in host memory.
enum class BoundaryForm : std::uint8_t {
  kExact,  ///< as they were computed
  kInt8,   ///< a byte each and a scale per row (QuantizeRows); backward reads nothing else
};

}  // namespace strata
