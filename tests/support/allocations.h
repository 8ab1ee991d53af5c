// Counts what the heap is asked for. A program that compiles allocations.cpp in has its operator
// new replaced by one that counts before it asks malloc; tests and benchmarks then see whether a
// path takes memory. Only calls of operator new count, and only those of the asking thread.

#pragma once

#include <cstdint>

namespace strata::test {

/// Calls of operator new by the calling thread since it began.
[[nodiscard]] std::int64_t allocations_of_this_thread();

}  // namespace strata::test
