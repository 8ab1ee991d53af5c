// Writes as a checkpoint does: several threads, aligned pieces, room reserved first, fsync at the
// end. The bytes are random, since some file systems store zeros as nothing.

#include "strata/checkpoint/disk_probe.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/random.h"
#include "strata/base/start_thread.h"

namespace strata {
namespace {

constexpr std::size_t kPieceBytes = 4 * kMiB;

/// Random bytes at a multiple of kFileAlignment.
class AlignedPiece {
 public:
  explicit AlignedPiece(std::size_t bytes) : memory_(bytes + kFileAlignment) {
    void* begin = memory_.data();
    std::size_t room = memory_.size();
    begin = std::align(kFileAlignment, bytes, begin, room);
    bytes_ = std::span(static_cast<std::byte*>(begin), bytes);
    for (std::size_t i = 0; i < bytes; i += sizeof(std::uint64_t)) {
      const std::uint64_t word = mix64(i);
      std::memcpy(&bytes_[i], &word, std::min(sizeof word, bytes - i));
    }
  }
  [[nodiscard]] std::span<const std::byte> get() const { return bytes_; }

 private:
  std::vector<std::byte> memory_;
  std::span<std::byte> bytes_;
};

/// Fills a file by several threads until it is full or the time is over, and returns the bytes that
/// were written. Rethrows the first error.
std::size_t fill(FileWriter& writer, const ProbeSize& size) {
  const AlignedPiece piece(std::min(kPieceBytes, size.bytes));
  const double begin_s = size.clock();
  std::atomic<std::size_t> next = 0;
  std::atomic<std::size_t> written = 0;
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&] {
    try {
      while (true) {
        const std::size_t offset = next.fetch_add(piece.get().size());
        // The first piece is always written: a rate of nothing is no rate.
        if (offset >= size.bytes || (offset > 0 && size.clock() - begin_s > size.seconds)) return;
        const std::size_t bytes = std::min(piece.get().size(), size.bytes - offset);
        writer.write(offset, piece.get().first(bytes));
        written += bytes;
      }
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (!error) error = std::current_exception();
      next = size.bytes;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < size.writers; ++i) threads.push_back(start_thread("disk probe", work));
  }
  if (error) std::rethrow_exception(error);
  return written;
}

/// Returns a name that no other process or rank has taken.
std::string scratch_name() {
  std::random_device device;
  std::ostringstream name;
  name << kProbePrefix << std::hex << device() << device();
  return name.str();
}

}  // namespace

DiskProbe probe_disk(Files& files, const std::filesystem::path& folder, const ProbeSize& size) {
  try {
    if (files.kind(folder) == Files::Kind::kFile) {
      throw IoError(folder.string() + ": is a file; name a folder");
    }
    const std::filesystem::path file = folder / scratch_name();
    std::unique_ptr<FileWriter> writer = files.create(file);
    DiskProbe probe;
    try {
      writer->reserve(size.bytes);
      const double begin_s = size.clock();
      const std::size_t written = fill(*writer, size);
      writer->sync();
      probe.write_gbs = static_cast<double>(written) / std::max(size.clock() - begin_s, 1e-9) / 1e9;
      probe.direct = writer->direct();
    } catch (...) {
      writer.reset();
      try {
        files.remove(file);
      } catch (const IoError&) {  // the first error says more
      }
      throw;
    }
    writer.reset();
    files.remove(file);
    files.sync_folder(folder);
    probe.free_bytes = files.free_bytes(folder);
    return probe;
  } catch (const IoError& error) {
    throw IoError("run.output: checkpoints cannot be written to " + folder.string() + ": " +
                  error.what());
  }
}

}  // namespace strata
