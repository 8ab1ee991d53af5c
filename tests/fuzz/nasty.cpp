#include "fuzz/nasty.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

namespace strata::fuzz {
namespace {

using namespace std::string_literals;

constexpr std::array<const char*, 42> kIntegers{"0",
                                                "1",
                                                "-1",
                                                "2",
                                                "3",
                                                "4",
                                                "5",
                                                "7",
                                                "8",
                                                "16",
                                                "31",
                                                "64",
                                                "100",
                                                "127",
                                                "255",
                                                "256",
                                                "257",
                                                "1000",
                                                "4096",
                                                "32768",
                                                "65535",
                                                "65536",
                                                "1000000",
                                                "16777216",
                                                "1073741823",
                                                "1073741824",
                                                "2147483646",
                                                "2147483647",
                                                "2147483648",
                                                "-2147483648",
                                                "4294967295",
                                                "4294967296",
                                                "9007199254740993",
                                                "4611686018427387904",
                                                "9223372036854775806",
                                                "9223372036854775807",
                                                "9223372036854775808",
                                                "-9223372036854775808",
                                                "-9223372036854775809",
                                                "18446744073709551615",
                                                "18446744073709551616",
                                                "1000000000000000000000000000000"};

constexpr std::array<const char*, 34> kNumbers{
    "0",      "-0",   "-0.0",     "1",         "1.0",       "0.5",    "-1",      "1e-300", "5e-324",
    "1e-45",  "1e-8", "0.1",      "0.999",     "1.0000001", "2",      "10",      "1e3",    "1e4",
    "1e9",    "1e18", "1e19",     "1e38",      "3.5e38",    "1e300",  "1.8e308", "1e309",  "1e999",
    "-1e999", "NaN",  "Infinity", "-Infinity", "nan",       "1e-999", "0x10"};

constexpr std::array<const char*, 30> kSizes{"0",
                                             "1",
                                             "4096",
                                             "1000000",
                                             "-1",
                                             "1KiB",
                                             "64KiB",
                                             "1MiB",
                                             "8MiB",
                                             "100MiB",
                                             "1GiB",
                                             "24GiB",
                                             "1TiB",
                                             "16EiB",
                                             "-1GiB",
                                             "1.5GiB",
                                             "0B",
                                             "1B",
                                             "GiB",
                                             "1gib",
                                             "1GB",
                                             " 1GiB",
                                             "1 GiB",
                                             "1GiBB",
                                             "0x10",
                                             "1e999GiB",
                                             "nanGiB",
                                             "infGiB",
                                             "99999999999999999999GiB",
                                             "18446744073709551616"};

constexpr std::array<const char*, 22> kAnything{
    "null",   "true",  "false",    "{}",        "[]",
    "[null]", "[[]]",  "[1,2]",    "[1,2,3]",   "\"\"",
    "\"x\"",  "\"1\"", "\"null\"", "{\"a\":1}", "{\"a\":{\"a\":{\"a\":1}}}",
    "00012",  "1.",    ".5",       "+1",        "1e",
    "--1",    "'x'"};

/// Pieces of texts, as raw bytes.
const std::vector<std::string>& texts() {
  static const std::vector<std::string> pieces{"",
                                               " ",
                                               "a",
                                               ".",
                                               "/nonexistent/file",
                                               "folder",
                                               "fifo",
                                               "loop",
                                               "link",
                                               "/dev/zero",
                                               "/dev/full",
                                               "/dev/null",
                                               "/proc/self/mem",
                                               "a/b/c",
                                               "-",
                                               "--",
                                               "-1",
                                               "null",
                                               "{}",
                                               "%s%n%d",
                                               "\\",
                                               "\"",
                                               "a=b",
                                               "=",
                                               "line\nline",
                                               "\x1b[31mred",
                                               "\x07\x08\x7f",
                                               "\xc2\x9b;31mred",
                                               "\x9b;31mred",
                                               "x\n[2026-11-28 12:00:00] [info] all is well",
                                               "caf\xc3\xa9",
                                               "\xe6\x97\xa5\xe6\x9c\xac",
                                               "\xff\xfe\xfd",
                                               "\xc3",
                                               "\xed\xa0\x80",
                                               "\xf4\x90\x80\x80",
                                               std::string("\xe2\x80\xae") + "abc"};
  return pieces;
}

std::string repeated(std::string_view piece, std::size_t count) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += piece;
  return all;
}

std::string nested(Dice& dice) {
  constexpr std::array<std::size_t, 4> kDepths{10, 200, 3000, 100000};
  const std::size_t depth = dice.pick(kDepths);
  const bool arrays = dice.chance(0.5);
  const bool closed = dice.chance(0.8);
  return repeated(arrays ? "[" : "{\"a\":", depth) + (arrays ? "" : "1") +
         (closed ? repeated(arrays ? "]" : "}", depth) : "");
}

/// Between quotes, with a backslash before what needs one, except now and then.
std::string quoted(Dice& dice, const std::string& text) {
  constexpr std::array<const char*, 5> kEscapes{"\\u0000", "\\ud800", "\\u001b[2J", "\\x", "\\"};
  if (dice.chance(0.1)) return '"' + std::string(dice.pick(kEscapes)) + '"';
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n' && dice.chance(0.9)) {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// A whole number near the present one; beyond the largest integers it wraps around.
std::string neighbour(Dice& dice, const std::string& present) {
  const std::int64_t value = std::strtoll(present.c_str(), nullptr, 10);
  const auto bits = static_cast<std::uint64_t>(value);
  const std::array<std::uint64_t, 6> near{
      bits - 1, bits + 1, bits * 2, static_cast<std::uint64_t>(value / 2), 0 - bits, bits * 3};
  return std::to_string(static_cast<std::int64_t>(dice.pick(near)));
}

/// A path, or a list that may be of sources with weights.
std::string nasty_files(Dice& dice) {
  const std::string file = quoted(dice, nasty_text(dice));
  switch (dice.below(4)) {
    case 0: return file;
    case 1: return "[" + file + "," + quoted(dice, nasty_text(dice)) + "]";
    case 2: return R"([{"path":)" + file + R"(,"weight":)" + dice.pick(kNumbers) + "}]";
    default:
      return R"([{"path":[)" + file + R"(],"weight":)" + dice.pick(kNumbers) + "}," +
             R"({"path":"train.bin","weight":)" + dice.pick(kNumbers) + "}]";
  }
}

std::string of_its_type(Dice& dice, const Key& key, const std::string& present) {
  if (key.optional && dice.chance(0.1)) return "null";
  switch (key.type) {
    case FieldType::kBool: return dice.chance(0.5) ? "true" : "false";
    case FieldType::kInteger:
      if (!present.empty() && dice.chance(0.5)) return neighbour(dice, present);
      return dice.pick(kIntegers);
    case FieldType::kNumber: return dice.pick(kNumbers);
    case FieldType::kString: return quoted(dice, nasty_text(dice));
    case FieldType::kStrings: return "[" + quoted(dice, nasty_text(dice)) + "]";
    case FieldType::kPair:
      return "[" + std::string(dice.pick(kNumbers)) + "," + dice.pick(kNumbers) + "]";
    case FieldType::kNumbers: return "[" + std::string(dice.pick(kNumbers)) + "]";
    case FieldType::kBytes:
      return dice.chance(0.3) ? std::string(dice.pick(kIntegers)) : quoted(dice, nasty_size(dice));
    case FieldType::kFiles: return nasty_files(dice);
    case FieldType::kChoice: return '"' + dice.pick(key.choices) + '"';
    case FieldType::kSection: return dice.chance(0.5) ? "{}" : "null";
  }
  return "null";
}

std::string anything(Dice& dice) {
  switch (dice.below(6)) {
    case 0: return dice.pick(kIntegers);
    case 1: return dice.pick(kNumbers);
    case 2: return quoted(dice, nasty_text(dice));
    case 3: return dice.chance(0.3) ? nested(dice) : dice.pick(kAnything);
    default: return dice.pick(kAnything);
  }
}

/// A range that begins anywhere, more often at the front, where headers are, or at the end.
std::pair<std::size_t, std::size_t> range_of(Dice& dice, const std::string& bytes) {
  const std::size_t size = bytes.size();
  std::size_t begin = dice.below(size);
  if (dice.chance(0.4)) begin = dice.below(std::min<std::size_t>(size, 64));
  if (dice.chance(0.2)) begin = size - 1 - dice.below(std::min<std::size_t>(size, 64));
  const std::size_t most = dice.chance(0.7) ? 16 : size;
  return {begin, std::min(size - begin, 1 + dice.below(most))};
}

void overwrite_number(Dice& dice, std::string& bytes) {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();
  constexpr std::array<std::uint64_t, 14> kValues{
      0,          1,          2,          255,        256,          65535,        1ull << 31,
      1ull << 32, 1ull << 48, 1ull << 62, 1ull << 63, kLargest / 8, kLargest - 1, kLargest};
  std::uint64_t value = dice.pick(kValues);
  if (dice.chance(0.3)) value = bytes.size() - 3 + dice.below(6);
  const std::size_t width = dice.chance(0.5) ? 8 : dice.chance(0.5) ? 4 : 2;
  const std::size_t at = range_of(dice, bytes).first / width * width;
  std::memcpy(bytes.data() + at, &value, std::min(width, bytes.size() - at));
}

}  // namespace

std::string nasty_json(Dice& dice, const Key& key, const std::string& present) {
  return dice.chance(0.8) ? of_its_type(dice, key, present) : anything(dice);
}

std::string nasty_text(Dice& dice) {
  if (dice.chance(0.1)) {
    constexpr std::array<std::size_t, 4> kLengths{100, 256, 5000, 70000};
    return repeated(dice.chance(0.7) ? "x" : "\xc3\xa9", dice.pick(kLengths));
  }
  return dice.pick(texts());
}

std::string nasty_size(Dice& dice) {
  return dice.chance(0.9) ? std::string(dice.pick(kSizes)) : nasty_text(dice);
}

void damage(Dice& dice, std::string& bytes) {
  if (bytes.empty()) {
    bytes = nasty_text(dice);
    return;
  }
  const auto [begin, count] = range_of(dice, bytes);
  const std::string piece = bytes.substr(begin, count);
  switch (dice.below(9)) {
    case 0:
    case 1:
      for (std::size_t i = 1 + dice.below(8); i > 0; --i) {
        char& byte = bytes[range_of(dice, bytes).first];
        byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1u << dice.below(8)));
      }
      break;
    case 2: bytes.resize(begin); break;
    case 3: bytes.insert(dice.below(bytes.size()), piece); break;
    case 4: bytes.erase(begin, count); break;
    case 5:
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(begin), count,
                  dice.chance(0.5) ? '\0' : '\xff');
      break;
    case 6: bytes.insert(begin, nasty_text(dice)); break;
    default: overwrite_number(dice, bytes); break;
  }
}

void damage_json(Dice& dice, std::string& text) {
  std::vector<std::pair<std::size_t, std::size_t>> values;  // where numbers and strings are
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      return std::isdigit(static_cast<unsigned char>(text[at])) != 0;
    };
    std::size_t end = i;
    if (text[i] == '"') {
      end = text.find('"', i + 1);
      if (end == std::string::npos) break;
      ++end;
    } else {
      while (end < text.size() && digit(end)) ++end;
    }
    if (end == i) continue;
    values.emplace_back(i, end - i);
    i = end;
  }
  if (values.empty()) return damage(dice, text);
  const auto [begin, count] = dice.pick(values);
  const std::string other =
      dice.chance(0.3) ? text.substr(dice.pick(values).first, count) : anything(dice);
  text.replace(begin, count, other);
}

}  // namespace strata::fuzz
