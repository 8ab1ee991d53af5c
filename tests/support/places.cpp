// The one source of the tests that knows where this tree and its build lie: CMake gives it both.

#include "support/places.h"

namespace strata::test {

std::string source_folder() { return STRATA_SOURCE_FOLDER; }

std::string built(const std::string& name) { return STRATA_BINARY_FOLDER "/" + name; }

std::string strata_program() { return built("strata"); }

std::string configs_folder() { return source_folder() + "/configs"; }

std::string scripts_folder() { return source_folder() + "/scripts"; }

std::string documents_folder() { return source_folder() + "/docs"; }

std::string goldens_folder() { return source_folder() + "/tests/golden/data"; }

std::string tokenizer_goldens_folder() { return goldens_folder() + "/tokenizer"; }

}  // namespace strata::test
