// Values and damage that programs tend not to expect.
#pragma once

#include <string>

#include "fuzz/cases.h"

namespace strata::fuzz {

/// JSON text for a key: mostly of its type, at the edges of what fits; else anything. `present` is
/// the value that the config has, or empty.
[[nodiscard]] std::string nasty_json(Dice& dice, const Key& key, const std::string& present);
/// A text for a name or an argument: it may be empty, long, no UTF-8, or full of control
/// characters, but holds no NUL.
[[nodiscard]] std::string nasty_text(Dice& dice);
/// A size such as "24GiB", or what is none.
[[nodiscard]] std::string nasty_size(Dice& dice);
/// Flips, cuts, doubles, empties or overwrites a part of `bytes`.
void damage(Dice& dice, std::string& bytes);
/// Replaces a number or a string within a JSON text by something else.
void damage_json(Dice& dice, std::string& text);

}  // namespace strata::fuzz
