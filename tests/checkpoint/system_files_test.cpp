// What only this machine's files have: two ways to write, system calls that stop halfway or refuse,
// names that lead elsewhere, and disks that are full or may not be written.

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "checkpoint/file_places.h"
#include "checkpoint/system_calls.h"
#include "checkpoint/write_behind.h"
#include "strata/base/bytes.h"
#include "strata/base/start_thread.h"
#include "support/catch.h"
#include "support/exchanged_link.h"
#include "support/patience.h"
#include "support/scratch_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

enum class Call : std::uint8_t { kOpen, kWrite, kRead, kAllocate, kSync, kSyncRange, kRename };

/// What system calls are made to do, and what they did.
struct Script {
  /// Returns the error number that a call fails with, 0 if it is to be made. `direct` is of the
  /// descriptor, or of what is opened.
  std::function<int(Call call, bool direct)> fault = [](Call, bool) { return 0; };
  std::function<void(Call call)> before = [](Call) {};  ///< called first, by any number of threads
  std::size_t most_bytes = SIZE_MAX;                    ///< that one call writes or reads

  std::map<Call, int> calls;
  std::uint64_t direct_bytes = 0;  ///< written
  std::uint64_t buffered_bytes = 0;
  std::uint64_t loose_bytes = 0;  ///< written through the page cache and not waited for
  std::uint64_t most_loose_bytes = 0;
  int open_descriptors = 0;
  std::mutex mutex;
};

class ScriptedCalls final : public SystemCalls {
 public:
  explicit ScriptedCalls(Script& script) : script_(script) {}

  int open(const char* path, int flags, mode_t mode) const override {
    if (fails(Call::kOpen, (flags & O_DIRECT) != 0)) return -1;
    const int descriptor = SystemCalls::open(path, flags, mode);
    const std::scoped_lock lock(script_.mutex);
    if (descriptor >= 0) ++script_.open_descriptors;
    return descriptor;
  }
  ssize_t pwrite(int descriptor, const void* from, std::size_t bytes, off_t offset) const override {
    const bool direct = is_direct(descriptor);
    if (fails(Call::kWrite, direct)) return -1;
    const ssize_t done =
        SystemCalls::pwrite(descriptor, from, std::min(bytes, script_.most_bytes), offset);
    const std::scoped_lock lock(script_.mutex);
    if (done <= 0) return done;
    (direct ? script_.direct_bytes : script_.buffered_bytes) += static_cast<std::uint64_t>(done);
    if (!direct) script_.loose_bytes += static_cast<std::uint64_t>(done);
    script_.most_loose_bytes = std::max(script_.most_loose_bytes, script_.loose_bytes);
    return done;
  }
  ssize_t pread(int descriptor, void* to, std::size_t bytes, off_t offset) const override {
    if (fails(Call::kRead, is_direct(descriptor))) return -1;
    return SystemCalls::pread(descriptor, to, std::min(bytes, script_.most_bytes), offset);
  }
  int fallocate(int descriptor, off_t bytes) const override {
    return fails(Call::kAllocate, false) ? -1 : SystemCalls::fallocate(descriptor, bytes);
  }
  int fsync(int descriptor) const override {
    return fails(Call::kSync, false) ? -1 : SystemCalls::fsync(descriptor);
  }
  int sync_file_range(int descriptor, off_t offset, off_t bytes, unsigned flags) const override {
    if (fails(Call::kSyncRange, false)) return -1;
    const std::scoped_lock lock(script_.mutex);
    if ((flags & SYNC_FILE_RANGE_WAIT_AFTER) != 0) {
      script_.loose_bytes -= static_cast<std::uint64_t>(bytes);
    }
    return SystemCalls::sync_file_range(descriptor, offset, bytes, flags);
  }
  int rename_to_new(const char* from, const char* to) const override {
    return fails(Call::kRename, false) ? -1 : SystemCalls::rename_to_new(from, to);
  }
  int close(int descriptor) const override {
    const std::scoped_lock lock(script_.mutex);
    --script_.open_descriptors;
    return SystemCalls::close(descriptor);
  }

 private:
  static bool is_direct(int descriptor) { return (::fcntl(descriptor, F_GETFL) & O_DIRECT) != 0; }
  bool fails(Call call, bool direct) const {
    script_.before(call);
    const std::scoped_lock lock(script_.mutex);
    ++script_.calls[call];
    errno = script_.fault(call, direct);
    return errno != 0;
  }

  Script& script_;
};

std::unique_ptr<Files> scripted(Script& script) {
  return make_system_files(std::make_unique<const ScriptedCalls>(script));
}

/// Returns what a program that knows nothing of strata reads.
std::string read_plainly(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// A file written in aligned, unaligned and tiny ranges, with its length reserved.
std::string write_mixed(Files& files, const fs::path& file) {
  const PlacedBytes header(100, 0, 1);
  const PlacedBytes body(20 * 4096 + 17, 100, 2);
  const PlacedBytes end(3 * 4096, 5, 3);
  const std::string text = header.text() + body.text() + end.text();
  const auto writer = files.create(file);
  writer->reserve(text.size());
  writer->write(0, header.get());
  writer->write(100, body.get());
  writer->write(100 + body.get().size(), end.get());
  writer->sync();
  return text;
}

/// Returns whether this folder's file system takes direct writes.
bool has_direct_writes(const fs::path& folder) {
  const auto files = make_system_files();
  const PlacedBytes block(kFileAlignment, 0, 1);
  const auto writer = files->create(folder / "direct");
  writer->write(0, block.get());
  files->remove(folder / "direct");
  return writer->direct();
}

/// Runs `body` in a child process that `prepare` changes first; returns what it returns, or nothing
/// if `prepare` could not do that.
std::optional<std::string> in_child(const std::function<bool()>& prepare,
                                    const std::function<std::string()>& body) {
  constexpr int kUnprepared = 99;
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(static_cast<unsigned>(test::kPatienceS));
    if (!prepare()) ::_exit(kUnprepared);
    const std::string text = body();
    (void)!::write(ends[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 512> part{};
  for (ssize_t n = 0; (n = ::read(ends[0], part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kUnprepared) return std::nullopt;
  return text;
}

TEST_CASE("whole blocks go past the page cache, and edges through it") {
  const ScratchFolder scratch;
  Script script;
  const auto files = scripted(script);
  const std::string text = write_mixed(*files, scratch.path() / "file");
  CHECK(read_plainly(scratch.path() / "file") == text);
  CHECK(script.direct_bytes + script.buffered_bytes == text.size());
  CHECK(script.open_descriptors == 0);
  if (!has_direct_writes(scratch.path()) || ::sysconf(_SC_PAGESIZE) != 4096) {
    WARN("skipped in part: no direct writes in the folder for temporary files");
    return;
  }
  // The body begins 100 bytes behind a block boundary in file and memory; the end does not agree.
  CHECK(script.direct_bytes == 19 * 4096);
}

TEST_CASE("a file system without direct writes is written through the page cache") {
  const ScratchFolder scratch;
  for (const Call refused : {Call::kOpen, Call::kWrite}) {
    for (const int error : {EINVAL, EOPNOTSUPP}) {
      Script script;
      int refusals = 0;
      script.fault = [&](Call call, bool direct) {
        if (call != refused || !direct) return 0;
        ++refusals;
        return error;
      };
      const auto files = scripted(script);
      const fs::path file = scratch.path() / "file";
      const std::string text = write_mixed(*files, file);
      CHECK(read_plainly(file) == text);
      CHECK(script.direct_bytes == 0);
      CHECK(refusals == 1);  // for good
      CHECK_FALSE(files->open_to_write(file)->direct() == (refused == Call::kOpen));
      files->remove(file);
    }
  }
}

TEST_CASE("a file system without direct reads is read through the page cache") {
  const ScratchFolder scratch;
  Script script;
  script.fault = [](Call call, bool direct) { return call == Call::kRead && direct ? EINVAL : 0; };
  const auto files = scripted(script);
  const std::string text = write_mixed(*files, scratch.path() / "file");
  const PlacedBytes out(text.size(), 0, 9);
  files->open(scratch.path() / "file")->read(0, out.get());
  CHECK(out.text() == text);
}

TEST_CASE("calls that are interrupted or do less than asked for are gone on with") {
  const ScratchFolder scratch;
  for (const std::size_t most : {SIZE_MAX, std::size_t{4096}, std::size_t{1000}}) {
    Script script;
    script.most_bytes = most;
    std::map<Call, int> seen;
    script.fault = [&](Call call, bool direct) {
      if (call == Call::kSync || (call == Call::kOpen && direct)) return 0;
      return seen[call]++ % 2 == 0 ? EINTR : 0;
    };
    const auto files = scripted(script);
    const fs::path file = scratch.path() / "file";
    const std::string text = write_mixed(*files, file);
    CHECK(read_plainly(file) == text);
    CHECK(read_whole(*files, file, text.size()) == text);
    CHECK(script.open_descriptors == 0);
    files->remove(file);
  }
}

TEST_CASE("every call that fails is an error with path, operation, reason and remedy") {
  const ScratchFolder scratch;
  const fs::path file = scratch.path() / "file";
  struct Case {
    Call call;
    int error;
    std::string text;
  };
  const std::vector<Case> cases{
      {Call::kOpen, EROFS,
       ": create: Read-only file system; make it readable and writable for this "},
      {Call::kOpen, EMFILE, ": create: Too many open files; raise the limit of open files"},
      {Call::kAllocate, ENOSPC, ": reserve 94325 bytes: No space left on device; free space on "},
      {Call::kAllocate, EDQUOT, ": reserve 94325 bytes: Disk quota exceeded; free some"},
      {Call::kWrite, ENOSPC, ": write at byte 0: No space left on device; free space on this disk"},
      {Call::kWrite, EIO, ": write at byte 0: Input/output error; the disk reports a fault"},
      {Call::kSync, EIO, ": synchronise: Input/output error; the disk reports a fault"},
      {Call::kSync, EINTR, ": synchronise: Interrupted system call"},
      {Call::kSyncRange, EIO, ": synchronise (the disk refused bytes of this file before"},
  };
  for (const Case& c : cases) {
    Script script;
    script.fault = [&](Call call, bool direct) { return call == c.call && !direct ? c.error : 0; };
    const auto files = scripted(script);
    CHECK_THAT(io_error_of([&] { (void)write_mixed(*files, file); }),
               ContainsSubstring(file.string() + c.text));
    CHECK(script.open_descriptors == 0);
    fs::remove(file);
  }
}

TEST_CASE("a write that stops in a full disk is an error, however much of it was done") {
  const ScratchFolder scratch;
  Script script;
  script.most_bytes = 4096;
  int writes = 0;
  script.fault = [&](Call call, bool) {
    return call == Call::kWrite && ++writes == 4 ? ENOSPC : 0;
  };
  const auto files = scripted(script);
  const PlacedBytes bytes(10 * 4096, 0, 1);
  const auto writer = files->create(scratch.path() / "file");
  CHECK_THAT(io_error_of([&] { writer->write(4096, bytes.get()); }),
             ContainsSubstring("write at byte 16384: No space left on device"));
}

TEST_CASE("a failed fsync is never tried again") {
  const ScratchFolder scratch;
  Script script;
  script.fault = [&](Call call, bool) {
    return call == Call::kSync && script.calls[Call::kSync] == 1 ? EIO : 0;
  };
  const auto files = scripted(script);
  const auto writer = files->create(scratch.path() / "file");
  writer->write(0, bytes_of("x"));
  for (int i = 0; i < 3; ++i) {
    CHECK_THAT(io_error_of([&] { writer->sync(); }), ContainsSubstring("Input/output error"));
  }
  CHECK(script.calls[Call::kSync] == 1);
}

TEST_CASE("an error that the disk reports to the write-behind fails the sync of that file alone") {
  const ScratchFolder scratch;
  Script script;
  const auto files = scripted(script);
  const auto bad = files->create(scratch.path() / "bad");
  const auto good = files->create(scratch.path() / "good");
  script.fault = [](Call call, bool) { return call == Call::kSyncRange ? EIO : 0; };
  bad->write(0, bytes_of("x"));
  script.fault = [](Call, bool) { return 0; };
  good->write(0, bytes_of("x"));
  CHECK_NOTHROW(good->sync());
  CHECK_THAT(io_error_of([&] { bad->sync(); }), ContainsSubstring("bad: synchronise (the disk"));
}

TEST_CASE("a sync waits for a thread that was told of the file's error and has not said so yet") {
  const ScratchFolder scratch;
  Script script;
  std::atomic<bool> told = false;
  std::atomic<bool> synchronised = false;
  script.before = [&](Call call) {
    if (call == Call::kSync) {
      synchronised = true;
      synchronised.notify_all();
    } else if (call == Call::kSyncRange) {
      told = true;
      told.notify_all();
      synchronised.wait(false);
      // A sync that does not wait has time to return meanwhile; one that does takes any time.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  };
  script.fault = [](Call call, bool) { return call == Call::kSyncRange ? EIO : 0; };
  const auto files = scripted(script);
  const auto writer = files->create(scratch.path() / "file");
  const std::jthread other = start_thread("writer", [&] { writer->write(0, bytes_of("x")); });
  told.wait(false);
  CHECK_THAT(io_error_of([&] { writer->sync(); }), ContainsSubstring("Input/output error"));
}

TEST_CASE("not more than some tens of MiB wait for the disk, of all files together",
          "[one_thread]") {
  const ScratchFolder scratch;
  Script script;
  const auto files = scripted(script);
  const PlacedBytes bytes(12 * kMiB, 1, 1);  // in memory behind a block boundary, in the file not
  {
    const auto one = files->create(scratch.path() / "one");
    const auto two = files->create(scratch.path() / "two");
    for (int i = 0; i < 2; ++i) {
      one->write(i * 12 * kMiB, bytes.get());
      two->write(i * 12 * kMiB, bytes.get());
    }
    CHECK(script.direct_bytes == 0);
    CHECK(script.most_loose_bytes <= WriteBehind::kMostBytes + WriteBehind::kPiece);
    one->sync();
  }
  CHECK(script.open_descriptors == 0);
  CHECK(read_plainly(scratch.path() / "two") == bytes.text() + bytes.text());
}

TEST_CASE("where room cannot be reserved, the length is, and free space is looked at") {
  const ScratchFolder scratch;
  Script script;
  script.fault = [](Call call, bool) { return call == Call::kAllocate ? EOPNOTSUPP : 0; };
  const auto files = scripted(script);
  const fs::path file = scratch.path() / "file";
  const auto writer = files->create(file);
  writer->reserve(5000);
  CHECK(read_plainly(file) == std::string(5000, '\0'));
  const std::uint64_t room = *files->free_bytes(scratch.path());
  CHECK_THAT(io_error_of([&] { writer->reserve(room + kGiB * 4); }),
             ContainsSubstring("No space left on device; free space on this disk"));
  CHECK(fs::file_size(file) == 5000);
}

TEST_CASE("room that was not all there is given back") {
  const ScratchFolder scratch;
  Script script;
  const auto files = scripted(script);
  const fs::path file = scratch.path() / "file";
  const auto writer = files->create(file);
  writer->reserve(5000);
  script.fault = [&](Call call, bool) {
    if (call != Call::kAllocate) return 0;
    fs::resize_file(file, 100000);  // as far as it got
    return ENOSPC;
  };
  CHECK_THAT(io_error_of([&] { writer->reserve(200000); }), ContainsSubstring("No space left"));
  CHECK(fs::file_size(file) == 5000);
}

TEST_CASE("a rename replaces no folder where the system cannot promise that either") {
  const ScratchFolder scratch;
  Script script;
  script.fault = [](Call call, bool) { return call == Call::kRename ? EINVAL : 0; };
  const auto files = scripted(script);
  files->make_folder(scratch.path() / "a");
  files->make_folder(scratch.path() / "b");
  CHECK_THAT(io_error_of([&] { files->rename(scratch.path() / "a", scratch.path() / "b"); }),
             ContainsSubstring("File exists"));
  files->rename(scratch.path() / "a", scratch.path() / "c");
  CHECK(files->list(scratch.path()) == std::vector<std::string>{"b", "c"});
}

TEST_CASE("names that lead elsewhere are not written, and opening what is no file never blocks") {
  const ScratchFolder scratch;
  const auto files = make_system_files();
  const fs::path target = scratch.path() / "target";
  const fs::path link = scratch.path() / "link";
  const fs::path pipe = scratch.path() / "pipe";
  write_whole(*files, target, bytes_of("x"));
  fs::create_symlink(target, link);
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(files->kind(link) == Files::Kind::kOther);
  CHECK(files->kind(pipe) == Files::Kind::kOther);
  CHECK_THAT(io_error_of([&] { (void)files->open_to_write(link); }),
             ContainsSubstring("link: open to write: ") && ContainsSubstring("no link may be"));
  CHECK_THAT(io_error_of([&] { (void)files->create(link); }), ContainsSubstring("File exists"));
  CHECK_THAT(io_error_of([&] { (void)files->open(link); }),
             ContainsSubstring("link: open: ") && ContainsSubstring("cp -L"));
  CHECK_THAT(io_error_of([&] { (void)files->open(pipe); }),
             ContainsSubstring("pipe: open: is not a regular file"));
  CHECK_THAT(io_error_of([&] { (void)files->open_to_write(pipe); }), ContainsSubstring("pipe: "));
  CHECK_THAT(io_error_of([&] { (void)files->open("/dev/zero"); }),
             ContainsSubstring("/dev/zero: open: is not a regular file"));
  CHECK_THAT(io_error_of([&] { (void)files->open_to_write("/dev/null"); }),
             ContainsSubstring("is not a regular file"));
  fs::create_directory_symlink(scratch.path(), scratch.path() / "round");
  fs::create_directory(scratch.path() / "tree");
  fs::create_directory_symlink(scratch.path(), scratch.path() / "tree" / "up");
  remove_all(*files, scratch.path() / "tree");
  CHECK(read_plainly(target) == "x");
}

TEST_CASE("removing a tree touches nothing outside of it, whatever changes places meanwhile") {
  const ScratchFolder scratch;
  const auto files = make_system_files();
  test::require_nothing_outside_removed(scratch.path(), "tree/model",
                                        [&] { remove_all(*files, scratch.path() / "tree"); });
}

TEST_CASE("a folder that this user may not write is named with the remedy") {
  const ScratchFolder scratch;
  fs::permissions(scratch.path(), fs::perms::owner_read | fs::perms::owner_exec |
                                      fs::perms::others_read | fs::perms::others_exec);
  const auto prepare = [] {
    constexpr uid_t kNobody = 65534;
    return ::geteuid() != 0 || ::setresuid(kNobody, kNobody, kNobody) == 0;
  };
  const std::optional<std::string> text = in_child(prepare, [&] {
    const auto files = make_system_files();
    return io_error_of([&] { (void)files->create(scratch.path() / "file"); });
  });
  fs::permissions(scratch.path(), fs::perms::owner_all);
  REQUIRE(text);
  CHECK(*text == (scratch.path() / "file").string() +
                     ": create: Permission denied; make it readable and writable for this user, "
                     "or name another folder (run.output)");
}

/// Returns what becomes of a file system of a MiB in the folder, which only a child sees.
std::optional<std::string> on_small_disk(const fs::path& folder,
                                         const std::function<std::string(Files&)>& body) {
  const auto prepare = [&] {
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount("small", folder.c_str(), "tmpfs", 0, "size=1m") == 0;
  };
  const auto result = in_child(prepare, [&] { return body(*make_system_files()); });
  if (!result) WARN("skipped: this user may not mount a small disk");
  return result;
}

TEST_CASE("a full disk refuses what it has no room for, keeps what it has, and goes on") {
  const ScratchFolder scratch;
  const PlacedBytes bytes(2 * kMiB, 0, 1);
  const auto text = on_small_disk(scratch.path(), [&](Files& files) {
    write_whole(files, scratch.path() / "old", bytes.get().first(kMiB / 2));
    const auto writer = files.create(scratch.path() / "new");
    std::string result = io_error_of([&] { writer->reserve(kMiB); }) + "\n";
    result += io_error_of([&] { writer->write(0, bytes.get()); }) + "\n";
    files.remove(scratch.path() / "new");
    const bool intact =
        read_whole(files, scratch.path() / "old", kMiB) == bytes.text().substr(0, kMiB / 2);
    return result + (intact ? "intact" : "damaged");
  });
  if (!text) return;
  CHECK_THAT(*text,
             ContainsSubstring("new: reserve 1048576 bytes: No space left on device; free "));
  CHECK_THAT(*text, ContainsSubstring(": No space left on device; free space on this disk, or ") &&
                        ContainsSubstring("new: write at byte "));
  CHECK_THAT(*text, ContainsSubstring("intact"));
}

TEST_CASE("a disk that became read-only is named with the remedy") {
  const ScratchFolder scratch;
  const auto text = on_small_disk(scratch.path(), [&](Files& files) {
    write_whole(files, scratch.path() / "old", bytes_of("x"));
    if (::mount("small", scratch.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
      return std::string("no remount");
    }
    return io_error_of([&] { (void)files.create(scratch.path() / "new"); }) +
           io_error_of([&] { (void)files.open_to_write(scratch.path() / "old"); }) +
           io_error_of([&] { files.rename(scratch.path() / "old", scratch.path() / "b"); }) +
           io_error_of([&] { files.remove(scratch.path() / "old"); }) +
           io_error_of([&] { files.make_folder(scratch.path() / "folder"); });
  });
  if (!text) return;
  for (const std::string operation :
       {"create", "open to write", "rename to ", "remove", "make folder"}) {
    CHECK_THAT(*text, ContainsSubstring(": " + operation));
  }
  CHECK_THAT(*text, ContainsSubstring("Read-only file system; make it readable and writable"));
}

TEST_CASE("a limit of file sizes is an error and not the end, where its signal is ignored") {
  const ScratchFolder scratch;
  const auto prepare = [] {
    const rlimit limit{.rlim_cur = 64 * kKiB, .rlim_max = 64 * kKiB};
    return std::signal(SIGXFSZ, SIG_IGN) != SIG_ERR && ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
  };
  const PlacedBytes bytes(100 * kKiB, 0, 1);
  const auto text = in_child(prepare, [&] {
    const auto files = make_system_files();
    const auto writer = files->create(scratch.path() / "file");
    return io_error_of([&] { writer->write(0, bytes.get()); }) + "\n" +
           io_error_of([&] { writer->reserve(100 * kKiB); });
  });
  REQUIRE(text);
  CHECK_THAT(*text, ContainsSubstring("write at byte 65536: File too large; raise the limit of"));
  CHECK_THAT(*text, ContainsSubstring("reserve 102400 bytes: File too large; raise the limit of"));
}

}  // namespace
}  // namespace strata
