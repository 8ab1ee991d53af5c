// Numbers that name things, as types of their own, and arrays that are indexed by them. A number of
// a block can't be taken for that of a unit, and no index needs a cast. The model and the
// layers above it use them; which kinds of numbers there are says strata/model/ids.h.

#pragma once

#include <compare>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace strata {

/// The number of one thing of a kind, counted from 0. `Kind` is a tag type and never defined.
template <class Kind>
class Id {
 public:
  constexpr Id() = default;  ///< Names nothing.
  constexpr explicit Id(int value) : value_(value) {}

  [[nodiscard]] constexpr int value() const { return value_; }
  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value_); }
  [[nodiscard]] constexpr Id next() const { return Id(value_ + 1); }
  constexpr auto operator<=>(const Id&) const = default;

 private:
  int value_ = -1;
};

/// The ids 0 to count - 1 in order, for range-based loops.
template <class IdType>
class IdRange {
 public:
  class Iterator {
   public:
    constexpr explicit Iterator(int value) : value_(value) {}
    constexpr IdType operator*() const { return IdType(value_); }
    constexpr Iterator& operator++() {
      ++value_;
      return *this;
    }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    int value_;
  };

  constexpr explicit IdRange(std::size_t count) : count_(static_cast<int>(count)) {}
  [[nodiscard]] constexpr Iterator begin() const { return Iterator(0); }
  [[nodiscard]] constexpr Iterator end() const { return Iterator(count_); }

 private:
  int count_;
};

/// One value for each thing of a kind. Access by an id that names none of them throws
/// std::out_of_range.
template <class IdType, class T>
class Indexed {
 public:
  Indexed() = default;
  explicit Indexed(std::size_t count) : values_(count) {}
  Indexed(std::size_t count, const T& value) : values_(count, value) {}

  [[nodiscard]] decltype(auto) operator[](IdType id) { return values_.at(id.index()); }
  [[nodiscard]] decltype(auto) operator[](IdType id) const { return values_.at(id.index()); }
  /// Appends a value and returns its id.
  IdType push_back(T value) {
    values_.push_back(std::move(value));
    return last();
  }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] IdRange<IdType> ids() const { return IdRange<IdType>(size()); }
  [[nodiscard]] IdType last() const { return IdType(static_cast<int>(size()) - 1); }

  [[nodiscard]] auto begin() { return values_.begin(); }
  [[nodiscard]] auto end() { return values_.end(); }
  [[nodiscard]] auto begin() const { return values_.begin(); }
  [[nodiscard]] auto end() const { return values_.end(); }
  bool operator==(const Indexed&) const = default;

 private:
  std::vector<T> values_;
};

}  // namespace strata
