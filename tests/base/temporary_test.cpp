// Tests that temporary files and folders have names that nobody foresees, and that nothing which
// others left is written to or removed through them.

#include "strata/base/temporary.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

TEST_CASE("names beside a file differ each time, tell what it is, and are short") {
  std::set<fs::path> names;
  for (int i = 0; i < 100; ++i) names.insert(name_beside("folder/config.json", "tmp"));
  CHECK(names.size() == 100);
  for (const fs::path& name : names) {
    CHECK(name.parent_path() == "folder");
    CHECK(name.filename().string().starts_with(".config.json.tmp"));
  }
  CHECK(name_beside(std::string(250, 'x'), "tmp").string().size() < 60);
}

TEST_CASE("a temporary folder is new and this user's alone, and goes with all that is in it") {
  const ScratchFolder scratch;
  const fs::path precious = scratch.write("precious/text", "text");
  fs::path made;
  {
    const TemporaryFolder folder(scratch.file("name"));
    const TemporaryFolder other(scratch.file("name"));
    CHECK(folder.path() != other.path());
    made = folder.path();
    CHECK(made.filename().string().starts_with("name-"));
    CHECK((fs::status(made).permissions() & fs::perms::mask) == fs::perms::owner_all);
    fs::create_directory_symlink(precious.parent_path(), made / "link");
    fs::create_directories(made / "more/of/it");
  }
  CHECK_FALSE(fs::exists(made));
  CHECK(fs::exists(precious));
  CHECK(scratch.entries() == 1);
}

TEST_CASE("a temporary folder that cannot be made is named") {
  CHECK_THROWS_WITH(
      TemporaryFolder("/proc/none/name"),
      ContainsSubstring("/proc/none/name-") && ContainsSubstring(": cannot be made: "));
}

}  // namespace
}  // namespace strata
