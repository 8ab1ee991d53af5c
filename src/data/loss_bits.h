// The loss bits of a token file: one for each token, the lowest of a byte first, 1 where the loss
// of predicting the token counts. TokenFileWriter notes them while ids are appended, and TokenFile
// asks for those of a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "strata/base/file.h"
#include "strata/base/output_file.h"

namespace strata {

/// The bits of a file that is read. Several threads may ask at once.
class LossBits {
 public:
  /// `offset` is where they begin, in bytes. Throws IoError if one behind the last token is set.
  /// `file` is needed later too, and not kept.
  LossBits(const InputFile& file, std::size_t offset, std::uint64_t tokens);
  /// Writes the bits of tokens [begin, begin + out.size()) to `out`, one in each byte.
  void read(const InputFile& file, std::int64_t begin, std::span<std::uint8_t> out) const;

 private:
  std::size_t offset_;
};

/// The bits of a file that is written, kept as runs: 8 bytes for each change from one to the other.
class LossRuns {
 public:
  /// Adds tokens whose loss counts where `loss` is not 0.
  void add(std::span<const std::uint8_t> loss);
  /// Adds tokens whose loss counts.
  void add_counting(std::size_t tokens) { add_run(true, tokens); }
  /// Writes the bits of all tokens, with what fills them up.
  void write(OutputFile& out) const;

 private:
  void add_run(bool counts, std::uint64_t tokens);

  std::vector<std::uint64_t> changes_;  ///< first tokens of runs; before the first one loss counts
  std::uint64_t tokens_ = 0;
};

}  // namespace strata
