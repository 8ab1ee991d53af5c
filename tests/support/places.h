// Where tests find what they read and start: this tree and the folder that it was built in. The
// paths are compiled into places.cpp alone, so that all other sources of tests compile alike in
// every folder.
#pragma once

#include <string>

namespace strata::test {

/// Returns the folder of this tree.
[[nodiscard]] std::string source_folder();
/// Returns the path of a program or a shared library that was built beside the tests.
[[nodiscard]] std::string built(const std::string& name);
/// Returns the path of the program.
[[nodiscard]] std::string strata_program();

[[nodiscard]] std::string configs_folder();
[[nodiscard]] std::string scripts_folder();
[[nodiscard]] std::string documents_folder();
/// Returns the folder of the goldens that PyTorch has made.
[[nodiscard]] std::string goldens_folder();
[[nodiscard]] std::string tokenizer_goldens_folder();

}  // namespace strata::test
