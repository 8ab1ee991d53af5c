// Files whose disk is slower than it is: to measure what saves cost on disks that one does not
// have.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "strata/checkpoint/files.h"

namespace strata {

/// Holds a number of bytes a second, however many threads ask.
class Throttle {
 public:
  /// `gbs` is in GB/s (10^9 bytes) and above 0.
  explicit Throttle(double gbs) : seconds_per_byte_(1e-9 / gbs) {}
  /// Takes the next turn for so many bytes, and returns when it is over. Does not block.
  [[nodiscard]] std::chrono::steady_clock::time_point take(std::size_t bytes);

 private:
  double seconds_per_byte_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point free_;  ///< guarded by mutex_: the end of the last turn
};

/// Passes every operation on; a write also blocks until all that was written to any file has had
/// the time that it takes at the rate.
class ThrottledFiles final : public Files {
 public:
  /// `files` outlives it. `gbs` is in GB/s (10^9 bytes) and above 0.
  ThrottledFiles(Files& files, double gbs) : files_(files), throttle_(gbs) {}

  [[nodiscard]] std::unique_ptr<FileWriter> create(const Path& file) override;
  [[nodiscard]] std::unique_ptr<FileWriter> open_to_write(const Path& file) override;
  [[nodiscard]] std::unique_ptr<FileReader> open(const Path& file) const override {
    return files_.open(file);
  }
  void make_folder(const Path& folder) override { files_.make_folder(folder); }
  void rename(const Path& from, const Path& to) override { files_.rename(from, to); }
  void remove(const Path& path) override { files_.remove(path); }
  void remove_tree(const Path& folder) override { files_.remove_tree(folder); }
  void sync_folder(const Path& folder) override { files_.sync_folder(folder); }
  [[nodiscard]] Kind kind(const Path& path) const override { return files_.kind(path); }
  [[nodiscard]] std::vector<std::string> list(const Path& folder) const override {
    return files_.list(folder);
  }
  [[nodiscard]] std::optional<std::uint64_t> free_bytes(const Path& folder) const override {
    return files_.free_bytes(folder);
  }

 private:
  Files& files_;
  Throttle throttle_;
};

}  // namespace strata
