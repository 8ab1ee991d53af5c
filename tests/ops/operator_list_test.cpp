// This file goes over the list of all operators (strata/ops/operator_list.h) and asks for each of
// them whether it is wherever an operator has to be: compiler and linker ask for its code, and this
// asks for its place among the checks of operators, and what is written of its
// rounding. An operator that is missing somewhere is named, with the list of places that
// docs/adding.md has.

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "strata/op_checks/check_list.h"
#include "support/catch.h"
#include "support/places.h"

namespace strata::test {
namespace {

struct OperatorNames {
  std::string_view type;  ///< of the struct
  std::string_view name;  ///< its kName
};

constexpr auto kOperators = std::to_array<OperatorNames>({
#define STRATA_NAMES(Operator) {#Operator, Operator::kName},
    STRATA_FOR_EACH_OPERATOR(STRATA_NAMES)
#undef STRATA_NAMES
});

const std::filesystem::path kSourceFolder = source_folder();

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error("cannot read " + file.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Where operators are looked for.
struct Places {
  std::set<std::string> checked;  ///< kName of what op_checks runs
  std::string numerics;           ///< the text of docs/numerics.md
};

template <class Case>
void keep_first(std::vector<Case>& cases) {
  cases.resize(std::min<std::size_t>(cases.size(), 1));
}

/// Returns shapes by which each operator runs: what they compute is not asked here.
CheckShapes one_of_each() {
  CheckShapes shapes = smallest_shapes(BackendKind::kCpu);
  keep_first(shapes.rows);
  keep_first(shapes.vocabularies);
  keep_first(shapes.runs);
  keep_first(shapes.products);
  keep_first(shapes.fused);
  keep_first(shapes.heads);
  keep_first(shapes.attention);
  keep_first(shapes.decode);
  keep_first(shapes.fused_attend);
  return shapes;
}

Places places() {
  Places all;
  BackendOptions options;
  options.device.execution = Execution::kEager;
  Backend backend = make_backend(BackendKind::kCpu, options);
  OpRunner runner(backend);
  for (const OpCheck& check : op_checks(one_of_each(), BackendKind::kCpu)) {
    INFO(check.name);
    check.run(runner);
  }
  all.checked = runner.names();
  all.numerics = text_of(kSourceFolder / "docs/numerics.md");
  return all;
}

/// Returns what is missing of an operator, a line each; an empty text if nothing is.
std::string missing(const OperatorNames& op, const Places& in) {
  const std::string type(op.type);
  const std::string name(op.name);
  std::string lines;
  if (!in.checked.contains(name)) {
    lines += "no line in src/op_checks/check_list.cpp runs " + type +
             ", so neither tests nor the self-test do\n";
  }
  if (in.numerics.find("`" + name + "`") == std::string::npos) {
    lines += "docs/numerics.md does not say what `" + name + "` rounds\n";
  }
  return lines;
}

/// Returns the section of docs/adding.md that names all places of an operator.
std::string places_by_page() {
  const std::string text = text_of(kSourceFolder / "docs/adding.md");
  const std::size_t begin = text.find("## Adding an operator");
  if (begin == std::string::npos) {
    throw std::runtime_error("docs/adding.md has no section \"Adding an operator\"");
  }
  return text.substr(begin, text.find("\n## ", begin) - begin);
}

/// Returns a complaint that names the operator and all places; an empty text if nothing is missing.
std::string complaint(const OperatorNames& op, const Places& in) {
  const std::string lines = missing(op, in);
  if (lines.empty()) return {};
  return "operator " + std::string(op.type) + " is in the list of operators, but\n" + lines +
         "\ndocs/adding.md says where an operator has to be:\n\n" + places_by_page();
}

}  // namespace

TEST_CASE("every operator is checked and has its rounding written down", "[ops]") {
  const Places in = places();
  for (const OperatorNames& op : kOperators) {
    const std::string text = complaint(op, in);
    if (!text.empty()) FAIL_CHECK(text);
  }
}

TEST_CASE("no two operators have one name", "[ops]") {
  std::set<std::string_view> names;
  for (const OperatorNames& op : kOperators) {
    INFO(op.type << " is called " << op.name);
    CHECK(names.insert(op.name).second);
  }
}

TEST_CASE("an operator that is left out somewhere is named with all places", "[ops]") {
  const OperatorNames op{.type = "Forgotten", .name = "forgotten"};
  const Places everywhere{.checked = {"forgotten"}, .numerics = "| `forgotten` |"};
  REQUIRE(complaint(op, everywhere).empty());

  Places without = everywhere;
  without.checked = {"forgotten_backward"};
  CHECK_THAT(complaint(op, without), ContainsSubstring("Forgotten") &&
                                         ContainsSubstring("check_list.cpp") &&
                                         ContainsSubstring("## Adding an operator"));
  without = everywhere;
  without.numerics = "| `forgotten_backward` |";
  CHECK_THAT(complaint(op, without), ContainsSubstring("docs/numerics.md"));
  CHECK_THAT(complaint(op, {}), ContainsSubstring("operator_list.h") &&
                                    ContainsSubstring("check_list.cpp") &&
                                    ContainsSubstring("numerics.md"));
}

}  // namespace strata::test
