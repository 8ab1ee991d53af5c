// Reads files that a user names: configs, a model's config.json, safetensors, token files that are
// compared. Opening never blocks and reading never runs without end, whatever the name leads to: a
// pipe, a device, a folder, links in a circle. Everything throws IoError that names the file and
// the remedy. Several threads may read one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace strata {

/// A regular file, open for reading.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);
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
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, std::size_t most_bytes);

/// Returns a number that tells files apart by their length and by 64 samples of their contents, so
/// that files of hundreds of GB are compared in a moment.
[[nodiscard]] std::uint64_t sampled_hash(const InputFile& file);

}  // namespace strata
