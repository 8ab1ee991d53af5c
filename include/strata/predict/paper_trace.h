// What a timeline needs of a trace: for each submission how long it would run alone, what it shares
// with other work, and what it comes after. It is a sink like the Recorder, but keeps some eighty
// bytes of a submission, so predictions record steps with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "strata/device/lane.h"
#include "strata/device/trace.h"
#include "strata/predict/rates.h"

namespace strata {

/// What running work shares with other work.
enum class Share : std::uint8_t {
  kDevice,
  kLinkIn,
  kLinkOut,
  kHost,
  kHostAttention,  ///< which reads alone, and so leaves more to copies
  kCollective,
  kNone
};
inline constexpr std::size_t kShareCount = 7;

/// What a collective and other work leave of each other's speed; by default nothing is taken.
struct CollectiveShares {
  double own = 1;       ///< that it has beside kernels
  double kernels = 1;   ///< that kernels have beside it
  double link_use = 0;  ///< the share of the link that it asks for
};

/// What stands for how much. Work of a cell, or of a layer, stands for that of so many equal ones,
/// one after another; that of a chunk for so many which move as much together.
struct PaperWeights {
  double cell = 1;
  double layer = 1;
  double chunk = 1;
  int layers = 0;  ///< the units from 1 to this one are layers
};

/// A submission as it would run alone.
struct PaperWork {
  double alone_s = 0;
  double submit_s = 0;  ///< the submitting thread's time for it
  /// It runs in so many equal pieces, between which another lane may take its turn.
  double pieces = 1;
  double tail_s = 0;  ///< the end of each piece, in which another lane may do so as well
  Share share = Share::kNone;
  Lane lane = Lane::kCompute;
  bool by_submitter = false;
  int pass = -1;  ///< that it belongs to, or -1
  std::uint64_t ticket = 0;
  std::uint32_t first_event = 0;  ///< of what it waits for; then comes what was joined
  std::uint32_t waits_end = 0;
  std::uint32_t joined_end = 0;
  CollectiveShares beside{};  ///< of collectives
};

/// Receives submissions and keeps what a Timeline needs of them. Throws std::invalid_argument for
/// work of a kind whose rate is 0, and for collectives without a rate.
class PaperTrace final : public TraceSink {
 public:
  explicit PaperTrace(Rates rates, const PaperWeights& weights = {})
      : rates_(std::move(rates)), weights_(weights) {}

  void submitted(TraceRecord record) override { add(record); }
  void ran(Lane, std::uint64_t, double, double) override {}
  void arena(std::string_view, Space space, ByteRange range) override {
    if (space != Space::kDevice) of_host_.push_back(range);
  }
  [[nodiscard]] bool active() const override { return active_; }
  void start() { active_ = true; }
  void stop() { active_ = false; }

  void add(const TraceRecord& record);
  [[nodiscard]] std::size_t size() const { return works_.size(); }
  [[nodiscard]] const PaperWork& operator[](std::size_t i) const { return works_[i]; }
  /// Returns what a submission waits for on its lane.
  [[nodiscard]] std::span<const Event> waits(const PaperWork& work) const {
    return std::span(events_).subspan(work.first_event, work.waits_end - work.first_event);
  }
  /// Returns what the submitting thread waited for before it.
  [[nodiscard]] std::span<const Event> joined(const PaperWork& work) const {
    return std::span(events_).subspan(work.waits_end, work.joined_end - work.waits_end);
  }
  [[nodiscard]] const Rates& rates() const { return rates_; }

 private:
  /// Returns how many bytes a kernel of the device reads in memory of the host.
  [[nodiscard]] std::size_t read_over_link(const TraceRecord& record) const;

  Rates rates_;
  PaperWeights weights_;
  std::vector<ByteRange> of_host_;  ///< arenas beside device memory
  bool active_ = false;
  std::vector<PaperWork> works_;
  std::vector<Event> events_;
};

}  // namespace strata
