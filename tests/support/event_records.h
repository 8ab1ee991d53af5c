// Reads TensorBoard's event files without the code that writes them: records by their lengths and
// checksums, messages by the keys of their fields, a bit at a time where that is plainest.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace strata::test {

/// What an Event says, as far as strata writes any.
struct ReadEvent {
  double wall_time_s = 0;
  std::int64_t step = 0;
  std::string file_version;
  bool restarts = false;
  std::map<std::string, float> scalars;
};

/// CRC-32C by its definition: division by the polynomial, bit by bit.
inline std::uint32_t plain_crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool odd = ((crc ^ (static_cast<unsigned char>(byte) >> bit)) & 1) != 0;
      crc = (crc >> 1) ^ (odd ? 0x82f63b78U : 0U);
    }
  }
  return crc ^ 0xffffffff;
}

class EventBytes {
 public:
  explicit EventBytes(std::string_view bytes) : rest_(bytes) {}

  [[nodiscard]] bool empty() const { return rest_.empty(); }
  std::string_view take(std::size_t count) {
    if (count > rest_.size()) throw std::runtime_error("the bytes end early");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  template <class T>
  T fixed() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view bytes() { return take(varint()); }
  void checked(std::string_view of) {
    const std::uint32_t crc = plain_crc32c(of);
    const auto masked = static_cast<std::uint32_t>(((crc >> 15) | (crc << 17)) + 0xa282ead8U);
    if (fixed<std::uint32_t>() != masked) throw std::runtime_error("a checksum is wrong");
  }

 private:
  std::string_view rest_;
};

inline ReadEvent read_event(std::string_view message) {
  ReadEvent event;
  for (EventBytes bytes(message); !bytes.empty();) {
    switch (const std::uint64_t key = bytes.varint(); key) {
      case 1 * 8 + 1: event.wall_time_s = bytes.fixed<double>(); break;
      case 2 * 8 + 0: event.step = static_cast<std::int64_t>(bytes.varint()); break;
      case 3 * 8 + 2: event.file_version = bytes.bytes(); break;
      case 7 * 8 + 2: event.restarts = bytes.bytes() == std::string_view("\x08\x01"); break;
      case 5 * 8 + 2: {
        for (EventBytes values(bytes.bytes()); !values.empty();) {
          if (values.varint() != 1 * 8 + 2) throw std::runtime_error("no value of a summary");
          EventBytes value(values.bytes());
          if (value.varint() != 1 * 8 + 2) throw std::runtime_error("no tag");
          const std::string tag(value.bytes());
          if (value.varint() != 2 * 8 + 5) throw std::runtime_error("no simple value");
          event.scalars[tag] = value.fixed<float>();
        }
        break;
      }
      default: throw std::runtime_error("an unknown field " + std::to_string(key));
    }
  }
  return event;
}

/// Returns the events of a file. Throws if anything in it is not as the formats say.
inline std::vector<ReadEvent> read_events(std::string_view file) {
  std::vector<ReadEvent> events;
  for (EventBytes bytes(file); !bytes.empty();) {
    const std::string_view length_bytes = bytes.take(8);
    std::uint64_t length = 0;
    std::memcpy(&length, length_bytes.data(), sizeof length);
    bytes.checked(length_bytes);
    const std::string_view message = bytes.take(length);
    bytes.checked(message);
    events.push_back(read_event(message));
  }
  return events;
}

}  // namespace strata::test
