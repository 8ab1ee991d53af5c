// Crashes what was not synchronised, and sees that all of it may be lost, each thing by itself, and
// nothing else. The oracle of each test is the list of states that it allows.

#include "checkpoint/memory_files.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/file_places.h"
#include "strata/base/bytes.h"
#include "strata/base/start_thread.h"
#include "support/catch.h"

namespace strata {
namespace {

/// Returns the tree below a folder as a text: names, and the lengths of files or, if they are
/// short, what they hold.
std::string tree_of(const Files& files, const Files::Path& folder) {
  std::string text;
  for (const std::string& name : files.list(folder)) {
    if (!text.empty()) text += ' ';
    text += name;
    if (files.kind(folder / name) == Files::Kind::kFolder) {
      text += '(' + tree_of(files, folder / name) + ')';
      continue;
    }
    std::string content = read_whole(files, folder / name, kGiB);
    std::ranges::replace(content, '\0', '0');
    if (!content.empty()) text += '=' + content;
  }
  return text;
}

/// Returns the different states that a crash after `prefix` operations may leave.
std::set<std::string> states(const MemoryFiles& files, std::size_t prefix) {
  std::set<std::string> all;
  for (std::size_t choice = 0; choice < files.crash_choices(prefix); ++choice) {
    all.insert(tree_of(*files.crash_state(prefix, choice), "/"));
  }
  return all;
}
std::set<std::string> states(const MemoryFiles& files) { return states(files, files.operations()); }

using States = std::set<std::string>;

TEST_CASE("a crash keeps what file and folder were synchronised for, and only that for certain") {
  MemoryFiles files;
  const auto writer = files.create("/a");
  CHECK(states(files) == States{"", "a"});
  writer->write(0, bytes_of("xyz"));
  CHECK(states(files) == States{"", "a", "a=xyz", "a=000"});
  writer->sync();
  CHECK(states(files) == States{"", "a=xyz"});
  files.sync_folder("/");
  CHECK(states(files) == States{"a=xyz"});
  CHECK(files.crash_choices(files.operations()) == 1);
  files.remove("/a");
  CHECK(states(files) == States{"", "a=xyz"});
  files.sync_folder("/");
  CHECK(states(files) == States{""});
  CHECK(states(files, 0) == States{""});
  CHECK(states(files, 4) == States{"a=xyz"});
}

TEST_CASE("a synchronised name does not save the bytes of its file") {
  MemoryFiles files;
  files.create("/a")->write(0, bytes_of("x"));
  files.sync_folder("/");
  CHECK(states(files) == States{"a", "a=0", "a=x"});
}

TEST_CASE("a rename that replaces a file happens whole or not at all") {
  MemoryFiles files;
  write_whole(files, "/old", bytes_of("1"));
  write_whole(files, "/new", bytes_of("2"));
  files.sync_folder("/");
  files.rename("/new", "/old");
  CHECK(states(files) == States{"new=2 old=1", "old=2"});
  files.sync_folder("/");
  CHECK(states(files) == States{"old=2"});
}

TEST_CASE("a rename between folders is certain once both are synchronised") {
  MemoryFiles files;
  files.make_folder("/a");
  files.make_folder("/b");
  write_whole(files, "/a/f", bytes_of("1"));
  files.sync_folder("/a");
  files.sync_folder("/");
  files.rename("/a/f", "/b/f");
  const States either{"a(f=1) b()", "a() b(f=1)"};
  CHECK(states(files) == either);
  files.sync_folder("/b");
  CHECK(states(files) == either);
  files.sync_folder("/a");
  CHECK(states(files) == States{"a() b(f=1)"});
}

TEST_CASE("names in several folders are lost independently of each other") {
  MemoryFiles files;
  files.make_folder("/a");
  files.make_folder("/b");
  files.sync_folder("/");
  (void)files.create("/a/f");
  (void)files.create("/b/f");
  CHECK(states(files) == States{"a() b()", "a(f) b()", "a() b(f)", "a(f) b(f)"});
}

TEST_CASE("a folder that is lost takes along what was synchronised in it") {
  MemoryFiles files;
  files.make_folder("/a");
  write_whole(files, "/a/f", bytes_of("1"));
  files.sync_folder("/a");
  CHECK(states(files) == States{"", "a(f=1)"});
  files.rename("/a", "/b");
  CHECK(states(files) == States{"", "a(f=1)", "b(f=1)"});
}

TEST_CASE(
    "the way of a checkpoint is safe after every operation, and without any fsync it is not") {
  // Operations that are left out: none, or the one with this index.
  const auto save = [](MemoryFiles& files, std::optional<int> omitted) {
    int operation = 0;
    const auto unless_omitted = [&](const std::function<void()>& synchronise) {
      if (operation++ != omitted) synchronise();
    };
    files.make_folder("/tmp");
    {
      const auto writer = files.create("/tmp/f");
      writer->reserve(2);
      writer->write(0, bytes_of("12"));
      unless_omitted([&] { writer->sync(); });
    }
    unless_omitted([&] { files.sync_folder("/tmp"); });
    unless_omitted([&] { files.sync_folder("/"); });
    files.rename("/tmp", "/step");
    unless_omitted([&] { files.sync_folder("/"); });
    return operation;
  };
  const auto is_safe = [&](std::optional<int> omitted) {
    MemoryFiles files;
    (void)save(files, omitted);
    bool safe = states(files) == States{"step(f=12)"};
    for (std::size_t prefix = 0; prefix <= files.operations(); ++prefix) {
      for (const std::string& state : states(files, prefix)) {
        safe &= state.find("step") == std::string::npos || state == "step(f=12)";
      }
    }
    return safe;
  };
  CHECK(is_safe(std::nullopt));
  CHECK_FALSE(is_safe(0));
  CHECK_FALSE(is_safe(1));
  CHECK(is_safe(2));  // the parent need not know the temporary name
  CHECK_FALSE(is_safe(3));
}

TEST_CASE("writes are torn at sectors, and lengths may be lost", "[one_thread]") {
  MemoryFiles files;
  const auto writer = files.create("/a");
  writer->reserve(4096);
  writer->sync();
  files.sync_folder("/");
  const std::string ones(2000, '1');
  writer->write(300, bytes_of(ones));
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const auto crashed = files.crash_state(files.operations(), 2, seed);
    const std::string content = read_whole(*crashed, "/a", 4096);
    REQUIRE(content.size() == 4096);
    bool possible = true;
    for (std::size_t i = 0; i < content.size(); ++i) {
      const bool written = i >= 300 && i < 2300;
      possible &= content[i] == '\0' || (written && content[i] == '1');
      const bool same_sector = i % 512 != 0 && written && i != 300;
      possible &= !same_sector || content[i] == content[i - 1];
    }
    REQUIRE(possible);
    seen.insert(content);
  }
  CHECK(seen.size() == 32);  // sectors [300, 512) ... [2048, 2300): five, each there or not

  writer->sync();
  writer->reserve(8192);
  std::set<std::size_t> lengths;
  for (std::size_t choice = 0; choice < files.crash_choices(files.operations()); ++choice) {
    lengths.insert(read_whole(*files.crash_state(files.operations(), choice), "/a", 8192).size());
  }
  CHECK(lengths == std::set<std::size_t>{4096, 8192});
}

TEST_CASE("what a failed sync was for may be lost whatever synchronises it later") {
  MemoryFiles files;
  (void)files.create("/a");
  files.sync_folder("/");
  const auto writer = files.open_to_write("/a");
  writer->write(0, bytes_of("x"));
  files.fail_at(files.operations(), EIO);
  CHECK_THAT(io_error_of([&] { writer->sync(); }),
             ContainsSubstring("/a: synchronise: Input/output error"));
  CHECK_THAT(io_error_of([&] { writer->sync(); }), ContainsSubstring("/a: synchronise"));
  const auto other = files.open_to_write("/a");
  other->write(1, bytes_of("y"));
  other->sync();
  CHECK(states(files) == States{"a=xy", "a=0y"});
}

TEST_CASE("every operation fails once, on demand, and what it did not do may be done again") {
  const auto change_all = [](MemoryFiles& files) {
    files.make_folder("/a");
    const auto writer = files.create("/a/f");
    writer->reserve(4096);
    writer->write(0, bytes_of(std::string(4096, 'x')));
    writer->sync();
    files.sync_folder("/a");
    files.rename("/a/f", "/a/g");
    files.remove("/a/g");
  };
  MemoryFiles whole;
  change_all(whole);
  const std::size_t operations = whole.operations();
  REQUIRE(operations == 8);
  CHECK(whole.operation(3).to_string() == "write /a/f [0, 4096)");
  CHECK(whole.operation(6).to_string() == "rename /a/f to /a/g");
  for (std::size_t i = 0; i < operations; ++i) {
    MemoryFiles files;
    files.fail_at(i, EROFS);
    CHECK_THAT(io_error_of([&] { change_all(files); }),
               ContainsSubstring("Read-only file system; make it readable and writable"));
    CHECK(files.operations() == i + 1);
    CHECK(files.operation(i).error == EROFS);
    CHECK(files.operation(i).change == whole.operation(i).change);
    if (i == 3) {
      CHECK(read_whole(files, "/a/f", 4096) == std::string(2048, 'x') + std::string(2048, '\0'));
    }
    remove_all(files, "/a");
    change_all(files);
  }
}

TEST_CASE(
    "a disk that fails from some operation on fails all that follow, and reads by themselves") {
  MemoryFiles files;
  write_whole(files, "/a", bytes_of("1"));
  files.fail_from(files.operations() + 1, ENOSPC);
  files.make_folder("/b");
  for (int i = 0; i < 3; ++i) {
    CHECK_THAT(io_error_of([&] { (void)files.create("/c"); }), ContainsSubstring("No space left"));
  }
  CHECK(files.list("/") == std::vector<std::string>{"a", "b"});
  files.fail_read_at(files.reads() + 1, EIO);
  CHECK_THAT(io_error_of([&] { (void)read_whole(files, "/a", 1); }),
             ContainsSubstring("/a: read at byte 0: Input/output error"));
  CHECK(read_whole(files, "/a", 1) == "1");
}

TEST_CASE("a disk of given size is full when it is full") {
  MemoryFiles files;
  files.set_capacity(1000);
  const auto writer = files.create("/a");
  writer->reserve(600);
  CHECK(files.free_bytes("/") == 400u);
  CHECK_THAT(io_error_of([&] { files.create("/b")->write(0, bytes_of(std::string(500, 'x'))); }),
             ContainsSubstring("checkpoint.keep"));
  files.remove("/a");
  CHECK(files.free_bytes("/") == 1000u);
  files.open_to_write("/b")->write(0, bytes_of(std::string(500, 'x')));
}

TEST_CASE("a crashed state is a disk of its own, and can be crashed again") {
  MemoryFiles files;
  write_whole(files, "/a", bytes_of("1"));
  files.sync_folder("/");
  const auto crashed = files.crash_state(files.operations(), 0);
  crashed->open_to_write("/a")->write(0, bytes_of("2"));
  (void)crashed->create("/b");
  CHECK(tree_of(files, "/") == "a=1");
  CHECK(tree_of(*crashed, "/") == "a=2 b");
  CHECK(states(*crashed) == States{"a=1", "a=1 b", "a=2", "a=2 b"});
  crashed->rename("/a", "/b");
  crashed->sync_folder("/");
  CHECK(states(*crashed) == States{"b=1", "b=2"});
}

TEST_CASE("random changes: no crash loses what was synchronised, nor invents anything",
          "[one_thread]") {
  // Files are written once with their name's own contents, so every state can be judged by itself.
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    MemoryFiles files("/r");
    std::map<std::string, std::size_t> certain;  // names, and the operation after which they are
    std::vector<std::string> pending;
    std::size_t draws = 0;
    const auto draw = [&](std::size_t n) { return random_bits(seed, 7, draws++) % n; };
    for (int i = 0; i < 25; ++i) {
      const std::string name = "f" + std::to_string(i);
      const auto writer = files.create("/r/" + name);
      if (draw(2) == 0) writer->reserve(900);
      writer->write(0, bytes_of(std::string(900, 'x')));
      if (draw(3) == 0) continue;
      writer->sync();
      pending.push_back(name);
      if (draw(3) != 0) continue;
      files.sync_folder("/r");
      for (const std::string& done : pending) certain[done] = files.operations();
      pending.clear();
    }
    for (std::size_t prefix = 0; prefix <= files.operations(); prefix += 13) {
      for (std::size_t choice = 0; choice < files.crash_choices(prefix); ++choice) {
        const auto crashed = files.crash_state(prefix, choice, seed);
        bool right = true;
        for (const auto& [name, since] : certain) {
          if (prefix < since) continue;
          right &= read_whole(*crashed, "/r/" + name, 900) == std::string(900, 'x');
        }
        for (const std::string& name : crashed->list("/r")) {
          right &= files.kind("/r/" + name) == Files::Kind::kFile;
          const std::string content = read_whole(*crashed, "/r/" + name, 900);
          right &= content.find_first_not_of(std::string("x\0", 2)) == std::string::npos;
        }
        REQUIRE(right);
      }
    }
  }
}

TEST_CASE("several threads may use files in memory, and crash them meanwhile") {
  MemoryFiles files;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.push_back(start_thread("files", [&files, t] {
        const std::string folder = "/" + std::to_string(t);
        files.make_folder(folder);
        for (int i = 0; i < 20; ++i) {
          write_whole(files, folder + "/" + std::to_string(i), bytes_of("abc"));
          files.sync_folder(folder);
          const std::size_t prefix = files.operations();
          (void)files.crash_state(prefix, files.crash_choices(prefix) - 1)->list("/");
        }
      }));
    }
  }
  files.sync_folder("/");
  const std::size_t end = files.operations();
  CHECK(files.crash_choices(end) == 1);
  const auto crashed = files.crash_state(end, 0);
  for (int t = 0; t < 4; ++t) CHECK(crashed->list("/" + std::to_string(t)).size() == 20);
}

}  // namespace
}  // namespace strata
