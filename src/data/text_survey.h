// Reads a file through and tells whether it is text. The tokenizer surveys a file before it writes
// the first token of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "data/file_kind.h"
#include "strata/base/file.h"

namespace strata {

/// What reading a file through has told.
struct TextSurvey {
  std::optional<FileKind> not_text{};  ///< what the file is if it is not text
  std::uint64_t hash = 0;              ///< of a text
};

/// Calls on_piece with one part of a file after the other, each of at most 1 MiB, as long as it
/// returns true. A byte order mark at its beginning is left out.
void read_pieces(const InputFile& file, const std::function<bool(std::string_view)>& on_piece);

/// Returns what other than text a file is by its first bytes or else by its name.
[[nodiscard]] std::optional<FileKind> other_than_text(std::string_view beginning,
                                                      std::string_view name);

/// Surveys a text that is in memory, as the function below does.
[[nodiscard]] TextSurvey survey_text(std::string_view text, std::string_view name, bool as_text);

/// Surveys a file: first bytes, name, zero bytes and UTF-8. With `as_text` nothing but UTF-8
/// counts, which UTF-16 is refused by its name for. `on_piece` is called for every piece that was
/// read.
[[nodiscard]] TextSurvey survey_text(const InputFile& file, bool as_text,
                                     const std::function<void()>& on_piece);

}  // namespace strata
