// Slows writes down to the rate of another disk. A write takes its turn first and sleeps to the end
// of it last, so that the time of the real write is part of the turn.

#include "strata/checkpoint/throttled_files.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <thread>
#include <utility>

namespace strata {

namespace {

class ThrottledWriter final : public FileWriter {
 public:
  ThrottledWriter(std::unique_ptr<FileWriter> writer, Throttle& throttle)
      : writer_(std::move(writer)), throttle_(throttle) {}

  void reserve(std::uint64_t bytes) override { writer_->reserve(bytes); }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    const auto end = throttle_.take(bytes.size());
    writer_->write(offset, bytes);
    std::this_thread::sleep_until(end);
  }
  void sync() override { writer_->sync(); }
  [[nodiscard]] bool direct() const override { return writer_->direct(); }

 private:
  std::unique_ptr<FileWriter> writer_;
  Throttle& throttle_;
};

}  // namespace

std::chrono::steady_clock::time_point Throttle::take(std::size_t bytes) {
  const std::chrono::duration<double> turn(static_cast<double>(bytes) * seconds_per_byte_);
  const std::lock_guard lock(mutex_);
  free_ = std::max(free_, std::chrono::steady_clock::now()) +
          std::chrono::duration_cast<std::chrono::steady_clock::duration>(turn);
  return free_;
}

std::unique_ptr<FileWriter> ThrottledFiles::create(const Path& file) {
  return std::make_unique<ThrottledWriter>(files_.create(file), throttle_);
}

std::unique_ptr<FileWriter> ThrottledFiles::open_to_write(const Path& file) {
  return std::make_unique<ThrottledWriter>(files_.open_to_write(file), throttle_);
}

}  // namespace strata
