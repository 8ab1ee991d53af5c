// What the checks of this folder share: values that differ by rank and index, a machine for the
// collectives, and the way in which a check fails.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm/checks.h"
#include "strata/base/random.h"
#include "strata/comm/collectives.h"
#include "strata/comm/ranks.h"
#include "strata/device/arena.h"

namespace strata {

/// Throws std::runtime_error that names the rank and `what` if the condition does not hold.
inline void expect(bool holds, const std::string& what, const Ranks& ranks) {
  if (holds) return;
  throw std::runtime_error("rank " + std::to_string(ranks.rank()) + " of " +
                           std::to_string(ranks.size()) + ": " + what);
}

/// Returns what rank `rank` contributes at `index`. The magnitudes differ so much that sums in
/// another order round to other bits.
template <class T>
T contribution(int rank, std::int64_t index) {
  const std::uint64_t bits =
      random_bits(7, static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(index));
  const double mantissa = static_cast<double>(bits >> 11) - 0x1p52;
  return static_cast<T>(mantissa * static_cast<double>(1 << bits % 24));
}

/// Returns the contributions of one rank at [begin, begin + count).
template <class T>
std::vector<T> contributions(int rank, std::int64_t begin, std::int64_t count) {
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = begin; i < begin + count; ++i) values.push_back(contribution<T>(rank, i));
  return values;
}

/// Throws as expect() does unless values[i] has the bits of expected(i) for every i.
template <class T, class Expected>
void expect_each(std::span<const T> values, const Expected& expected, const std::string& what,
                 const Ranks& ranks) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T wanted = expected(static_cast<std::int64_t>(i));
    if (std::memcmp(&values[i], &wanted, sizeof wanted) != 0) {
      expect(false, what + ": wrong value at " + std::to_string(i), ranks);
    }
  }
}

/// Throws as expect() does unless values[i] is, up to rounding, the sum over ranks of their
/// contributions at begin + i, in whichever order it was taken.
template <class T>
void expect_sums(std::span<const T> values, std::int64_t begin, const std::string& what,
                 const Ranks& ranks) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    double sum = 0;
    double magnitude = 0;
    for (int r = 0; r < ranks.size(); ++r) {
      const T part = contribution<T>(r, begin + static_cast<std::int64_t>(i));
      sum += static_cast<double>(part);
      magnitude += std::abs(static_cast<double>(part));
    }
    // R - 1 additions, each off by at most half a unit in the last place of what it adds up.
    const double unit = sizeof(T) == sizeof(float) ? 0x1p-23 : 0x1p-52;
    if (!(std::abs(static_cast<double>(values[i]) - sum) <= ranks.size() * unit * magnitude)) {
      expect(false, what + ": wrong sum at " + std::to_string(i), ranks);
    }
  }
}

inline std::byte byte_of(int rank, std::int64_t index) {
  return static_cast<std::byte>(
      random_bits(3, static_cast<std::uint64_t>(rank), static_cast<std::uint64_t>(index)));
}

inline std::vector<std::byte> bytes_of(int rank, std::int64_t count) {
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < count; ++i) bytes.push_back(byte_of(rank, i));
  return bytes;
}

template <class T>
TensorView view_of(std::vector<T>& values) {
  return {values.data(), kDTypeOf<T>, {std::ssize(values)}};
}

/// A machine of this rank, its comm lane, and the collectives on it.
struct CommLane {
  explicit CommLane(Ranks& ranks, const CommMachine& machine = cpu_machine())
      : device(machine.device()), collectives(machine.collectives(ranks, *device)) {}
  /// Queued work refers to the collectives: it ends before they go.
  ~CommLane() {
    try {
      device->synchronize();
    } catch (const std::exception&) {  // what failed was reported where it was waited for
    }
  }
  CommLane(const CommLane&) = delete;
  CommLane& operator=(const CommLane&) = delete;

  std::unique_ptr<Device> device;
  Stream& comm = device->stream(Lane::kComm);
  std::unique_ptr<Collectives> collectives;
};

/// Values in device memory, which the submitting thread reaches by copies.
template <class T>
class DeviceValues {
 public:
  /// Copies `values` to the device, on the comm lane.
  DeviceValues(CommLane& lane, const std::vector<T>& values)
      : lane_(lane),
        count_(values.size()),
        pinned_(*lane.device, Space::kPinned, bytes() + 1, "values of a check on the host"),
        memory_(*lane.device, Space::kDevice, bytes() + 1, "values of a check"),
        host_(pinned_.allocate("values", bytes())),
        device_(memory_.allocate("values", bytes())) {
    std::copy(values.begin(), values.end(), reinterpret_cast<T*>(host_));
    if (count_ > 0) lane_.comm.copy(device_, host_, bytes(), {});
  }

  /// Returns `count` values from `begin` on.
  [[nodiscard]] TensorView view(std::size_t begin, std::size_t count) const {
    return {device_ + begin * sizeof(T), kDTypeOf<T>, {static_cast<std::int64_t>(count)}};
  }
  [[nodiscard]] TensorView view() const { return view(0, count_); }
  /// Returns the values as the comm lane leaves them; blocks until every lane is idle.
  [[nodiscard]] std::vector<T> read() {
    if (count_ > 0) lane_.comm.copy(host_, device_, bytes(), {});
    lane_.device->synchronize();
    const T* const first = reinterpret_cast<const T*>(host_);
    return {first, first + count_};
  }

 private:
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(T); }

  CommLane& lane_;
  std::size_t count_;
  Arena pinned_;
  Arena memory_;
  std::byte* host_;
  std::byte* device_;
};

}  // namespace strata
