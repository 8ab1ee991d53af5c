// Connects a rank to its neighbours in the ring, and looks at these connections. Its sockets never
// block; gone() looks at them whenever it is asked. Ranks of one machine meet at its loopback
// address, which no other machine reaches. Else a rank calls the next one at all of its addresses,
// since it cannot know which of its networks is the right one; whoever answers with the right
// secret is that rank. Only an orderly end of a connection counts: firewalls reset connections on
// which nothing is said for long.
#include "comm/lifeline.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <random>
#include <string_view>
#include <thread>

namespace strata {

namespace {

constexpr char kGoodBye = '.';
constexpr std::size_t kMostAddresses = 16;
constexpr std::size_t kMostLines = 64;  // strangers may knock

/// Returns the IPv4 addresses of this host in its networks, or that for itself if it has no other.
std::vector<in_addr_t> own_addresses() {
  std::vector<in_addr_t> addresses;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return addresses;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    sockaddr_in address{};
    std::memcpy(&address, one->ifa_addr, sizeof(address));
    addresses.push_back(address.sin_addr.s_addr);
  }
  ::freeifaddrs(all);
  if (addresses.empty()) addresses.push_back(htonl(INADDR_LOOPBACK));
  return addresses;
}

/// Tells apart what has a loopback address of its own: machines, each time that they start, and
/// network namespaces.
struct Place {
  std::array<char, 64> host{};
  std::array<char, 64> start{};  ///< of the machine
  std::uint64_t network = 0;     ///< namespace
  bool operator==(const Place&) const = default;
};

/// Returns where this process is; of what the system does not tell, something that nobody else has.
Place own_place() {
  Place place;
  std::ifstream start("/proc/sys/kernel/random/boot_id");
  start.read(place.start.data(), static_cast<std::streamsize>(place.start.size()));
  struct stat network {};
  const bool known = start.gcount() > 0 && ::stat("/proc/self/ns/net", &network) == 0 &&
                     ::gethostname(place.host.data(), place.host.size()) == 0;
  place.network = network.st_ino;
  if (known) return place;
  std::random_device random;
  for (char& byte : place.host) byte = static_cast<char>(random());
  return place;
}

/// Returns whether all ranks reach each other at the loopback address.
bool all_are_here(int ranks, const Lifeline::Gather& gather) {
  const Place own = own_place();
  const std::vector<std::byte> bytes = gather(std::as_bytes(std::span(&own, 1)));
  std::vector<Place> all(static_cast<std::size_t>(ranks));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return std::ranges::all_of(all, [&](const Place& place) { return place == own; });
}

int open_socket() { return ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

bool send_all(int descriptor, std::span<const char> bytes) {
  const ssize_t sent = ::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(bytes.size());
}

}  // namespace

struct Lifeline::Contact {
  Secret secret{};
  in_port_t port = 0;  ///< 0: it takes no calls; in the order of the network, as addresses are
  std::array<in_addr_t, kMostAddresses> addresses{};  ///< 0: none
};

Lifeline::Lifeline(int rank, int ranks, const Gather& gather)
    : before_((rank + ranks - 1) % ranks) {
  if (ranks == 1) return;
  std::random_device random;
  for (char& byte : secret_) byte = static_cast<char>(random());
  const Contact own = all_are_here(ranks, gather) ? listen(INADDR_LOOPBACK) : listen(INADDR_ANY);
  const std::vector<std::byte> bytes = gather(std::as_bytes(std::span(&own, 1)));
  std::vector<Contact> all(static_cast<std::size_t>(ranks));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  for (const Contact& contact : all) secrets_.push_back(contact.secret);
  const int next = (rank + 1) % ranks;
  call(all[static_cast<std::size_t>(next)], next);
  connect();
}

Lifeline::~Lifeline() {
  if (listener_ >= 0) ::close(listener_);
  for (const Line& line : lines_) {
    send_all(line.descriptor, std::span(&kGoodBye, 1));
    ::close(line.descriptor);
  }
}

Lifeline::Contact Lifeline::listen(in_addr_t at) {
  Contact own{.secret = secret_};
  listener_ = open_socket();
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(at);
  auto* const address = reinterpret_cast<sockaddr*>(&here);
  socklen_t length = sizeof(here);
  constexpr int kWaiting = 8;
  if (listener_ < 0 || ::bind(listener_, address, length) != 0 ||
      ::listen(listener_, kWaiting) != 0 || ::getsockname(listener_, address, &length) != 0) {
    return own;
  }
  own.port = here.sin_port;
  const std::vector<in_addr_t> addresses =
      at == INADDR_ANY ? own_addresses() : std::vector<in_addr_t>{here.sin_addr.s_addr};
  std::copy_n(addresses.begin(), std::min(addresses.size(), kMostAddresses), own.addresses.begin());
  return own;
}

void Lifeline::call(const Contact& next, int rank) {
  for (const in_addr_t address : next.addresses) {
    if (address == 0 || next.port == 0) return;
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = next.port;
    to.sin_addr.s_addr = address;
    const int descriptor = open_socket();
    if (descriptor < 0) return;
    if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0 &&
        errno != EINPROGRESS) {
      ::close(descriptor);
      continue;
    }
    lines_.push_back({.descriptor = descriptor, .rank = rank, .calls = true, .greets = true});
  }
}

/// Both neighbours are here now, so that this takes milliseconds where hosts let them.
void Lifeline::connect() {
  constexpr int kMoments = 100;
  constexpr std::chrono::milliseconds kMoment{5};
  for (int i = 0; i < kMoments && !connected(); ++i) std::this_thread::sleep_for(kMoment);
}

bool Lifeline::connected(bool calls) const {
  return std::any_of(lines_.begin(), lines_.end(), [&](const Line& line) {
    return line.calls == calls && greeted(line) && !line.greets;
  });
}

void Lifeline::accept_all() {
  while (listener_ >= 0 && lines_.size() < kMostLines) {
    const int descriptor = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor < 0) return;
    lines_.push_back({.descriptor = descriptor, .rank = before_, .greets = true});
  }
}

bool Lifeline::greeted(const Line& line) const {
  return line.heard.starts_with(std::string_view(secret_.data(), secret_.size()));
}

void Lifeline::greet(Line& line) const {
  if (!line.greets || (!line.calls && !greeted(line))) return;
  line.greets = !send_all(line.descriptor, secrets_[static_cast<std::size_t>(line.rank)]);
}

bool Lifeline::take_in(Line& line) {
  greet(line);
  const std::size_t most = secret_.size() + 1;
  while (true) {
    std::array<char, 32> bytes{};
    const ssize_t count = ::recv(line.descriptor, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0) {
      line.heard.append(bytes.data(), static_cast<std::size_t>(count));
      if (line.heard.size() > most) return false;  // a stranger
      greet(line);
      continue;
    }
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    const bool left = line.heard.size() == most;
    if (greeted(line) && !left) gone_ = line.rank;
    return false;
  }
}

void Lifeline::look() {
  accept_all();
  for (std::size_t i = 0; i < lines_.size();) {
    if (take_in(lines_[i])) {
      ++i;
      continue;
    }
    ::close(lines_[i].descriptor);
    lines_.erase(lines_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::optional<int> Lifeline::gone() {
  look();
  return gone_;
}

bool Lifeline::connected() {
  look();
  return connected(true) && connected(false);
}

}  // namespace strata
