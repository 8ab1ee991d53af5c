// Implements Files on the folders of this machine, by POSIX and what Linux adds to it. What is
// written and read through an open file is in system_file.cpp.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "checkpoint/io_failure.h"
#include "checkpoint/system_calls.h"
#include "checkpoint/system_file.h"
#include "checkpoint/write_behind.h"
#include "strata/checkpoint/files.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kFileMode = 0666;  // less the umask
constexpr mode_t kFolderMode = 0777;

class SystemFiles final : public Files {
 public:
  explicit SystemFiles(std::unique_ptr<const SystemCalls> calls)
      : calls_(std::move(calls)), behind_(*calls_) {}

  std::unique_ptr<FileWriter> create(const Path& file) override {
    const int descriptor = open_as(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, "create");
    return open_system_writer(*calls_, behind_, file, descriptor);
  }

  std::unique_ptr<FileWriter> open_to_write(const Path& file) override {
    const int descriptor = open_as(file, O_WRONLY | O_NOFOLLOW, "open to write");
    return open_system_writer(*calls_, behind_, file, descriptor);
  }

  [[nodiscard]] std::unique_ptr<FileReader> open(const Path& file) const override {
    return open_system_reader(*calls_, file, open_as(file, O_RDONLY | O_NOFOLLOW, "open"));
  }

  void make_folder(const Path& folder) override {
    if (::mkdir(folder.c_str(), kFolderMode) != 0) throw_io_failure(folder, "make folder", errno);
  }

  void rename(const Path& from, const Path& to) override {
    const std::string operation = "rename to " + to.string();
    if (kind(from) != Kind::kFolder) {
      if (::rename(from.c_str(), to.c_str()) != 0) throw_io_failure(from, operation, errno);
      return;
    }
    if (calls_->rename_to_new(from.c_str(), to.c_str()) == 0) return;
    if (!is_refusal(errno)) throw_io_failure(from, operation, errno);
    // A plain rename replaces an empty folder: that one may come in between is what is left.
    if (kind(to) != Kind::kNothing) throw_io_failure(from, operation, EEXIST);
    if (::rename(from.c_str(), to.c_str()) != 0) throw_io_failure(from, operation, errno);
  }

  void remove(const Path& path) override {
    if (std::remove(path.c_str()) != 0) throw_io_failure(path, "remove", errno);
  }

  /// The standard library opens what it goes into from the folder above (openat), without following
  /// a link, and removes by the descriptors: a path may lead elsewhere a moment later.
  void remove_tree(const Path& folder) override {
    std::error_code error;
    fs::remove_all(folder, error);
    if (error) throw_io_failure(folder, "remove", error.value());
  }

  void sync_folder(const Path& folder) override {
    const int descriptor = open_as(folder, O_RDONLY | O_DIRECTORY, "open folder");
    const int result = calls_->fsync(descriptor);
    const int error = errno;
    calls_->close(descriptor);
    // Some file systems of networks have nothing to synchronise here, and say so by EINVAL.
    if (result != 0 && error != EINVAL) throw_io_failure(folder, "synchronise folder", error);
  }

  [[nodiscard]] Kind kind(const Path& path) const override {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return Kind::kNothing;
      throw_io_failure(path, "look at", errno);
    }
    if (S_ISREG(status.st_mode)) return Kind::kFile;
    return S_ISDIR(status.st_mode) ? Kind::kFolder : Kind::kOther;
  }

  [[nodiscard]] std::vector<std::string> list(const Path& folder) const override {
    std::error_code error;
    std::vector<std::string> names;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    if (error) throw_io_failure(folder, "list", error.value());
    std::ranges::sort(names);
    return names;
  }

  [[nodiscard]] std::optional<std::uint64_t> free_bytes(const Path& folder) const override {
    struct statvfs room {};
    if (::statvfs(folder.c_str(), &room) != 0) {
      if (is_refusal(errno)) return std::nullopt;
      throw_io_failure(folder, "ask for free space", errno);
    }
    if (room.f_blocks == 0) return std::nullopt;
    return std::uint64_t{room.f_bavail} * room.f_frsize;
  }

 private:
  /// Opens without ever blocking, whatever the name leads to.
  int open_as(const Path& path, int flags, std::string_view operation) const {
    constexpr int kAlways = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    int descriptor = calls_->open(path.c_str(), flags | kAlways, kFileMode);
    while (descriptor < 0 && errno == EINTR) {
      descriptor = calls_->open(path.c_str(), flags | kAlways, kFileMode);
    }
    if (descriptor < 0) throw_io_failure(path, operation, errno);
    return descriptor;
  }

  std::unique_ptr<const SystemCalls> calls_;
  WriteBehind behind_;
};

}  // namespace

std::unique_ptr<Files> make_system_files(std::unique_ptr<const SystemCalls> calls) {
  return std::make_unique<SystemFiles>(std::move(calls));
}

std::unique_ptr<Files> make_system_files() {
  return make_system_files(std::make_unique<const SystemCalls>());
}

}  // namespace strata
