// Checks the tensors of the embedding operators, lists the bytes that they touch and estimates what
// they move. Kernels are in kernels/cpu/embedding.cpp and kernels/cuda/rows.

#include "strata/ops/embedding.h"

#include "check.h"

namespace strata {

void EmbeddingForward::check() const {
  const Checker c(kName);
  c.rank("ids", ids, 1);
  c.rank("table", table, 2);
  c.compute_dtype("table", table);
  const std::int64_t n = ids.shape[0];
  c.matches_contiguous("ids", ids, {n}, DType::kI32);
  c.matches("y", y, {n, table.shape[1]}, table.dtype);
}

Accesses EmbeddingForward::accesses() const { return {{ids.bytes(), table.bytes()}, {y.bytes()}}; }

/// Each token reads one row of the table and writes it.
Cost EmbeddingForward::cost() const { return {.bytes = 2 * ConstTensorView(y).bytes().bytes}; }

void EmbeddingBackward::check() const {
  const Checker c(kName);
  c.rank("dy", dy, 2);
  c.compute_dtype("dy", dy);
  c.rank("d_table", d_table, 2);
  const std::int64_t n = dy.shape[0];
  c.matches_contiguous("ids", ids, {n}, DType::kI32);
  c.matches_contiguous("order", order, {n}, DType::kI32);
  c.matches("d_table", d_table, {d_table.shape[0], dy.shape[1]}, accumulator_of(dy.dtype));
}

Accesses EmbeddingBackward::accesses() const {
  return {{ids.bytes(), order.bytes(), dy.bytes(), d_table.bytes()}, {d_table.bytes()}};
}

/// Counts as if no token came twice: each reads its gradient and reads and writes its row of the
/// table.
Cost EmbeddingBackward::cost() const {
  const auto elements = static_cast<std::size_t>(dy.elements());
  return {.bytes = elements * (size_of(dy.dtype) + 2 * size_of(d_table.dtype))};
}

}  // namespace strata
