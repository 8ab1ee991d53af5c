// The contract of Files, held against every implementation, and what only this machine's files
// have: two ways to write, system calls that stop halfway, disks that are full or refuse.

#include "strata/checkpoint/files.h"

#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/file_places.h"
#include "checkpoint/memory_files.h"
#include "strata/base/bytes.h"
#include "strata/base/start_thread.h"
#include "support/catch.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

enum class Which : std::uint8_t { kSystem, kMemory };

/// Files of one implementation, with an empty folder in them.
struct Place {
  explicit Place(Which which) {
    if (which == Which::kSystem) {
      files = make_system_files();
      scratch = std::make_unique<ScratchFolder>();
      folder = scratch->path();
    } else {
      folder = "/runs/a";
      files = std::make_unique<MemoryFiles>(folder);
    }
  }
  std::unique_ptr<ScratchFolder> scratch;
  std::unique_ptr<Files> files;
  fs::path folder;
};

Which any_implementation() { return GENERATE(Which::kSystem, Which::kMemory); }

std::string whole(const Place& place, const fs::path& file) {
  return read_whole(*place.files, file, kGiB);
}

TEST_CASE("files: what is written at any offset from any memory is read back") {
  const Place place(any_implementation());
  const fs::path file = place.folder / "file";
  // Begin in the file, begin in memory behind a block boundary, length.
  const std::vector<std::array<std::size_t, 3>> writes{
      {0, 0, 4096},      {4096, 0, 65536}, {69632, 1, 8192},    {77824, 0, 1},
      {77825, 1, 20000}, {97825, 77, 0},   {97825, 3617, 3000}, {100825, 0, 5 * kMiB}};
  std::string expected;
  {
    const auto writer = place.files->create(file);
    for (const auto& [offset, behind, length] : writes) {
      const PlacedBytes bytes(length, behind, offset);
      writer->write(offset, bytes.get());
      REQUIRE(expected.size() == offset);
      expected += bytes.text();
    }
    writer->sync();
  }
  CHECK(whole(place, file) == expected);

  const auto reader = place.files->open(file);
  REQUIRE(reader->bytes() == expected.size());
  for (const auto& [offset, behind, length] : writes) {
    const PlacedBytes out(length, behind, 1);
    reader->read(offset, out.get());
    CHECK(out.text() == expected.substr(offset, length));
  }
  const PlacedBytes out(8192, 0, 1);
  CHECK_THAT(io_error_of([&] { reader->read(expected.size() - 8191, out.get()); }),
             ContainsSubstring(file.string() + ": read at byte ") &&
                 ContainsSubstring("the file ends before that"));
}

TEST_CASE("files: a reserved file has its length, and zeros where nothing was written") {
  const Place place(any_implementation());
  const fs::path file = place.folder / "file";
  const auto writer = place.files->create(file);
  writer->reserve(10000);
  writer->write(5000, bytes_of("middle"));
  std::string expected(10000, '\0');
  expected.replace(5000, 6, "middle");
  CHECK(whole(place, file) == expected);
  writer->reserve(5003);
  CHECK(whole(place, file) == expected.substr(0, 5003));
  writer->reserve(6000);
  CHECK(whole(place, file) == expected.substr(0, 5003) + std::string(997, '\0'));
  writer->reserve(0);
  CHECK(whole(place, file).empty());
  writer->sync();
}

TEST_CASE("files: two writers fill one file whose ranges meet inside a block") {
  const Place place(any_implementation());
  const fs::path file = place.folder / "file";
  constexpr std::size_t kHalf = 3 * 4096 + 1234;
  const PlacedBytes first(kHalf, 0, 1);
  const PlacedBytes second(kHalf, kHalf % 4096, 2);
  for (int round = 0; round < 20; ++round) {
    place.files->create(file)->reserve(2 * kHalf);
    {
      const auto write = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
        return start_thread("writer", [&place, &file, offset, bytes] {
          const auto writer = place.files->open_to_write(file);
          writer->write(offset, bytes);
          writer->sync();
        });
      };
      const std::jthread a = write(0, first.get());
      const std::jthread b = write(kHalf, second.get());
    }
    REQUIRE(whole(place, file) == first.text() + second.text());
    place.files->remove(file);
  }
}

TEST_CASE("files: nothing that is there is made again") {
  const Place place(any_implementation());
  const fs::path file = place.folder / "name";
  write_whole(*place.files, file, bytes_of("old"));
  CHECK_THAT(io_error_of([&] { (void)place.files->create(file); }),
             ContainsSubstring(file.string() + ": create: File exists; remove what is there"));
  CHECK_THAT(io_error_of([&] { place.files->make_folder(file); }),
             ContainsSubstring(file.string() + ": make folder: File exists"));
  place.files->make_folder(place.folder / "folder");
  CHECK_THAT(io_error_of([&] { place.files->make_folder(place.folder / "folder"); }),
             ContainsSubstring("File exists"));
  CHECK_THAT(io_error_of([&] { (void)place.files->create(place.folder / "folder"); }),
             ContainsSubstring("File exists"));
  CHECK(whole(place, file) == "old");
}

TEST_CASE("files: what is not there is named") {
  const Place place(any_implementation());
  const fs::path none = place.folder / "none";
  const std::string what = none.string() + ": ";
  const std::string why = ": No such file or directory";
  CHECK(io_error_of([&] { (void)place.files->open(none); }) == what + "open" + why);
  CHECK(io_error_of([&] { (void)place.files->open_to_write(none); }) ==
        what + "open to write" + why);
  CHECK(io_error_of([&] { place.files->remove(none); }) == what + "remove" + why);
  CHECK(io_error_of([&] { (void)place.files->list(none); }) == what + "list" + why);
  CHECK(io_error_of([&] { place.files->sync_folder(none); }) == what + "open folder" + why);
  CHECK(io_error_of([&] { place.files->rename(none, place.folder / "b"); }) ==
        what + "rename to " + (place.folder / "b").string() + why);
  CHECK_THAT(io_error_of([&] { (void)place.files->create(none / "a"); }), ContainsSubstring(why));
  CHECK_THAT(io_error_of([&] { place.files->make_folder(none / "a"); }), ContainsSubstring(why));
  CHECK(place.files->kind(none) == Files::Kind::kNothing);
  CHECK(place.files->kind(none / "a") == Files::Kind::kNothing);
}

TEST_CASE("files: a file is no folder, and a folder no file") {
  const Place place(any_implementation());
  const fs::path file = place.folder / "file";
  const fs::path folder = place.folder / "folder";
  write_whole(*place.files, file, bytes_of("x"));
  place.files->make_folder(folder);
  CHECK(place.files->kind(file) == Files::Kind::kFile);
  CHECK(place.files->kind(folder) == Files::Kind::kFolder);
  CHECK(place.files->kind(file / "a") == Files::Kind::kNothing);
  CHECK_THAT(io_error_of([&] { (void)place.files->create(file / "a"); }),
             ContainsSubstring("Not a directory"));
  CHECK_THAT(io_error_of([&] { (void)place.files->list(file); }),
             ContainsSubstring("Not a directory"));
  CHECK_THAT(io_error_of([&] { place.files->sync_folder(file); }),
             ContainsSubstring("Not a directory"));
  CHECK_THAT(io_error_of([&] { (void)place.files->open(folder); }),
             ContainsSubstring("folder: open: is not a regular file"));
  CHECK_THAT(io_error_of([&] { (void)place.files->open_to_write(folder); }),
             ContainsSubstring("folder: open to write: Is a directory"));
}

TEST_CASE("files: a rename replaces a file and never a folder") {
  const Place place(any_implementation());
  Files& files = *place.files;
  const fs::path a = place.folder / "a";
  const fs::path b = place.folder / "b";
  write_whole(files, a, bytes_of("new"));
  write_whole(files, b, bytes_of("old"));
  files.rename(a, b);
  CHECK(whole(place, b) == "new");
  CHECK(files.kind(a) == Files::Kind::kNothing);

  const fs::path full = place.folder / "full";
  const fs::path empty = place.folder / "empty";
  files.make_folder(full);
  files.make_folder(empty);
  files.rename(b, full / "b");
  CHECK_THAT(io_error_of([&] { files.rename(full, empty); }),
             ContainsSubstring(full.string() + ": rename to " + empty.string() + ": File exists"));
  CHECK_THAT(io_error_of([&] { files.rename(full / "b", empty); }),
             ContainsSubstring("Is a directory"));
  write_whole(files, a, bytes_of("file"));
  CHECK_THAT(io_error_of([&] { files.rename(full, a); }), ContainsSubstring("File exists"));
  CHECK_THAT(io_error_of([&] { files.rename(full, full / "inside"); }),
             ContainsSubstring("Invalid argument"));
  files.rename(full, place.folder / "other");
  CHECK(whole(place, place.folder / "other" / "b") == "new");
  CHECK(files.list(place.folder) == std::vector<std::string>{"a", "empty", "other"});
}

TEST_CASE("files: folders are listed, synchronised, and removed when they are empty") {
  const Place place(any_implementation());
  Files& files = *place.files;
  const fs::path folder = place.folder / "folder";
  files.make_folder(folder);
  CHECK(files.list(folder).empty());
  for (const std::string name : {"b", "a", ".c", "step-10", "step-9"}) {
    write_whole(files, folder / name, bytes_of(name));
  }
  files.sync_folder(folder);
  CHECK(files.list(folder) == std::vector<std::string>{".c", "a", "b", "step-10", "step-9"});
  CHECK_THAT(io_error_of([&] { files.remove(folder); }),
             ContainsSubstring(folder.string() + ": remove: Directory not empty"));
  for (const std::string& name : files.list(folder)) files.remove(folder / name);
  files.remove(folder);
  CHECK(files.kind(folder) == Files::Kind::kNothing);
}

TEST_CASE("files: a folder is removed with all that is in it, and nothing else") {
  const Place place(any_implementation());
  Files& files = *place.files;
  write_whole(files, place.folder / "kept", bytes_of("kept"));
  const fs::path tree = place.folder / "tree";
  for (const fs::path& folder : {tree, tree / "model", tree / "model" / "deep", tree / "state"}) {
    files.make_folder(folder);
    write_whole(files, folder / "file", bytes_of("x"));
  }
  remove_all(files, tree);
  CHECK(files.list(place.folder) == std::vector<std::string>{"kept"});
  remove_all(files, tree);
  remove_all(files, place.folder / "kept");
  CHECK(files.list(place.folder).empty());
}

TEST_CASE("files: a file that is removed or renamed while it is open stays what it is") {
  const Place place(any_implementation());
  const fs::path file = place.folder / "file";
  write_whole(*place.files, file, bytes_of("old"));
  const auto reader = place.files->open(file);
  const auto writer = place.files->open_to_write(file);
  place.files->rename(file, place.folder / "moved");
  writer->write(0, bytes_of("new"));
  CHECK(whole(place, place.folder / "moved") == "new");
  place.files->remove(place.folder / "moved");
  std::string text(3, '\0');
  reader->read(0, std::as_writable_bytes(std::span(text)));
  CHECK(text == "new");
}

TEST_CASE("files: a whole file is read up to its bound, and one beyond it is refused") {
  const Place place(any_implementation());
  const fs::path file = place.folder / "file";
  write_whole(*place.files, file, bytes_of("12345"));
  CHECK(read_whole(*place.files, file, 5) == "12345");
  CHECK(io_error_of([&] { (void)read_whole(*place.files, file, 4); }) ==
        file.string() + ": read: has 5 B, and at most 4 B are expected here");
  write_whole(*place.files, place.folder / "empty", {});
  CHECK(read_whole(*place.files, place.folder / "empty", 0).empty());
}

TEST_CASE("files: the room that is left is told") {
  const Place place(any_implementation());
  const std::optional<std::uint64_t> room = place.files->free_bytes(place.folder);
  REQUIRE(room);
  CHECK(*room > kMiB);
  CHECK_THAT(io_error_of([&] {
               place.files->create(place.folder / "file")->reserve(*room / 4096 * 4096 + 4 * kGiB);
             }),
             ContainsSubstring("No space left on device; free space on this disk, or keep fewer"));
}

}  // namespace
}  // namespace strata
