// Gives Catch2 2 the one translation unit with a main that it needs; Catch2 3 links its own.

#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif
