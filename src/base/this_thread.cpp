// Names and binds the calling thread through pthread and sched calls. Core sets are sized at run
// time, because machines may have more cores than the fixed cpu_set_t holds.

#include "strata/base/this_thread.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace strata {

namespace {

/// A set of cores of any size.
class CoreSet {
 public:
  explicit CoreSet(int cores) : words_(CPU_ALLOC_SIZE(static_cast<std::size_t>(cores)) / kWord) {}

  [[nodiscard]] cpu_set_t* get() { return reinterpret_cast<cpu_set_t*>(words_.data()); }
  [[nodiscard]] std::size_t bytes() const { return words_.size() * kWord; }
  [[nodiscard]] int cores() const { return static_cast<int>(8 * bytes()); }
  [[nodiscard]] bool holds(int core) {
    return CPU_ISSET_S(static_cast<std::size_t>(core), bytes(), get());
  }
  void add(int core) { CPU_SET_S(static_cast<std::size_t>(core), bytes(), get()); }

 private:
  static constexpr std::size_t kWord = sizeof(unsigned long);
  std::vector<unsigned long> words_;
};

}  // namespace

void name_this_thread(const std::string& name) {
  constexpr std::size_t kLongest = 15;
  pthread_setname_np(pthread_self(), name.substr(0, kLongest).c_str());
}

std::vector<int> cores_of_this_thread() {
  constexpr int kMostCores = 1 << 16;
  for (int size = CPU_SETSIZE; size <= kMostCores; size *= 2) {
    CoreSet set(size);
    if (sched_getaffinity(0, set.bytes(), set.get()) != 0) {
      if (errno == EINVAL) continue;  // the kernel's masks are larger
      break;
    }
    std::vector<int> cores;
    for (int core = 0; core < set.cores(); ++core) {
      if (set.holds(core)) cores.push_back(core);
    }
    return cores;
  }
  return {};
}

std::error_code bind_this_thread(std::span<const int> cores) {
  const int highest = cores.empty() ? 0 : *std::ranges::max_element(cores);
  CoreSet set(std::max(highest + 1, CPU_SETSIZE));
  for (const int core : cores) set.add(core);
  if (sched_setaffinity(0, set.bytes(), set.get()) == 0) return {};
  return {errno, std::generic_category()};
}

}  // namespace strata
