// Counts what the heap is asked for. A program that compiles allocations.cpp in has its operator
// new replaced by one that counts before it asks malloc; tests and benchmarks then see whether a
// path takes memory, and how much. Only operator new counts: what C libraries ask malloc for does
// not.

#pragma once

#include <cstdint>

namespace strata::test {

/// Calls of operator new by the calling thread since it began.
[[nodiscard]] std::int64_t allocations_of_this_thread();
/// Bytes that operator new gave to all threads and that were not given back, as large as the heap
/// made them.
[[nodiscard]] std::int64_t heap_bytes();
/// The most that these bytes were since the last call.
[[nodiscard]] std::int64_t heap_peak();

}  // namespace strata::test
