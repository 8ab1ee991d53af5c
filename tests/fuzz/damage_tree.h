// Damage to JSON as a tree: the text stays JSON, and says what no writer of the format says.
#pragma once

#include <string>

#include "fuzz/dice.h"

namespace strata::fuzz {

/// Takes a member or element out, doubles it, wraps it, empties it, or puts another value or one
/// from elsewhere in the tree in its place. What is no JSON is damaged as bytes.
void damage_tree(Dice& dice, std::string& text);

}  // namespace strata::fuzz
