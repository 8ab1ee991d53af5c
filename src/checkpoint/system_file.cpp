// Writes and reads an open file of this machine.
//
// A file is open twice: once with O_DIRECT, for whole blocks that lie at block boundaries in memory
// and in the file, and once through the page cache, for the rest and for file systems that refuse
// the first. Both lead to one inode, so one fsync is for both. Writers of disjoint ranges never
// share a block between the two ways: a block that is written directly is written whole. Blocks are
// pages where pages are larger than kFileAlignment, because the page cache would otherwise write
// back what a direct write has just replaced.

#include "checkpoint/system_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "checkpoint/io_failure.h"
#include "strata/base/error.h"
#include "strata/base/narrow.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

std::size_t block_bytes() {
  static const std::size_t bytes =
      std::max(kFileAlignment, narrow<std::size_t>(::sysconf(_SC_PAGESIZE)));
  return bytes;
}

/// Throws if the descriptor is no regular file, and closes it then.
struct stat require_regular(const SystemCalls& calls, const fs::path& path, int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    const int error = errno;
    calls.close(descriptor);
    throw_io_failure(path, "look at", error);
  }
  if (!S_ISREG(status.st_mode)) {
    calls.close(descriptor);
    throw DamagedFile(path.string() +
                      ": open: is not a regular file; remove or rename what has this name");
  }
  return status;
}

/// A second descriptor of a file, for direct reads or writes; -1 where there is none.
class DirectDescriptor {
 public:
  /// Opens `path` if it still leads to the file that `status` is of.
  DirectDescriptor(const SystemCalls& calls, const fs::path& path, int flags,
                   const struct stat& status)
      : calls_(calls),
        descriptor_(calls.open(path.c_str(), flags | O_DIRECT | O_CLOEXEC | O_NONBLOCK, 0)) {
    struct stat again {};
    usable_ = descriptor_ >= 0 && ::fstat(descriptor_, &again) == 0 &&
              again.st_dev == status.st_dev && again.st_ino == status.st_ino;
  }
  ~DirectDescriptor() {
    if (descriptor_ >= 0) calls_.close(descriptor_);
  }
  DirectDescriptor(const DirectDescriptor&) = delete;
  DirectDescriptor& operator=(const DirectDescriptor&) = delete;

  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] bool usable() const { return usable_; }
  /// No direct call is tried from now on.
  void give_up() const { usable_ = false; }

 private:
  const SystemCalls& calls_;
  int descriptor_;
  mutable std::atomic<bool> usable_ = false;  ///< mutable: reading finds out, too
};

/// The first bytes of a range that go one way.
struct Piece {
  std::size_t bytes = 0;
  bool direct = false;
};

/// Returns how the first bytes of a range go: whole blocks directly if memory and file agree about
/// where blocks begin, and what is before and behind them through the page cache.
Piece first_piece(std::uint64_t offset, const std::byte* memory, std::size_t bytes, bool direct) {
  const std::size_t block = block_bytes();
  const std::uint64_t in_block = offset % block;
  const bool agree = reinterpret_cast<std::uintptr_t>(memory) % block == in_block;
  const std::size_t before = in_block == 0 ? 0 : static_cast<std::size_t>(block - in_block);
  if (!direct || !agree || bytes < before + block) return {.bytes = bytes, .direct = false};
  if (before > 0) return {.bytes = before, .direct = false};
  return {.bytes = bytes / block * block, .direct = true};
}

class SystemWriter final : public FileWriter {
 public:
  SystemWriter(const SystemCalls& calls, WriteBehind& behind, const fs::path& path, int descriptor)
      : calls_(calls),
        behind_(behind),
        status_(require_regular(calls, path, descriptor)),
        file_(std::make_shared<BufferedFile>(calls, path, descriptor)),
        direct_(calls, path, O_WRONLY | O_NOFOLLOW, status_) {}
  ~SystemWriter() override { behind_.forget(*file_); }

  void reserve(std::uint64_t bytes) override {
    if (bytes > 0) take_room(bytes);
    set_length(bytes);
  }

  void write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      Piece piece = first_piece(offset, bytes.data(), bytes.size(), direct_.usable());
      if (!piece.direct) piece.bytes = std::min(piece.bytes, WriteBehind::kPiece);
      const std::size_t done = write_some(offset, bytes.first(piece.bytes), piece.direct);
      if (!piece.direct && done > 0) behind_.wrote(file_, offset, done);
      offset += done;
      bytes = bytes.subspan(done);
    }
  }

  void sync() override {
    require_no_failure();
    if (calls_.fsync(file_->descriptor()) != 0) {
      const int error = errno;
      file_->fail(error);
      fail("synchronise", error);
    }
    behind_.forget(*file_);
    // What a thread was told that waited for this file's pieces, fsync is not told again.
    file_->await_waits();
    require_no_failure();
  }

  [[nodiscard]] bool direct() const override { return direct_.usable(); }

 private:
  [[noreturn]] void fail(std::string_view operation, int error) const {
    throw_io_failure(file_->path(), operation, error);
  }

  void require_no_failure() const {
    const int error = file_->failure();
    if (error == 0) return;
    fail(
        "synchronise (the disk refused bytes of this file before, and nobody knows which it holds)",
        error);
  }

  /// Allocates blocks up to `bytes`. Asks for free space first: allocating until the disk is full
  /// would take the last bytes from others, such as this run's own metrics.
  void take_room(std::uint64_t bytes) {
    const std::string operation = "reserve " + std::to_string(bytes) + " bytes";
    struct stat status {};
    if (::fstat(file_->descriptor(), &status) != 0) fail("look at", errno);
    constexpr std::uint64_t kStatBlock = 512;  // the unit of st_blocks everywhere on Linux
    const std::uint64_t held = static_cast<std::uint64_t>(status.st_blocks) * kStatBlock;
    struct statvfs room {};
    if (::fstatvfs(file_->descriptor(), &room) == 0 && room.f_blocks > 0 && bytes > held &&
        (bytes - held) / room.f_frsize > room.f_bavail) {
      fail(operation, ENOSPC);
    }
    const auto length = narrow<off_t>(bytes);
    int result = calls_.fallocate(file_->descriptor(), length);
    while (result != 0 && errno == EINTR) result = calls_.fallocate(file_->descriptor(), length);
    if (result == 0 || is_refusal(errno)) return;
    const int error = errno;
    set_length(static_cast<std::uint64_t>(status.st_size));  // gives back what it got
    fail(operation, error);
  }

  void set_length(std::uint64_t bytes) {
    while (::ftruncate(file_->descriptor(), narrow<off_t>(bytes)) != 0) {
      if (errno != EINTR) fail("set the length", errno);
    }
  }

  /// Returns how many bytes were written: 0 if nothing was said about them, and the caller is to
  /// try again, perhaps in another way.
  std::size_t write_some(std::uint64_t offset, std::span<const std::byte> bytes, bool direct) {
    const int descriptor = direct ? direct_.get() : file_->descriptor();
    const ssize_t done =
        calls_.pwrite(descriptor, bytes.data(), bytes.size(), narrow<off_t>(offset));
    if (done > 0) return static_cast<std::size_t>(done);
    const int error = done == 0 ? ENOSPC : errno;  // no file system of today returns 0
    if (error == EINTR) return 0;
    if (direct && is_refusal(error)) {
      direct_.give_up();
      return 0;
    }
    fail("write at byte " + std::to_string(offset), error);
  }

  const SystemCalls& calls_;
  WriteBehind& behind_;
  struct stat status_;
  /// Shared with the write-behind, where another thread may wait for a piece of it.
  std::shared_ptr<BufferedFile> file_;
  DirectDescriptor direct_;
};

class SystemReader final : public FileReader {
 public:
  SystemReader(const SystemCalls& calls, fs::path path, int descriptor)
      : calls_(calls),
        path_(std::move(path)),
        status_(require_regular(calls, path_, descriptor)),
        descriptor_(descriptor),
        direct_(calls, path_, O_RDONLY | O_NOFOLLOW, status_) {}
  ~SystemReader() override { calls_.close(descriptor_); }

  [[nodiscard]] std::uint64_t bytes() const override {
    return static_cast<std::uint64_t>(status_.st_size);
  }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const Piece piece = first_piece(offset, out.data(), out.size(), direct_.usable());
      const std::size_t done = read_some(offset, out.first(piece.bytes), piece.direct);
      offset += done;
      out = out.subspan(done);
    }
  }

 private:
  /// As write_some.
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> out, bool direct) const {
    const int descriptor = direct ? direct_.get() : descriptor_;
    const ssize_t got = calls_.pread(descriptor, out.data(), out.size(), narrow<off_t>(offset));
    if (got > 0) return static_cast<std::size_t>(got);
    const std::string operation = "read at byte " + std::to_string(offset);
    if (got == 0) {
      throw DamagedFile(path_.string() + ": " + operation + ": the file ends before that");
    }
    if (errno == EINTR) return 0;
    if (!direct || !is_refusal(errno)) throw_io_failure(path_, operation, errno);
    direct_.give_up();
    return 0;
  }

  const SystemCalls& calls_;
  fs::path path_;
  struct stat status_;
  int descriptor_;
  DirectDescriptor direct_;
};

}  // namespace

bool is_refusal(int error) {
  return error == EINVAL || error == EOPNOTSUPP || error == ENOSYS || error == ENOTTY;
}

std::unique_ptr<FileWriter> open_system_writer(const SystemCalls& calls, WriteBehind& behind,
                                               const fs::path& file, int descriptor) {
  return std::make_unique<SystemWriter>(calls, behind, file, descriptor);
}

std::unique_ptr<FileReader> open_system_reader(const SystemCalls& calls, const fs::path& file,
                                               int descriptor) {
  return std::make_unique<SystemReader>(calls, file, descriptor);
}

}  // namespace strata
