// The kinds of memory that a run takes. An engine makes an arena for each row of kSpaces, a memory
// plan prints one table for each, and lanes copy what the row allows. A new kind of memory is a
// value, its row, and what Device::allocate of each backend does for it.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace strata {

enum class Space : std::uint8_t { kDevice, kPinned, kPageable };

/// What is true of one kind of memory.
struct SpaceTraits {
  Space space;
  std::string_view name;  ///< as traces, plans and messages show it
  bool of_host;           ///< it counts against the host's limit
  bool lanes_copy;        ///< lanes copy from and to it; other memory would make them wait
};

/// All kinds, in the order of their values. Memory is taken and shown in this order.
inline constexpr std::array kSpaces{
    SpaceTraits{Space::kDevice, "device", false, true},
    SpaceTraits{Space::kPinned, "pinned", true, true},
    SpaceTraits{Space::kPageable, "pageable", true, false},
};

[[nodiscard]] constexpr std::size_t index_of(Space space) {
  return static_cast<std::size_t>(space);
}
[[nodiscard]] constexpr const SpaceTraits& traits_of(Space space) {
  return kSpaces[index_of(space)];
}
[[nodiscard]] constexpr std::string_view name_of(Space space) { return traits_of(space).name; }

namespace detail {
/// Returns how many kinds there are from one on. The compiler refuses a value that has no case.
constexpr std::size_t count_from(Space first) {
  std::size_t count = 0;
  switch (first) {
    case Space::kDevice: ++count; [[fallthrough]];
    case Space::kPinned: ++count; [[fallthrough]];
    case Space::kPageable: ++count;
  }
  return count;
}
constexpr bool in_order() {
  for (std::size_t i = 0; i < kSpaces.size(); ++i) {
    if (index_of(kSpaces[i].space) != i) return false;
  }
  return true;
}
}  // namespace detail
static_assert(kSpaces.size() == detail::count_from(Space::kDevice), "each kind has a row");
static_assert(detail::in_order(), "traits_of() looks a row up by its value");

}  // namespace strata
