// The one place that knows which Catch2 is installed: 3 (Ubuntu 24.04) or 2 (Debian 12). Tests
// include it instead of Catch2.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>
// Catch2 2 calls it Contains.
inline auto ContainsSubstring(const std::string& text) { return Catch::Matchers::Contains(text); }
#endif
