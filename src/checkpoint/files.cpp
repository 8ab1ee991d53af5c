// Has the operations of Files that any file system can do with its other ones.

#include "strata/checkpoint/files.h"

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/narrow.h"

namespace strata {

void write_whole(Files& files, const std::filesystem::path& file,
                 std::span<const std::byte> bytes) {
  const std::unique_ptr<FileWriter> writer = files.create(file);
  writer->reserve(bytes.size());
  writer->write(0, bytes);
  writer->sync();
}

std::string read_whole(const Files& files, const std::filesystem::path& file,
                       std::size_t most_bytes) {
  const std::unique_ptr<FileReader> reader = files.open(file);
  if (reader->bytes() > most_bytes) {
    throw DamagedFile(file.string() + ": read: has " +
                      format_bytes(narrow<std::size_t>(reader->bytes())) + ", and at most " +
                      format_bytes(most_bytes) + " are expected here");
  }
  std::string text(narrow<std::size_t>(reader->bytes()), '\0');
  reader->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void Files::remove_tree(const Path& folder) {
  for (const std::string& name : list(folder)) remove_all(*this, folder / name);
  remove(folder);
}

void remove_all(Files& files, const std::filesystem::path& path) {
  const Files::Kind kind = files.kind(path);
  if (kind == Files::Kind::kNothing) return;
  if (kind == Files::Kind::kFolder) return files.remove_tree(path);
  files.remove(path);
}

}  // namespace strata
