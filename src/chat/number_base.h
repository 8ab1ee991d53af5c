// Whole numbers of other bases than ten, as Python has them: in templates as 0x1f, and in texts as
// int() with a base reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "chat/heap.h"

namespace strata::chat {

/// The most digits that a number of another base has.
inline constexpr std::size_t kMostBaseDigits = 4300;

/// Returns the base that "0x", "0o" or "0b" says by its letter, in any case; 0 for other letters.
[[nodiscard]] int base_of_letter(char letter);
/// Tells whether a character is a digit of a base up to 36, in any case.
[[nodiscard]] bool is_digit_of(char c, int base);
/// Returns digits of a base, at most kMostBaseDigits, as decimal digits.
[[nodiscard]] std::string decimal_digits(std::string_view digits, int base);
/// Returns what `int(text, base)` is, in decimal digits behind a minus if it has one; nothing if
/// Python refuses text or base. `text` has no white space around it. Charges for its work.
[[nodiscard]] std::optional<std::string> whole_in_base(Heap& heap, std::string_view text,
                                                       std::int64_t base);

}  // namespace strata::chat
