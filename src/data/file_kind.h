// Recognizes what a file plainly is by its first bytes. Token files and `strata tokenize` ask
// before they take what they were given for ids or for text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "strata/base/file.h"

namespace strata {

/// A format that is neither text nor bare ids.
struct FileKind {
  const char* what;    ///< as in "is compressed by gzip"
  const char* remedy;  ///< a sentence without its full stop; FILE stands for the file's name
};

/// How many bytes the functions below look at.
inline constexpr std::size_t kBeginningBytes = 4096;

/// Returns the first kBeginningBytes of a file, or all of a shorter one, as the functions below
/// want it.
[[nodiscard]] std::string read_beginning(const InputFile& file);
/// Returns the format whose magic a file begins with, or nothing if it has none that is known.
[[nodiscard]] std::optional<FileKind> recognize_format(std::string_view beginning);
/// Returns whether a file begins with the magic of strata's token files.
[[nodiscard]] bool is_token_file(std::string_view beginning);
/// Returns the format that the ending of a file's name promises: JSON, tables, archives.
[[nodiscard]] std::optional<FileKind> format_by_name(std::string_view name);
/// Returns JSON if a text begins like an object, or like an array of objects.
[[nodiscard]] std::optional<FileKind> recognize_json(std::string_view beginning);
/// Returns whether a text begins like a list of JSON.
[[nodiscard]] bool begins_like_json_list(std::string_view beginning);
/// Returns a table in text if the ending of a file's name promises one.
[[nodiscard]] std::optional<FileKind> table_by_name(std::string_view name);
/// Throws IoError that names the file, what it is and the remedy.
[[noreturn]] void refuse_kind(const FileKind& kind, const std::string& name);
/// Stands at the beginning of some texts in UTF-8, and is no part of them.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
/// Returns a text without a byte order mark at its beginning.
[[nodiscard]] std::string_view without_mark(std::string_view text);
/// Returns UTF-16 if a text begins with its byte order mark, or every other byte is 0.
[[nodiscard]] std::optional<FileKind> recognize_utf16(std::string_view beginning);
/// Returns whether at least 64 bytes are UTF-8 without control characters, which token ids never
/// are.
[[nodiscard]] bool looks_like_text(std::string_view beginning);

}  // namespace strata
