// Bounds what the page cache holds of writes that have not reached the disk. Left alone, the kernel
// takes a good part of the memory that training was planned with, and the fsync at the end waits
// for all of it. Here every piece is sent to the disk as soon as it is written; whoever exceeds the
// bound waits for the oldest piece, of whatever file, and the pages go back to the kernel.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>

#include "checkpoint/system_calls.h"

namespace strata {

/// A file that is open for writing through the page cache.
class BufferedFile {
 public:
  /// Takes over the descriptor. `calls` must outlive this.
  BufferedFile(const SystemCalls& calls, std::filesystem::path path, int descriptor);
  /// Closes the file; logs a warning if that fails, for then it was not synchronised either.
  ~BufferedFile();
  BufferedFile(const BufferedFile&) = delete;
  BufferedFile& operator=(const BufferedFile&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// Remembers that the disk did not take something. The kernel reports that to one call alone,
  /// and the next fsync would succeed without the lost bytes.
  void fail(int error);
  /// Returns the error of the first failure, 0 if there was none.
  [[nodiscard]] int failure() const { return failure_; }

  /// To be called around a system call that may be told of a failure.
  void begin_wait() { ++waits_; }
  void end_wait();
  /// Returns once no other thread is between the two: one that was told would not have said so yet.
  void await_waits() const;

 private:
  const SystemCalls& calls_;
  std::filesystem::path path_;
  int descriptor_;
  std::atomic<int> failure_ = 0;
  std::atomic<int> waits_ = 0;
};

/// The pieces that are on their way to the disk. Any thread may call it.
class WriteBehind {
 public:
  /// No more bytes than this wait for the disk, but for the two pieces that every thread may have
  /// in its hands.
  static constexpr std::size_t kMostBytes = std::size_t{32} << 20;
  /// Whoever writes through the page cache does it in pieces of at most so many bytes.
  static constexpr std::size_t kPiece = std::size_t{4} << 20;

  /// `calls` must outlive this.
  explicit WriteBehind(const SystemCalls& calls) : calls_(calls) {}

  /// To be told of every piece after it was written. Sends it to the disk, and waits for older ones
  /// while there are too many. A file whose piece the disk does not take has failed.
  void wrote(const std::shared_ptr<BufferedFile>& file, std::uint64_t offset, std::size_t bytes);
  /// Forgets the pieces of a file that was synchronised, or is given up.
  void forget(const BufferedFile& file);

 private:
  struct Piece {
    /// Shared, because a thread that waits for the disk may still hold a piece of a file that
    /// another thread closes.
    std::shared_ptr<BufferedFile> file;
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
  };
  void wait_for(const Piece& piece);
  /// Returns whether the file system can do this at all.
  bool sync_range(const Piece& piece, unsigned flags);

  const SystemCalls& calls_;
  std::mutex mutex_;
  std::deque<Piece> pieces_;  ///< oldest first
  std::size_t bytes_ = 0;     ///< of pieces_
};

}  // namespace strata
