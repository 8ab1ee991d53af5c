// What somebody who may write to a folder does while it is removed: a folder in it and a link that
// leads out change places, again and again.
#pragma once

#include <fcntl.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stop_token>
#include <string>
#include <thread>

#include "strata/base/error.h"
#include "support/catch.h"

namespace strata::test {

/// Calls `remove` 50 times while the folder `name` of `scratch`, made anew each time with some
/// files, changes places with a link to a folder outside that has files of the same names. It may
/// fail, but those must stay.
inline void require_nothing_outside_removed(const std::filesystem::path& scratch,
                                            const std::string& name,
                                            const std::function<void()>& remove) {
  namespace fs = std::filesystem;
  constexpr int kRounds = 50;  // a removal by paths is found in a quarter of them
  constexpr int kFiles = 20;
  const auto fill = [](const fs::path& filled) {
    fs::create_directories(filled);
    for (int i = 0; i < kFiles; ++i) std::ofstream(filled / std::to_string(i)) << "text";
  };
  const fs::path outside = scratch / "outside", link = scratch / "link", folder = scratch / name;
  fill(outside);
  for (int round = 0; round < kRounds; ++round) {
    fill(folder);
    fs::create_directory_symlink(outside, link);
    {
      const std::jthread exchange([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
          (void)::renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
        }
      });
      try {
        remove();
      } catch (const Error&) {  // what is exchanged cannot always be removed
      }
    }
    fs::remove_all(link);
    fs::remove_all(folder);
    REQUIRE(std::distance(fs::directory_iterator(outside), {}) == kFiles);
  }
}

}  // namespace strata::test
