// Event files, which TensorBoard reads, beside the metrics of a run: the same numbers once more,
// for whoever looks at runs there (run.tensorboard). A file holds records of the TFRecord format,
// each a message `Event` of TensorFlow's event.proto in protobuf's wire format; both are written
// here by hand, since they need a few bytes of structure and no library. One thread uses it.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "strata/runfiles/line_file.h"
#include "strata/runfiles/metrics.h"

namespace strata {

/// A number by the name under which TensorBoard shows it.
struct Scalar {
  std::string_view tag;
  double value = 0;  ///< TensorBoard keeps it as f32; NaN and infinities are shown as such
};

/// Returns the CRC-32C (Castagnoli) of bytes, as RFC 3720 has it.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

/// Returns a record of the TFRecord format: the length, its checksum, the bytes, theirs.
[[nodiscard]] std::string tf_record(std::string_view bytes);

/// Returns the Event with which a file begins, and which names the format.
[[nodiscard]] std::string version_event(double wall_time_s);
/// Returns an Event that has TensorBoard forget what earlier files say of `step` and later ones.
[[nodiscard]] std::string restart_event(double wall_time_s, std::int64_t step);
/// Returns an Event with numbers of a step.
[[nodiscard]] std::string scalar_event(double wall_time_s, std::int64_t step,
                                       std::span<const Scalar> scalars);

class EventFile {
 public:
  /// Begins a new file in a run folder. `resumed_step` is the number of steps done where the run
  /// goes on. Throws IoError if that fails.
  EventFile(const std::filesystem::path& folder, std::optional<std::int64_t> resumed_step);

  /// Writes loss, learning rate, gradient norm, tokens per second and, where it is known, MFU. A
  /// full disk costs records, and not the run.
  void step(const StepMetrics& metrics);
  void eval(std::int64_t step, double val_loss);
  /// Returns how many records could not be written.
  [[nodiscard]] std::int64_t lost_records() const { return file_.lost_lines(); }

 private:
  LineFile file_;
};

/// Returns whether a file's name is that of an event file that strata writes.
[[nodiscard]] bool is_event_file_name(std::string_view name);

}  // namespace strata
