// Tests that the rows of README's and the documents' tables and those of configs/suites/h200.json
// are the same: a table names each row of strata in its last column.

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "strata/benchmark/suite.h"
#include "support/catch.h"
#include "support/places.h"

namespace strata::test {

namespace {

using Cells = std::vector<std::string>;

/// Returns the cells of a page's table lines that hold `text`.
std::vector<Cells> table_lines(const std::string& page, const std::string& text) {
  std::ifstream in(source_folder() + "/" + page);
  REQUIRE(in.good());
  std::vector<Cells> lines;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("|") || line.find(text) == std::string::npos) continue;
    Cells& cells = lines.emplace_back();
    std::istringstream parts(line.substr(1));
    for (std::string cell; std::getline(parts, cell, '|');) cells.push_back(cell);
  }
  return lines;
}

/// Returns the texts between backquotes.
std::vector<std::string> quoted(const std::string& cell) {
  std::vector<std::string> names;
  std::istringstream parts(cell);
  std::string part;
  for (bool inside = false; std::getline(parts, part, '`'); inside = !inside) {
    if (inside) names.push_back(part);
  }
  return names;
}

/// Returns the numbers of four digits and more, "13,687".
std::vector<std::string> speeds(const std::string& cell) {
  std::vector<std::string> found;
  std::string number;
  for (const char c : cell + " ") {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 || c == ',') {
      number += c;
    } else {
      if (number.size() >= 5) found.push_back(number);
      number.clear();
    }
  }
  return found;
}

}  // namespace

TEST_CASE("the tables of the documents name every row of the suite, and no other") {
  std::set<std::string> named;
  for (const auto& [page, of_strata] : std::map<std::string, std::string>{
           {"docs/performance.md", "**strata**"}, {"docs/generation-speed.md", "-generate-"}}) {
    const std::vector<Cells> lines = table_lines(page, of_strata);
    CHECK(lines.size() >= 3);
    for (const Cells& line : lines) {
      CAPTURE(page, line.front());
      const std::vector<std::string> names = quoted(line.back());
      CHECK_FALSE(names.empty());
      named.insert(names.begin(), names.end());
    }
  }
  std::set<std::string> rows;
  for (const SuiteRow& row : read_suite(source_folder() + "/configs/suites/h200.json").rows) {
    rows.insert(row.name);
  }
  CHECK(named == rows);
}

TEST_CASE("every figure of strata in README stands in a row of docs/performance.md") {
  std::set<std::string> known;
  for (const Cells& line : table_lines("docs/performance.md", "**strata**")) {
    for (const std::string& cell : line) {
      const std::vector<std::string> found = speeds(cell);
      known.insert(found.begin(), found.end());
    }
  }
  const std::vector<Cells> readme = table_lines("README.md", "**strata**");
  CHECK(readme.size() >= 5);
  for (const Cells& line : readme) {
    for (const std::string& speed : speeds(line.at(1))) {
      CAPTURE(line.front(), speed);
      CHECK(known.contains(speed));
    }
  }
}

TEST_CASE("the suites that are installed can be read, and their configs are there") {
  for (const char* const name : {"h200", "models", "tiny"}) {
    for (const SuiteRow& row :
         read_suite(source_folder() + "/configs/suites/" + name + ".json").rows) {
      CAPTURE(name, row.name);
      CHECK(row.title != row.name);
      CHECK(std::filesystem::is_regular_file(row.config));
    }
  }
}

}  // namespace strata::test
