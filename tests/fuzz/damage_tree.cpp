#include "fuzz/damage_tree.h"

#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

#include "fuzz/nasty.h"

namespace strata::fuzz {
namespace {

using Json = nlohmann::ordered_json;

/// A value in a tree, and what holds it.
struct Place {
  Json* parent = nullptr;  ///< null for the root
  Json* value = nullptr;
  std::string key;        ///< where the parent is an object
  std::size_t index = 0;  ///< where it is an array
};

/// Goes down from the root, at each level to any child alike, so that a member of the root is as
/// likely as all of a large table.
Place place_in(Dice& dice, Json& root) {
  Place place{.value = &root, .key = {}};
  while (place.value->is_structured() && !place.value->empty() &&
         (place.parent == nullptr || dice.chance(0.7))) {
    Json& parent = *place.value;
    place = {.parent = &parent, .key = {}, .index = dice.below(parent.size())};
    const auto at = std::next(parent.begin(), static_cast<std::ptrdiff_t>(place.index));
    if (parent.is_object()) place.key = at.key();
    place.value = &*at;
  }
  return place;
}

/// Tells whether brackets open so often that a tree of them would take the stack.
bool is_deep(const std::string& text) {
  constexpr std::size_t kMostOpened = 1000;
  std::size_t open = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++open;
    if ((c == ']' || c == '}') && open > 0) --open;
    if (open > kMostOpened) return true;
  }
  return false;
}

Json other_value(Dice& dice) {
  constexpr std::array kTypes{FieldType::kBool, FieldType::kInteger, FieldType::kNumber,
                              FieldType::kString, FieldType::kStrings};
  const std::string text =
      nasty_json(dice, {.path = "", .type = dice.pick(kTypes), .choices = {}}, "");
  const Json value = is_deep(text) ? Json() : Json::parse(text, nullptr, false);
  return value.is_discarded() ? Json(nasty_text(dice)) : value;
}

void take_out(Place& place) {
  if (place.parent == nullptr) {
    *place.value = nullptr;
  } else if (place.parent->is_object()) {
    place.parent->erase(place.key);
  } else {
    place.parent->erase(place.index);
  }
}

void put_again(Dice& dice, Place& place) {
  if (place.parent == nullptr) return;
  const Json copy = *place.value;
  if (place.parent->is_array()) {
    place.parent->push_back(copy);
  } else {
    (*place.parent)[dice.chance(0.5) ? place.key + "2" : "type"] = copy;
  }
}

}  // namespace

void damage_tree(Dice& dice, std::string& text) {
  if (is_deep(text)) return damage(dice, text);
  Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded()) return damage(dice, text);
  Place place = place_in(dice, root);
  switch (dice.below(8)) {
    case 0: take_out(place); break;
    case 1: put_again(dice, place); break;
    case 2: *place.value = Json::array({*place.value}); break;
    case 3: *place.value = Json{{dice.chance(0.5) ? "type" : "x", *place.value}}; break;
    case 4: *place.value = dice.chance(0.5) ? Json::array() : Json::object(); break;
    case 5: {
      const Json elsewhere = *place_in(dice, root).value;
      *place.value = elsewhere;
      break;
    }
    default: *place.value = other_value(dice);
  }
  text = root.dump(dice.chance(0.5) ? -1 : 1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace strata::fuzz
