// Opens without blocking, and refuses what is not a regular file before a byte is read: a pipe has
// no end, and a device may do anything. pread instead of a mapping: pages read through a mapping
// would count as memory of the process, and a file that shrinks would raise SIGBUS instead of an
// error.

#include "strata/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/random.h"
#include "strata/base/text.h"

namespace strata {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& why) {
  throw IoError(printable_name(path.string()) + ": " + why);
}

[[noreturn]] void fail_to_open(const std::filesystem::path& path, int error) {
  const std::string why = std::string("cannot be opened: ") + std::strerror(error);
  switch (error) {
    case ENOENT:
    case ENOTDIR: fail(path, why + "; check the path");
    case EACCES:
    case EPERM: fail(path, why + "; make it readable for this user, or name another file");
    case ELOOP: fail(path, why + "; name the file itself instead of links in a circle");
    case EMFILE: fail(path, why + "; raise the limit (ulimit -n), or name fewer files");
    case ENAMETOOLONG: fail(shortened(path.string()), why + "; give it a shorter path");
    default: fail(path, why);
  }
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor_ < 0) fail_to_open(path_, errno);
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    fail(path_, std::string("is not a regular file but ") + kind_of(status.st_mode) +
                    "; name a regular file");
  }
  bytes_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

std::size_t InputFile::read_some(std::uint64_t offset, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(descriptor_, out.data() + done, out.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      fail(path_,
           "cannot be read at byte " + std::to_string(offset + done) + ": " + std::strerror(errno));
    }
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  const std::size_t got = read_some(offset, out);
  if (got == out.size()) return;
  fail(path_, "cannot be read at byte " + std::to_string(offset + got) +
                  ": the file became shorter; fetch it again");
}

std::string read_text_file(const std::filesystem::path& path, std::size_t most_bytes) {
  const InputFile file(path);
  constexpr std::size_t kPiece = 64 * kKiB;
  std::string text;
  // Files of the system say that they have no bytes, and some of them have no end.
  for (std::size_t got = kPiece; got == kPiece && text.size() <= most_bytes;) {
    const std::size_t begin = text.size();
    text.resize(begin + kPiece);
    got = file.read_some(begin, std::as_writable_bytes(std::span(text).subspan(begin)));
    text.resize(begin + got);
  }
  if (text.size() > most_bytes) {
    fail(path, "has more than " + format_bytes(most_bytes) +
                   ", and so is not the text that is expected here; name another file");
  }
  return text;
}

std::uint64_t sampled_hash(const InputFile& file) {
  constexpr std::uint64_t kSamples = 64;
  std::vector<std::byte> sample(4 * kKiB);
  const std::uint64_t last = file.bytes() - std::min<std::uint64_t>(file.bytes(), sample.size());
  std::uint64_t hash = mix64(file.bytes());
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const std::uint64_t offset =
        last / (kSamples - 1) * i + last % (kSamples - 1) * i / (kSamples - 1);
    const std::size_t got = file.read_some(offset, sample);
    for (std::size_t at = 0; at < got; ++at) {
      hash = mix64(hash ^ std::to_integer<std::uint64_t>(sample[at]));
    }
    if (last == 0) break;
  }
  return hash;
}

}  // namespace strata
