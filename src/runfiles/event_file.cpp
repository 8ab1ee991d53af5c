// Writes event files for TensorBoard. TensorBoard takes the files of a folder in the order of their
// names, so a name begins with the time; a number tells apart those of one second.

#include "strata/runfiles/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <system_error>
#include <vector>

#include "strata/base/log.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr std::string_view kSuffix = ".strata";

double wall_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string name_of_host() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "host";
  std::string text(name.data());
  for (char& c : text) {
    if (c == '/') c = '_';
  }
  return text.empty() ? "host" : text;
}

/// Returns the path of a file that is not there yet.
fs::path new_file(const fs::path& folder) {
  const auto seconds = static_cast<std::int64_t>(wall_time_s());
  for (int number = 0;; ++number) {
    fs::path file =
        folder / fmt::format("{}{:010}.{}.{}{}", kPrefix, seconds, name_of_host(), number, kSuffix);
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(file, ignored))) return file;
  }
}

// ---- protobuf's wire format ---------------------------------------------------------------------

/// How the value of a field is written.
enum class Wire : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

template <class T>
void put_fixed(std::string& out, T bits) {  // the lowest byte first
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(bits >> (8 * i));
}

void put_key(std::string& out, std::uint32_t field, Wire wire) {
  put_varint(out, (std::uint64_t{field} << 3) | static_cast<std::uint64_t>(wire));
}

void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_key(out, field, Wire::kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// Fields of event.proto and summary.proto.
constexpr std::uint32_t kWallTime = 1;     // of Event, double
constexpr std::uint32_t kStep = 2;         // of Event, int64
constexpr std::uint32_t kFileVersion = 3;  // of Event, string
constexpr std::uint32_t kSummary = 5;      // of Event, Summary
constexpr std::uint32_t kSessionLog = 7;   // of Event, SessionLog
constexpr std::uint32_t kValue = 1;        // of Summary, repeated Value
constexpr std::uint32_t kTag = 1;          // of Value, string
constexpr std::uint32_t kSimpleValue = 2;  // of Value, float
constexpr std::uint32_t kStatus = 1;       // of SessionLog, an enumeration
constexpr std::uint64_t kStart = 1;        // of that enumeration

std::string event_at(double wall_time_s) {
  std::string event;
  put_key(event, kWallTime, Wire::kFixed64);
  put_fixed(event, std::bit_cast<std::uint64_t>(wall_time_s));
  return event;
}

void put_step(std::string& event, std::int64_t step) {
  put_key(event, kStep, Wire::kVarint);
  put_varint(event, static_cast<std::uint64_t>(step));
}

/// Returns the remainders of all bytes by the reflected Castagnoli polynomial.
constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kPolynomial = 0x82f63b78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? kPolynomial : 0);
    table[byte] = rest;
  }
  return table;
}

/// TFRecord hides checksums of bytes that hold checksums themselves.
std::uint32_t masked_crc32c(std::string_view bytes) {
  constexpr std::uint32_t kMask = 0xa282ead8;
  return std::rotr(crc32c(bytes), 15) + kMask;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  }
  return ~crc;
}

std::string tf_record(std::string_view bytes) {
  std::string record;
  put_fixed(record, std::uint64_t{bytes.size()});
  put_fixed(record, masked_crc32c(record));
  record += bytes;
  put_fixed(record, masked_crc32c(bytes));
  return record;
}

std::string version_event(double wall_time_s) {
  std::string event = event_at(wall_time_s);
  put_bytes(event, kFileVersion, "brain.Event:2");
  return event;
}

std::string restart_event(double wall_time_s, std::int64_t step) {
  std::string log;
  put_key(log, kStatus, Wire::kVarint);
  put_varint(log, kStart);
  std::string event = event_at(wall_time_s);
  put_step(event, step);
  put_bytes(event, kSessionLog, log);
  return event;
}

std::string scalar_event(double wall_time_s, std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, kTag, scalar.tag);
    put_key(value, kSimpleValue, Wire::kFixed32);
    put_fixed(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)));
    put_bytes(summary, kValue, value);
  }
  std::string event = event_at(wall_time_s);
  put_step(event, step);
  put_bytes(event, kSummary, summary);
  return event;
}

EventFile::EventFile(const fs::path& folder, std::optional<std::int64_t> resumed_step)
    : file_(new_file(folder), LineFile::OldLines::kRemove) {
  file_.write(tf_record(version_event(wall_time_s())));
  if (!resumed_step) return;
  file_.write(tf_record(restart_event(wall_time_s(), *resumed_step + 1)));
}

void EventFile::step(const StepMetrics& m) {
  std::vector<Scalar> scalars;
  if (m.loss) scalars.push_back({"loss", *m.loss});
  scalars.push_back({"lr", m.lr});
  scalars.push_back({"grad_norm", m.grad_norm});
  scalars.push_back({"tokens_per_s", m.tokens_per_s()});
  if (m.mfu) scalars.push_back({"mfu", *m.mfu});
  file_.write(tf_record(scalar_event(wall_time_s(), m.step, scalars)));
}

void EventFile::eval(std::int64_t step, double val_loss) {
  const std::array<Scalar, 1> scalars{{{"val_loss", val_loss}}};
  file_.write(tf_record(scalar_event(wall_time_s(), step, scalars)));
}

bool is_event_file_name(std::string_view name) {
  return name.starts_with(kPrefix) && name.ends_with(kSuffix);
}

}  // namespace strata
