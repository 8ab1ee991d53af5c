// What `export` and `import` share: the folder or file of a model that gets its name only when it
// is whole, written by several threads, with a meter below the log that shows how far it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "strata/base/thread_pool.h"
#include "strata/checkpoint/files.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/checkpoint/new_folder.h"

namespace strata {

/// What was written, and how long it took.
struct NewModel {
  std::uint64_t bytes = 0;
  double seconds = 0;
  /// Returns "1.2 GiB in 3.4 s".
  [[nodiscard]] std::string text() const;
};

/// Writes a model's files to a folder, calling the second argument now and then.
using WriteModel =
    std::function<void(const std::filesystem::path&, const OnModelProgress&, ThreadPool&)>;

/// Makes the folder `to` of what `write` puts there. `command` names the work in the meter. SIGINT
/// and SIGTERM end it: they throw Interrupted. Throws as NewFolder and `write` do; then there is
/// nothing new.
NewModel make_new_model(Files& files, const std::filesystem::path& to, OldModel old_model,
                        const std::string& command, const WriteModel& write);

/// Writes a model to an empty file, calling the second argument now and then.
using WriteModelFile = std::function<void(FileWriter&, const OnModelProgress&, ThreadPool&)>;

/// Makes the file `to` of what `write` puts there, as make_new_model() does it with a folder.
/// `magic` is what such files begin with. Throws as NewFile and `write` do.
NewModel make_new_model_file(Files& files, const std::filesystem::path& to,
                             const std::string& magic, OldModel old_model,
                             const std::string& command, const WriteModelFile& write);

}  // namespace strata
