// Reads the fields of a message in the binary format of protocol buffers, as far as SentencePiece's
// models need it. A message has no description of itself: who reads it knows what its fields are.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace strata {

class ProtobufReader {
 public:
  /// One field of a message. Which of its values counts depends on what it was written as.
  struct Field {
    std::uint32_t number = 0;
    std::uint64_t integer = 0;  ///< of a varint (also a flag) or of four or eight bytes
    std::string_view bytes{};   ///< of a text or a message
  };

  /// `message` outlives the reader and the fields.
  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  /// Returns the next field; none at the end. Throws ConfigError, without the file's name, if the
  /// message is not in this format or ends too early.
  [[nodiscard]] std::optional<Field> next();

 private:
  [[nodiscard]] std::uint64_t varint();
  [[nodiscard]] std::string_view take(std::uint64_t bytes);
  std::string_view rest_;
};

/// Returns the number whose four bytes an integer field has.
[[nodiscard]] float float_of(const ProtobufReader::Field& field);

}  // namespace strata
