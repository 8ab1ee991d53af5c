// Tests that whatever a name leads to, opening it ends at once, with the file's name and a remedy.

#include "strata/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

std::string refusal(const fs::path& file) {
  try {
    (void)read_text_file(file, 1000);
  } catch (const IoError& e) {
    return e.what();
  }
  return "no error";
}

TEST_CASE("pipes, devices, folders and links in a circle are refused by name and at once") {
  const ScratchFolder folder;
  const fs::path pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  fs::create_symlink(folder.file("b"), folder.file("a"));
  fs::create_symlink(folder.file("a"), folder.file("b"));
  CHECK_THAT(refusal(pipe), ContainsSubstring("pipe: is not a regular file but a pipe"));
  CHECK_THAT(refusal("/dev/zero"), ContainsSubstring("/dev/zero: is not a regular file"));
  CHECK_THAT(refusal(folder.file("")), ContainsSubstring("but a folder; name a regular file"));
  CHECK_THAT(refusal(folder.file("a")), ContainsSubstring("instead of links in a circle"));
  CHECK_THAT(refusal(folder.file("none")), ContainsSubstring("check the path"));
  const std::string endless = refusal("/" + std::string(5000, 'x'));
  CHECK_THAT(endless, ContainsSubstring("give it a shorter path"));
  CHECK(endless.size() < 200);
}

/// Returns what a model's folder gives under a name, or why it does not.
std::string of_model(const fs::path& file) {
  try {
    return read_text_file(file, 1000, Links::kOfModel);
  } catch (const IoError& e) {
    return e.what();
  }
}

TEST_CASE("a link in a folder that strata writes is refused, wherever it leads") {
  const ScratchFolder folder;
  folder.write("run/text", "text");
  fs::create_symlink("text", folder.file("run/link"));
  CHECK(read_text_file(folder.file("run/text"), 10, Links::kRefuse) == "text");
  CHECK_THROWS_WITH(read_text_file(folder.file("run/link"), 10, Links::kRefuse),
                    ContainsSubstring("run/link: is a link") && ContainsSubstring("cp -L"));
  CHECK(read_text_file(folder.file("run/link"), 10) == "text");
  fs::create_directory_symlink(folder.file("run"), folder.file("named"));
  CHECK(read_text_file(folder.file("named/text"), 10, Links::kRefuse) == "text");
}

TEST_CASE("links of a model's folder lead within it, and nowhere else") {
  const ScratchFolder folder;
  folder.write("secret", "secret");
  folder.write("model-2/text", "another");
  folder.write("model/store/text", "text");
  fs::create_symlink("store/text", folder.file("model/link"));
  fs::create_symlink("link", folder.file("model/link-to-it"));
  fs::create_directory_symlink(folder.file("model"), folder.file("named"));
  for (const char* name : {"model/link", "model/link-to-it", "named/link-to-it"}) {
    CHECK(of_model(folder.file(name)) == "text");
  }
  fs::create_symlink(folder.file("secret"), folder.file("model/out"));
  fs::create_symlink("../model-2/text", folder.file("model/beside"));
  fs::create_symlink("out", folder.file("model/out-by-another"));
  fs::create_directory_symlink("..", folder.file("model/up"));
  fs::create_symlink("up/secret", folder.file("model/out-by-a-folder"));
  for (const char* name :
       {"model/out", "model/beside", "model/out-by-another", "model/out-by-a-folder"}) {
    CHECK_THAT(of_model(folder.file(name)), ContainsSubstring("out of the model's folder") &&
                                                ContainsSubstring("cp -rL") &&
                                                ContainsSubstring(folder.file(name)));
  }
  fs::create_symlink("nothing", folder.file("model/nowhere"));
  CHECK_THAT(of_model(folder.file("model/nowhere")), ContainsSubstring("check the path"));
  fs::create_symlink("circle", folder.file("model/circle"));
  CHECK_THAT(of_model(folder.file("model/circle")), ContainsSubstring("links in a circle"));
}

TEST_CASE("a snapshot of a hub cache has its files among the blobs of its model alone") {
  const ScratchFolder folder;
  folder.write("secret", "secret");
  folder.write("hub/models--a/blobs/12ab", "blob");
  folder.write("hub/models--b/blobs/12ab", "blob of another");
  folder.write("hub/models--a/refs/main", "revision");
  const std::string snapshot = "hub/models--a/snapshots/34cd/";
  fs::create_directories(folder.file(snapshot + "original"));
  fs::create_symlink("../../blobs/12ab", folder.file(snapshot + "config.json"));
  fs::create_symlink("../../../blobs/12ab", folder.file(snapshot + "original/tokenizer.model"));
  fs::create_directory_symlink(folder.file(snapshot), folder.file("named"));
  CHECK(of_model(folder.file(snapshot + "config.json")) == "blob");
  CHECK(of_model(folder.file(snapshot + "original/tokenizer.model")) == "blob");
  CHECK(of_model(folder.file("named/config.json")) == "blob");
  fs::create_symlink("../../refs/main", folder.file(snapshot + "a"));
  fs::create_symlink("../../../models--b/blobs/12ab", folder.file(snapshot + "b"));
  fs::create_symlink("../../blobs/out", folder.file(snapshot + "c"));
  fs::create_symlink(folder.file("secret"), folder.file("hub/models--a/blobs/out"));
  for (const char* name : {"a", "b", "c"}) {
    CHECK_THAT(of_model(folder.file(snapshot + name)),
               ContainsSubstring("out of the model's folder"));
  }
  fs::create_directories(folder.file("models--x/snapshots"));  // without a revision
  fs::create_symlink(folder.file("secret"), folder.file("models--x/snapshots/a"));
  CHECK_THAT(of_model(folder.file("models--x/snapshots/a")),
             ContainsSubstring("out of the model's folder"));
}

TEST_CASE("what is written as it is is a regular file and no link, and nothing waits for it") {
  const ScratchFolder folder;
  const std::string target = folder.write("target", "text");
  fs::create_symlink(target, folder.file("link"));
  fs::create_symlink(folder.file("none"), folder.file("dangling"));
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  for (const int flags : {O_WRONLY, O_WRONLY | O_APPEND, O_RDWR}) {
    for (const char* link : {"link", "dangling"}) {
      CHECK_THROWS_WITH(open_to_write(folder.file(link), flags),
                        ContainsSubstring(link) && ContainsSubstring("is a link"));
    }
    CHECK_THROWS_AS(open_to_write(folder.file("pipe"), flags), IoError);
    CHECK_THROWS_AS(open_to_write("/dev/null", flags), IoError);
    CHECK_THROWS_AS(open_to_write(folder.file(""), flags), IoError);
    const int made = open_to_write(folder.file("made"), flags);
    CHECK(::write(made, "more", 4) == 4);
    ::close(made);
  }
  CHECK(read_text_file(target, 10) == "text");
  CHECK_FALSE(fs::exists(folder.file("none")));
}

TEST_CASE("what the system does not show is neither there nor not") {
  const ScratchFolder folder;
  fs::create_symlink("nothing", folder.file("dangling"));
  CHECK(is_there(folder.file("dangling")));
  CHECK_FALSE(is_there(folder.file("none")));
  CHECK_FALSE(is_there(folder.write("file", "") + "/none"));
  fs::create_symlink("circle", folder.file("circle"));
  CHECK_THROWS_WITH(is_there(folder.file("circle/none")), ContainsSubstring("cannot be looked at"));
}

TEST_CASE("a text is read up to its bound, and one beyond it is refused") {
  const ScratchFolder folder;
  const fs::path file = folder.file("text");
  std::ofstream(file) << std::string(1000, 'x');
  CHECK(read_text_file(file, 1000) == std::string(1000, 'x'));
  CHECK_THROWS_WITH(read_text_file(file, 999), ContainsSubstring("has more than 999 B"));
  std::ofstream(file) << "";
  CHECK(read_text_file(file, 1000).empty());
}

TEST_CASE("sampled hashes tell files apart by length and by contents") {
  const ScratchFolder folder;
  const auto hash = [&](const std::string& text) {
    std::ofstream(folder.file("f"), std::ios::binary) << text;
    return sampled_hash(InputFile(folder.file("f")));
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
