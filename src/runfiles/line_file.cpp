// Appends lines to a file of a run. Every line goes straight to the file, so that a run that dies
// has told all it knew, and what is left of a line that did not fit is cut off again.

#include "strata/runfiles/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"

namespace strata {

namespace {

/// Writes all of `text` at the end of what was written before; returns whether that worked.
bool write_all(int descriptor, std::string_view text, std::int64_t at) {
  while (!text.empty()) {
    const ssize_t written = ::pwrite(descriptor, text.data(), text.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
    at += written;
  }
  return true;
}

/// Returns the bytes up to the end of the last whole line of a file, or nothing if it cannot be
/// read: errno says why. Whoever took that for 0 would write over all that is there.
std::optional<std::int64_t> end_of_last_line(int descriptor) {
  std::array<char, 4096> text{};
  std::int64_t end = ::lseek(descriptor, 0, SEEK_END);
  if (end < 0) return std::nullopt;
  while (end > 0) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - std::int64_t{text.size()});
    const ssize_t count =
        ::pread(descriptor, text.data(), static_cast<std::size_t>(end - begin), begin);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return std::nullopt;
    const std::size_t newline =
        std::string_view(text.data(), static_cast<std::size_t>(count)).rfind('\n');
    if (newline != std::string_view::npos) return begin + static_cast<std::int64_t>(newline) + 1;
    end = begin;
  }
  return 0;
}

/// Removes what is in a file; returns the 0 bytes that it has then, or nothing: errno says why.
std::optional<std::int64_t> emptied(int descriptor) {
  return ::ftruncate(descriptor, 0) == 0 ? std::optional<std::int64_t>(0) : std::nullopt;
}

}  // namespace

LineFile::LineFile(std::filesystem::path file, OldLines old)
    : file_(std::move(file)), descriptor_(open_to_write(file_, O_RDWR)) {
  const bool removes = old == OldLines::kRemove;
  // The next line is written over what a run that was killed left of its last one.
  const std::optional<std::int64_t> end =
      removes ? emptied(descriptor_) : end_of_last_line(descriptor_);
  if (end) {
    whole_bytes_ = *end;
    return;
  }
  const int error = errno;
  ::close(descriptor_);
  throw IoError(file_.string() +
                (removes ? ": cannot be emptied: " : ": what is in it cannot be read: ") +
                std::strerror(error));
}

LineFile::~LineFile() { ::close(descriptor_); }

void LineFile::write(std::string_view line) {
  if (write_all(descriptor_, line, whole_bytes_)) {
    whole_bytes_ += static_cast<std::int64_t>(line.size());
    return;
  }
  const char* why = std::strerror(errno);
  if (lost_lines_++ == 0) {
    log::warn(
        "{}: a line could not be written: {}; the run goes on, and lines are lost until "
        "there is room",
        file_.string(), why);
  }
  // Half a line would end the reading of many a script. Where even that fails, the next line is
  // written over it.
  if (::ftruncate(descriptor_, whole_bytes_) != 0) return;
}

}  // namespace strata
