// Tells that the process of another rank has died. MPI does not: its launcher may, or may let the
// others wait. Each rank keeps a TCP connection to the rank before it and to the one after it, in a
// ring, on which nothing is said but a greeting and a good-bye. The system closes the connections
// of a process that ends, however it ends, and that is what the other end sees. Ranks of one
// machine listen at its loopback address, others at all addresses of their hosts; who does not know
// a rank's secret is not heard. Where hosts refuse connections nothing is seen, and the watchdog
// finds out by silence.
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace strata {

/// One rank's ends of its connections. One thread uses it.
class Lifeline {
 public:
  /// Returns the bytes of all ranks, one rank's after the other's, as Ranks::all_gather_host does.
  using Gather = std::function<std::vector<std::byte>(std::span<const std::byte>)>;

  /// All ranks make theirs together, and each calls `gather` twice. It waits half a second at most
  /// for the connections, which may also come about later, while gone() is called.
  Lifeline(int rank, int ranks, const Gather& gather);
  /// Says good-bye: from now on nobody takes this rank for dead.
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  /// Returns a neighbour whose process has ended without a good-bye, if one has. Does not wait.
  [[nodiscard]] std::optional<int> gone();
  /// Returns whether both neighbours are connected, so that the end of each would be noticed. Does
  /// not wait.
  [[nodiscard]] bool connected();

 private:
  /// What a rank is greeted with, so that a stranger is not taken for it.
  using Secret = std::array<char, 16>;
  /// Where a rank can be reached.
  struct Contact;
  /// A connection. It counts once this rank's secret has come.
  struct Line {
    int descriptor = -1;
    int rank = -1;        ///< at the other end
    bool calls = false;   ///< this rank has called, and greets first
    bool greets = false;  ///< the other end's secret has still to be sent
    std::string heard{};  ///< a greeting, and a good-bye
  };

  [[nodiscard]] Contact listen(in_addr_t at);
  void call(const Contact& next, int rank);
  void connect();
  /// Returns whether a neighbour has answered: the one that this rank calls, or the other.
  [[nodiscard]] bool connected(bool calls) const;
  /// Takes in what has come on all lines.
  void look();
  void accept_all();
  /// Returns whether the other end has sent this rank's secret.
  [[nodiscard]] bool greeted(const Line& line) const;
  void greet(Line& line) const;
  /// Returns false once nothing more can come.
  [[nodiscard]] bool take_in(Line& line);

  int before_;  ///< the rank that calls this one
  Secret secret_{};
  std::vector<Secret> secrets_;  ///< by rank
  int listener_ = -1;
  std::vector<Line> lines_;
  std::optional<int> gone_;
};

}  // namespace strata
