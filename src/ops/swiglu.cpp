// Checks the tensors of the SwiGLU operators and lists the bytes that they touch. Kernels are in
// kernels/cpu/swiglu.cpp and kernels/cuda/rows.

#include "strata/ops/swiglu.h"

#include "check.h"

namespace strata {

void SwigluForward::check() const {
  const Checker c(kName);
  c.rank("gate_up", gate_up, 2);
  c.compute_dtype("gate_up", gate_up);
  c.require(gate_up.shape[1] % 2 == 0, "gate_up", "must have an even number of columns");
  const Shape shape{gate_up.shape[0], gate_up.shape[1] / 2};
  if (y || !y8) c.matches("y", y, shape, gate_up.dtype);
  c.fp8({.codes_name = "y8", .codes = y8, .scale_name = "y_scale", .scale = y_scale}, shape);
}

Accesses SwigluForward::accesses() const {
  return {{gate_up.bytes()}, {y.bytes(), y8.bytes(), y_scale.bytes()}};
}

void SwigluBackward::check() const {
  const Checker c(kName);
  c.rank("d_y", d_y, 2);
  c.compute_dtype("d_y", d_y);
  const Shape wide{d_y.shape[0], 2 * d_y.shape[1]};
  c.matches("gate_up", gate_up, wide, d_y.dtype);
  c.matches("d_gate_up", d_gate_up, wide, d_y.dtype);
  c.fp8({.codes_name = "d_gate_up8",
         .codes = d_gate_up8,
         .scale_name = "d_gate_up_scale",
         .scale = d_gate_up_scale},
        wide);
  c.matches("y", y, d_y.shape, d_y.dtype);
}

Accesses SwigluBackward::accesses() const {
  return {{d_y.bytes(), gate_up.bytes()},
          {d_gate_up.bytes(), y.bytes(), d_gate_up8.bytes(), d_gate_up_scale.bytes()}};
}

}  // namespace strata
