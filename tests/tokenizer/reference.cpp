// The rules of scripts/golden/make_tokenizer_goldens.py once more: any change belongs in both.

#include "tokenizer/reference.h"

#include <array>
#include <cstdio>
#include <fstream>

#include "support/json.h"
#include "support/places.h"
#include "tokenizer/unicode.h"

namespace strata::reference {
namespace {

constexpr char32_t kCodePoints = 0x110000, kCodePointsOfBlock = 4096;
constexpr std::uint64_t kTextsOfBlock = 2000;

bool is_surrogate(std::uint64_t value) { return value >= 0xd800 && value < 0xe000; }

class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  std::uint64_t operator()() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }

 private:
  std::uint64_t state_;
};

std::string random_text(const std::vector<std::string>& alphabet, std::uint64_t seed) {
  SplitMix64 draw(seed);
  std::string text;
  for (std::uint64_t left = 1 + draw() % 32; left > 0; --left) {
    const std::uint64_t number = draw();
    const std::uint64_t code_point = (number >> 3) % kCodePoints;
    if (number % 8 == 0 && !is_surrogate(code_point)) {
      append_utf8(static_cast<char32_t>(code_point), text);
    } else {
      text += alphabet[(number >> 3) % alphabet.size()];
    }
  }
  return text;
}

std::string contexts(char32_t value) {
  std::string c;
  append_utf8(value, c);
  return "a" + c + "b " + c + c + "A '" + c + "\n1" + c + "." + c + " ";
}

/// One byte's part of the CRC-32 of zlib and PNG.
constexpr std::uint32_t shifted(std::uint32_t crc) {
  for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320U : 0U);
  return crc;
}

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) table[byte] = shifted(byte);
  return table;
}

}  // namespace

nlohmann::json load() {
  return strata::test::read_json(strata::test::tokenizer_goldens_folder() + "/splits.json");
}

Texts code_points(std::size_t block) {
  std::string text;
  const auto begin = static_cast<char32_t>(block) * kCodePointsOfBlock;
  for (char32_t value = begin; value < begin + kCodePointsOfBlock; ++value) {
    if (!is_surrogate(value)) text += contexts(value);
  }
  return {text};
}

Texts random_texts(const std::vector<std::string>& alphabet, std::size_t block) {
  Texts texts;
  for (std::uint64_t seed = block * kTextsOfBlock; seed < (block + 1) * kTextsOfBlock; ++seed) {
    texts.push_back(random_text(alphabet, seed));
  }
  return texts;
}

void Checksum::add(std::string_view piece) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  const auto add_byte = [this](char byte) {
    crc_ = crc_ >> 8 ^ kTable[(crc_ ^ static_cast<unsigned char>(byte)) & 0xff];
  };
  for (const char byte : piece) add_byte(byte);
  add_byte('\xff');
}

std::string Checksum::hex() const {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", ~crc_);
  return text.data();
}

}  // namespace strata::reference
