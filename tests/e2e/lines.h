// What tests of the commands that use a model share: a model of bytes, and lines of JSON.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "e2e/program.h"
#include "e2e/saved_runs.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"

namespace strata::test {

/// Trains a model of bytes, and returns its run folder.
inline std::string byte_model(const Folder& folder) {
  const Outcome trained = strata(
      folder, train_tiny(folder, "run",
                         tokenize_text(folder) + " --set model.max_position_embeddings=512"));
  INFO(trained.text);
  REQUIRE(trained.code == 0);
  return (folder / "run") + " ";
}

inline void write_file(const std::string& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

inline std::vector<nlohmann::json> lines_of(const std::string& file) {
  std::ifstream in(file);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(parse_json<nlohmann::json>(line));
  return lines;
}

/// Runs the program and returns its standard output.
inline std::string printed(const Folder& folder, const std::string& arguments) {
  const std::string file = folder / "printed.txt";
  const Outcome outcome =
      run(folder, "sh -c '" + strata_program() + " " + arguments + " > " + file + "'");
  INFO(outcome.text);
  REQUIRE(outcome.code == 0);
  return read_file(file);
}

inline void check_refused(const Folder& folder, const std::string& arguments,
                          const std::string& text) {
  const Outcome outcome = strata(folder, arguments);
  INFO(arguments);
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.text, ContainsSubstring(text));
}

}  // namespace strata::test
