// Every file operation of a checkpoint goes through Files: the real ones in the program, in tests
// an implementation in memory that forgets what was not synchronised, or fails on demand. Nobody in
// this layer touches the file system otherwise. All of it may be called by any thread, and throws
// IoError "path: operation: reason; remedy".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/base/error.h"

namespace strata {

/// What was read, or looked at, is wrong: it was cut, changed, replaced or removed since it was
/// written. Every other IoError of this layer says that the system refused an operation: what a
/// file holds is not known then, and nobody may go on as if it were damaged, or not there.
class DamagedFile : public IoError {
 public:
  using IoError::IoError;
};

/// What is written to a file in one piece should begin and end at multiples of so many bytes, and
/// lie at one in memory: then it goes to the disk without a copy in the page cache.
inline constexpr std::size_t kFileAlignment = 4096;

/// A file that is being written. Several threads, and processes, may write disjoint ranges.
class FileWriter {
 public:
  virtual ~FileWriter() = default;
  FileWriter() = default;
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  /// Gives the file this length and its room on the disk, so that a full disk is noticed before
  /// anything is written. What was not written reads as zeros.
  virtual void reserve(std::uint64_t bytes) = 0;
  /// Writes at `offset`, directly where alignment and file system allow it, else through the page
  /// cache, in which not more than some tens of MiB of this process then wait for the disk.
  virtual void write(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// Returns once what was written, and the length, will survive a crash; the file's name does when
  /// its folder was synchronised. It is never tried again: after a failure nobody knows what is on
  /// the disk, so every later call of this writer throws as well.
  virtual void sync() = 0;
  /// Returns whether aligned pieces bypass the page cache, as far as is known: some file systems
  /// say it only of the first one that is written.
  [[nodiscard]] virtual bool direct() const { return false; }
};

/// A file that is being read.
class FileReader {
 public:
  virtual ~FileReader() = default;
  FileReader() = default;
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  [[nodiscard]] virtual std::uint64_t bytes() const = 0;
  /// Fills `out` from `offset` on, directly where alignment allows it; DamagedFile if the file ends
  /// before that.
  virtual void read(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

/// A file system, as far as checkpoints need one. It outlives the readers and writers that it hands
/// out.
class Files {
 public:
  using Path = std::filesystem::path;
  virtual ~Files() = default;
  Files() = default;
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  /// Makes a new file; an error if there is one.
  [[nodiscard]] virtual std::unique_ptr<FileWriter> create(const Path& file) = 0;
  /// Opens a file that another process, or an earlier call, made. What is not a regular file is an
  /// error, and opening never blocks; nothing follows a link that has the name of a file.
  [[nodiscard]] virtual std::unique_ptr<FileWriter> open_to_write(const Path& file) = 0;
  /// Opens a regular file; DamagedFile if it is something else, but IoError if it is a link, which
  /// may lead to what was written, or to anything.
  [[nodiscard]] virtual std::unique_ptr<FileReader> open(const Path& file) const = 0;

  /// Makes a folder; an error if there is something of that name.
  virtual void make_folder(const Path& folder) = 0;
  /// Gives a file or folder another name. A file there is replaced; a folder is not.
  virtual void rename(const Path& from, const Path& to) = 0;
  /// Removes a file, or an empty folder.
  virtual void remove(const Path& path) = 0;
  /// Removes a folder with all that is in it, and links themselves: also one that somebody puts in
  /// the place of a folder meanwhile.
  virtual void remove_tree(const Path& folder);
  /// Returns once names made, changed and removed in the folder will survive a crash.
  virtual void sync_folder(const Path& folder) = 0;

  enum class Kind : std::uint8_t { kNothing, kFile, kFolder, kOther };
  /// Says what has this name; a link is kOther, wherever it leads.
  [[nodiscard]] virtual Kind kind(const Path& path) const = 0;
  /// Returns the names in a folder, sorted; "." and ".." are not among them.
  [[nodiscard]] virtual std::vector<std::string> list(const Path& folder) const = 0;
  /// Returns the bytes that the file system of this folder would still take, or nothing if it does
  /// not say.
  [[nodiscard]] virtual std::optional<std::uint64_t> free_bytes(const Path& folder) const = 0;
};

/// Returns the files of this machine. Any number may exist.
[[nodiscard]] std::unique_ptr<Files> make_system_files();

/// Writes a whole file: reserves, writes and synchronises it, but not its folder.
void write_whole(Files& files, const std::filesystem::path& file, std::span<const std::byte> bytes);
/// Returns a whole file; throws DamagedFile if it has more than `most_bytes`.
[[nodiscard]] std::string read_whole(const Files& files, const std::filesystem::path& file,
                                     std::size_t most_bytes);
/// Removes a file, or a folder with all that is in it, if there is one. Deletion is not atomic:
/// whoever must not leave half of something renames it first.
void remove_all(Files& files, const std::filesystem::path& path);

}  // namespace strata
