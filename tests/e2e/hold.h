// What the libraries of this folder that are loaded into programs (LD_PRELOAD) do to hold one at a
// place that a test names, so that what comes next comes in the order that the test wants, however
// fast the machine is. The test's side is Gate in e2e/saved_runs.h.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>

namespace strata::test {

/// Says by a file `gate`.held that somebody is held, and waits until there is a file `gate`. A
/// test that has died opens no gate: nobody waits for longer than an hour.
inline void hold(const std::string& gate) {
  ::close(::creat((gate + ".held").c_str(), 0600));
  constexpr useconds_t kMomentUs = 1000;
  constexpr int kMoments = 3'600'000;
  for (int i = 0; i < kMoments && ::access(gate.c_str(), F_OK) != 0; ++i) ::usleep(kMomentUs);
}

}  // namespace strata::test
