// Opens and reads files. Opening does not block, and what is not a regular file is refused before a
// byte is read: a pipe has no end, and a device may do anything. Where a link has led is asked of
// the descriptor, so that nobody exchanges it between the question and the opening. pread instead
// of a mapping: pages read through a mapping would count as memory of the process, and a file that
// shrinks would raise SIGBUS instead of an error.

#include "strata/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/random.h"
#include "strata/base/text.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_file(const std::filesystem::path& path, const std::string& why) {
  throw IoError(printable_name(path.string()) + ": " + why);
}

[[noreturn]] void fail_to_open(const std::filesystem::path& path, int error) {
  const std::string why = std::string("cannot be opened: ") + std::strerror(error);
  switch (error) {
    case ENOENT:
    case ENOTDIR: refuse_file(path, why + "; check the path");
    case EACCES:
    case EPERM: refuse_file(path, why + "; make it readable for this user, or name another file");
    case ELOOP: refuse_file(path, why + "; name the file itself instead of links in a circle");
    case EMFILE: refuse_file(path, why + "; raise the limit (ulimit -n), or name fewer files");
    case ENAMETOOLONG: refuse_file(shortened(path.string()), why + "; give it a shorter path");
    default: refuse_file(path, why);
  }
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

/// A descriptor that is closed unless it is taken.
class Opened {
 public:
  explicit Opened(int descriptor) : descriptor_(descriptor) {}
  ~Opened() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] int take() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

constexpr int kAlways = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

/// Returns how long a file is, if it is a regular one.
std::uint64_t length_of(const fs::path& path, int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    refuse_file(path, std::string("cannot be looked at: ") + std::strerror(errno));
  }
  if (S_ISREG(status.st_mode)) return static_cast<std::uint64_t>(status.st_size);
  refuse_file(path, std::string("is not a regular file but ") + kind_of(status.st_mode) +
                        "; name a regular file");
}

/// Returns whether a path that has no links lies in a folder that has none.
bool lies_in(const fs::path& path, const fs::path& folder) {
  const auto at = std::ranges::mismatch(folder, path);
  return at.in1 == folder.end() && at.in2 != path.end();
}

/// Returns whether a file of a model's folder may lie there; neither path has links.
bool may_lie_at(const fs::path& place, const fs::path& folder) {
  if (lies_in(place, folder)) return true;
  for (fs::path at = folder; at.has_relative_path(); at = at.parent_path()) {
    const fs::path snapshots = at.parent_path();
    const fs::path model = snapshots.parent_path();
    if (snapshots.filename() == "snapshots" && model.filename().string().starts_with("models--")) {
      return lies_in(place, model / "blobs");
    }
  }
  return false;
}

/// Throws if a link in a model's folder has led out of it.
void require_of_model(const fs::path& path, int descriptor) {
  std::array<char, 4096> place{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), place.data(), place.size());
  if (length < 0) {
    refuse_file(path, std::string("is a link, and the system does not say to where: ") +
                          std::strerror(errno) + "; put the file itself there (cp -L)");
  }
  const fs::path found(std::string_view(place.data(), static_cast<std::size_t>(length)));
  std::error_code error;
  const fs::path folder = fs::canonical(path.has_parent_path() ? path.parent_path() : ".", error);
  if (!error && may_lie_at(found, folder)) return;
  refuse_file(path,
              "is a link to " + shortened(found.string()) +
                  ", out of the model's folder; put the file itself there (cp -L), or copy the "
                  "folder by cp -rL, if you want what is there in the model");
}

[[noreturn]] void fail_as_link(const fs::path& path) {
  refuse_file(
      path,
      "is a link, and whoever made it chose what is read or written there; put the file itself "
      "in its place (cp -L), or remove it");
}

bool is_link(const fs::path& path) {
  std::error_code ignored;
  return fs::is_symlink(path, ignored);
}

/// Opens a file and returns its descriptor.
int open_to_read(const fs::path& path, Links links) {
  constexpr int kFlags = O_RDONLY | kAlways;
  if (links == Links::kFollow) return ::open(path.c_str(), kFlags);
  const int itself = ::open(path.c_str(), kFlags | O_NOFOLLOW);
  if (itself >= 0 || errno != ELOOP) return itself;
  if (links == Links::kRefuse) {
    if (is_link(path)) fail_as_link(path);
    errno = ELOOP;
    return -1;
  }
  Opened led(::open(path.c_str(), kFlags));
  if (led.get() >= 0) require_of_model(path, led.get());
  return led.take();
}

}  // namespace

InputFile::InputFile(std::filesystem::path path, Links links) : path_(std::move(path)) {
  Opened file(open_to_read(path_, links));
  if (file.get() < 0) fail_to_open(path_, errno);
  bytes_ = length_of(path_, file.get());
  descriptor_ = file.take();
}

InputFile::~InputFile() { ::close(descriptor_); }

std::size_t InputFile::read_some(std::uint64_t offset, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(descriptor_, out.data() + done, out.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      refuse_file(path_, "cannot be read at byte " + std::to_string(offset + done) + ": " +
                             std::strerror(errno));
    }
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  const std::size_t got = read_some(offset, out);
  if (got == out.size()) return;
  refuse_file(path_, "cannot be read at byte " + std::to_string(offset + got) +
                         ": the file became shorter; fetch it again");
}

std::string read_text_file(const std::filesystem::path& path, std::size_t most_bytes, Links links) {
  const InputFile file(path, links);
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
    refuse_file(path, "has more than " + format_bytes(most_bytes) +
                          ", and so is not the text that is expected here; name another file");
  }
  return text;
}

int open_to_write(const std::filesystem::path& path, int flags) {
  constexpr mode_t kMode = 0666;  // less the umask
  Opened file(::open(path.c_str(), flags | O_CREAT | O_NOFOLLOW | kAlways, kMode));
  if (file.get() < 0) {
    const int error = errno;
    if (error == ELOOP && is_link(path)) fail_as_link(path);
    refuse_file(path, std::string("cannot be written: ") + std::strerror(error));
  }
  static_cast<void>(length_of(path, file.get()));
  return file.take();
}

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(path, error).type();
  if (type != fs::file_type::none) return type != fs::file_type::not_found;
  const bool too_long = error == std::errc::filename_too_long;
  refuse_file(too_long ? fs::path(shortened(path.string())) : path,
              "cannot be looked at: " + error.message());
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
