// Sends and receives letters through MPI. One send to each rank may be on its way at a time; a
// receive is begun only for a letter that is there. No call is collective and none blocks, since
// any rank may be stopped or dead.
#include "comm/mpi_postbox.h"

#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "comm/mpi_calls.h"

namespace strata {

namespace {

constexpr int kTag = 0;

class MpiPostbox final : public Postbox {
 public:
  MpiPostbox(MPI_Comm letters, int rank, int ranks, const Lifeline::Gather& gather)
      : letters_(letters),
        rank_(rank),
        outgoing_(static_cast<std::size_t>(ranks)),
        lifeline_(rank, ranks, gather) {}
  ~MpiPostbox() override;
  MpiPostbox(const MpiPostbox&) = delete;
  MpiPostbox& operator=(const MpiPostbox&) = delete;

  void send(const LetterBytes& bytes) override;
  [[nodiscard]] std::optional<Letter> receive() override;
  [[nodiscard]] std::optional<int> gone() override { return lifeline_.gone(); }

 private:
  /// The last letter to one rank, and its send while that has not ended.
  struct Outgoing {
    LetterBytes bytes{};
    MPI_Request request = MPI_REQUEST_NULL;
  };
  static bool ended(Outgoing& letter) {
    int ended = 0;
    check_mpi(MPI_Test(&letter.request, &ended, MPI_STATUS_IGNORE), "MPI_Test");
    return ended != 0;
  }

  MPI_Comm letters_;
  int rank_;
  std::vector<Outgoing> outgoing_;  ///< by rank
  Lifeline lifeline_;
};

/// Gives the last letters a moment. A send that has not ended then goes to a rank that takes in
/// nothing, and the job is about to end.
MpiPostbox::~MpiPostbox() {
  if (MpiLibrary::finalized()) return;
  constexpr int kMoments = 100;
  constexpr std::chrono::milliseconds kMoment{5};
  for (Outgoing& letter : outgoing_) {
    int ended = 0;
    for (int i = 0; i < kMoments; ++i) {
      if (MPI_Test(&letter.request, &ended, MPI_STATUS_IGNORE) != MPI_SUCCESS || ended != 0) break;
      std::this_thread::sleep_for(kMoment);
    }
    if (ended == 0) MPI_Request_free(&letter.request);
  }
}

void MpiPostbox::send(const LetterBytes& bytes) {
  for (std::size_t to = 0; to < outgoing_.size(); ++to) {
    Outgoing& letter = outgoing_[to];
    if (static_cast<int>(to) == rank_ || !ended(letter)) continue;
    letter.bytes = bytes;
    // MPI_Test ends it, before the next one or at the end.
    // NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker)
    check_mpi(MPI_Isend(letter.bytes.data(), static_cast<int>(kLetterBytes), MPI_BYTE,
                        static_cast<int>(to), kTag, letters_, &letter.request),
              "MPI_Isend");
  }
}

std::optional<Letter> MpiPostbox::receive() {
  int come = 0;
  MPI_Status status{};
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kTag, letters_, &come, &status), "MPI_Iprobe");
  if (come == 0) return std::nullopt;
  Letter letter{.from = status.MPI_SOURCE};
  // The letter is here, so this takes it out and does not wait.
  check_mpi(MPI_Recv(letter.bytes.data(), static_cast<int>(kLetterBytes), MPI_BYTE, letter.from,
                     kTag, letters_, MPI_STATUS_IGNORE),
            "MPI_Recv");
  return letter;
}

}  // namespace

std::unique_ptr<Postbox> make_mpi_postbox(MPI_Comm letters, int rank, int ranks,
                                          const Lifeline::Gather& gather) {
  return std::make_unique<MpiPostbox>(letters, rank, ranks, gather);
}

}  // namespace strata
