// Opens files that a user names, and files of folders that may come from somebody else: configs,
// models, token files, what a run leaves. Opening never blocks and reading never runs without end,
// whatever the name leads to: a pipe, a device, a folder, links in a circle. Everything throws
// IoError that names the file and the remedy. Several threads may read one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace strata {

/// What becomes of a name that is a symbolic link. In a folder that was handed over a link is
/// another's choice: it would have this user's files read, copied and written to.
enum class Links : std::uint8_t {
  kFollow,  ///< the user has named the file
  kRefuse,  ///< the file is one of a folder that strata writes, such as a run's
  /// The file is one of a model's folder. Its links lead within that folder, or from a snapshot of
  /// a Hugging Face hub cache (models--NAME/snapshots/REVISION) to models--NAME/blobs.
  kOfModel,
};

/// A regular file, open for reading.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path, Links links = Links::kFollow);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Returns how long the file was when it was opened.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// Reads from byte `offset` on and returns how many bytes there were, fewer than asked for only
  /// where the file ends.
  [[nodiscard]] std::size_t read_some(std::uint64_t offset, std::span<std::byte> out) const;
  /// Fills `out` from byte `offset` on; throws IoError if the file ends before that.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

/// Returns the contents of a file; throws IoError if it has more than `most_bytes`.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, std::size_t most_bytes,
                                         Links links = Links::kFollow);

/// Opens a regular file that is written to as it is, and makes it where there is none. A link is
/// refused. `flags` say how (O_WRONLY, O_RDWR, O_APPEND); the caller closes the descriptor that is
/// returned. What is written as a whole goes through an OutputFile instead.
[[nodiscard]] int open_to_write(const std::filesystem::path& path, int flags);

/// Returns whether there is anything of this name, be it a link to nowhere. What the system does
/// not tell is neither there nor not.
[[nodiscard]] bool is_there(const std::filesystem::path& path);

/// Returns a number that tells files apart by their length and by 64 samples of their contents, so
/// that files of hundreds of GB are compared in a moment.
[[nodiscard]] std::uint64_t sampled_hash(const InputFile& file);

}  // namespace strata
