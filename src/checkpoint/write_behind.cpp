// Sends pieces of files to the disk as they are written, and lets a writer wait while too many are
// under way.

#include "checkpoint/write_behind.h"

#include <fcntl.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "strata/base/log.h"

namespace strata {

BufferedFile::BufferedFile(const SystemCalls& calls, std::filesystem::path path, int descriptor)
    : calls_(calls), path_(std::move(path)), descriptor_(descriptor) {}

BufferedFile::~BufferedFile() {
  // Never again after EINTR: Linux has closed it then.
  if (calls_.close(descriptor_) != 0 && errno != EINTR) {
    log::warn("{}: close: {}", path_.string(), std::generic_category().message(errno));
  }
}

void BufferedFile::fail(int error) {
  int none = 0;
  failure_.compare_exchange_strong(none, error);
}

void BufferedFile::end_wait() {
  --waits_;
  waits_.notify_all();
}

void BufferedFile::await_waits() const {
  for (int waits = waits_; waits != 0; waits = waits_) waits_.wait(waits);
}

void WriteBehind::wrote(const std::shared_ptr<BufferedFile>& file, std::uint64_t offset,
                        std::size_t bytes) {
  Piece piece{.file = file, .offset = offset, .bytes = bytes};
  if (!sync_range(piece, SYNC_FILE_RANGE_WRITE)) return;
  std::unique_lock lock(mutex_);
  bytes_ += bytes;
  pieces_.push_back(std::move(piece));
  while (bytes_ > kMostBytes) {
    const Piece oldest = std::move(pieces_.front());
    pieces_.pop_front();
    bytes_ -= oldest.bytes;
    lock.unlock();
    wait_for(oldest);
    lock.lock();
  }
}

void WriteBehind::forget(const BufferedFile& file) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(pieces_, [&](const Piece& piece) {
    if (piece.file.get() != &file) return false;
    bytes_ -= piece.bytes;
    return true;
  });
}

void WriteBehind::wait_for(const Piece& piece) {
  sync_range(piece,
             SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  // Advice alone: where it is refused the pages stay, and they are clean.
  ::posix_fadvise(piece.file->descriptor(), static_cast<off_t>(piece.offset),
                  static_cast<off_t>(piece.bytes), POSIX_FADV_DONTNEED);
}

bool WriteBehind::sync_range(const Piece& piece, unsigned flags) {
  const auto call = [&] {
    return calls_.sync_file_range(piece.file->descriptor(), static_cast<off_t>(piece.offset),
                                  static_cast<off_t>(piece.bytes), flags);
  };
  piece.file->begin_wait();
  int result = call();
  while (result != 0 && errno == EINTR) result = call();
  const int error = result == 0 ? 0 : errno;
  const bool refused = error == ENOSYS || error == EINVAL || error == EOPNOTSUPP || error == ESPIPE;
  if (error != 0 && !refused) piece.file->fail(error);
  piece.file->end_wait();
  return !refused;
}

}  // namespace strata
