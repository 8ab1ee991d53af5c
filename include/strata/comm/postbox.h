// Short letters between ranks for whoever must never wait: a rank may be stopped or dead, and the
// others have to find that out and tell each other. A postbox has a connection of its own, beside
// the channels of the control plane, and none of its calls waits for another rank.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

namespace strata {

/// What one letter holds; MPI sends so few bytes without asking the receiver.
inline constexpr std::size_t kLetterBytes = 512;
using LetterBytes = std::array<std::byte, kLetterBytes>;

struct Letter {
  int from = 0;  ///< the rank that sent it
  LetterBytes bytes{};
};

/// One rank's postbox. One thread uses it, which may be another one than those of the channels.
class Postbox {
 public:
  virtual ~Postbox() = default;
  /// Sends a letter to every other rank. A rank that has not yet taken in the one before is left
  /// out: letters say how things are now, so one that is missed is made good by the next. Throws
  /// BackendError if the connection fails.
  virtual void send(const LetterBytes& bytes) = 0;
  /// Returns a letter that has come, if one has; letters of one rank come in their order. Throws
  /// BackendError if the connection fails.
  [[nodiscard]] virtual std::optional<Letter> receive() = 0;
  /// Returns a rank whose process has ended before its postbox went, if this one has noticed that:
  /// it need not notice.
  [[nodiscard]] virtual std::optional<int> gone() { return std::nullopt; }
};

}  // namespace strata
