// Tests that a file which is written as a whole takes no other place than its own.

#include "strata/base/output_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("a file is replaced when the new one is whole, and nothing is left of one that is not") {
  const ScratchFolder folder;
  const std::string file = folder.write("file", "old");
  {
    OutputFile out(file);
    out.write("half", 4);
    CHECK(text_of(file) == "old");
    CHECK(folder.entries() == 2);
  }
  CHECK(folder.entries() == 1);
  write_file(file, "new");
  CHECK(text_of(file) == "new");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a link that takes a file's place while it is written is not followed") {
  const ScratchFolder folder;
  const std::string precious = folder.write("precious", "text");
  OutputFile out(folder.file("file"));
  out.write("new", 3);
  out.close();
  fs::create_symlink(precious, folder.file("file"));
  CHECK_THROWS_WITH(out.publish(), ContainsSubstring("symbolic link"));
  CHECK(text_of(precious) == "text");
}

}  // namespace
}  // namespace strata
