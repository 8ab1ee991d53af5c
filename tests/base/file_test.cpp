// Tests that whatever a name leads to, opening it ends at once, with the file's name and a remedy.

#include "strata/base/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "strata/base/error.h"
#include "support/catch.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// An empty folder that is removed at the end of the test.
struct Folder {
  Folder() : path(fs::temp_directory_path() / ("strata_file_" + std::to_string(::getpid()))) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path path;
};

std::string refusal(const fs::path& file) {
  try {
    (void)read_text_file(file, 1000);
  } catch (const IoError& e) {
    return e.what();
  }
  return "no error";
}

TEST_CASE("pipes, devices, folders and links in a circle are refused by name and at once") {
  const Folder folder;
  const fs::path pipe = folder.path / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  fs::create_symlink(folder.path / "b", folder.path / "a");
  fs::create_symlink(folder.path / "a", folder.path / "b");
  CHECK_THAT(refusal(pipe), ContainsSubstring("pipe: is not a regular file but a pipe"));
  CHECK_THAT(refusal("/dev/zero"), ContainsSubstring("/dev/zero: is not a regular file"));
  CHECK_THAT(refusal(folder.path), ContainsSubstring("but a folder; name a regular file"));
  CHECK_THAT(refusal(folder.path / "a"), ContainsSubstring("instead of links in a circle"));
  CHECK_THAT(refusal(folder.path / "none"), ContainsSubstring("check the path"));
  const std::string endless = refusal("/" + std::string(5000, 'x'));
  CHECK_THAT(endless, ContainsSubstring("give it a shorter path"));
  CHECK(endless.size() < 200);
}

TEST_CASE("a text is read up to its bound, and one beyond it is refused") {
  const Folder folder;
  const fs::path file = folder.path / "text";
  std::ofstream(file) << std::string(1000, 'x');
  CHECK(read_text_file(file, 1000) == std::string(1000, 'x'));
  CHECK_THROWS_WITH(read_text_file(file, 999), ContainsSubstring("has more than 999 B"));
  std::ofstream(file) << "";
  CHECK(read_text_file(file, 1000).empty());
}

TEST_CASE("sampled hashes tell files apart by length and by contents") {
  const Folder folder;
  const auto hash = [&](const std::string& text) {
    std::ofstream(folder.path / "f", std::ios::binary) << text;
    return sampled_hash(InputFile(folder.path / "f"));
  };
  const std::string large(3 << 20, 'x');
  std::string head = large;
  head.front() = 'y';
  std::string tail = large;
  tail.back() = 'y';
  CHECK(hash(large) == hash(large));
  CHECK(hash(large) != hash(head));
  CHECK(hash(large) != hash(tail));
  CHECK(hash(large) != hash(large + "x"));
  CHECK(hash("") != hash(std::string(1, '\0')));
}

}  // namespace
}  // namespace strata
