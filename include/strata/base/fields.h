// The list of a config struct's fields, by which it is read from JSON, written, compared and
// described. Config sections and Hugging Face configs declare their keys with it; the command line
// and docs/config.md print it. Every problem of a text is reported at once, by the key's full path.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// A config struct lists its fields once, in a member function:
//
//   struct OptimizerConfig {
//     double lr = 3e-4;
//     std::optional<double> grad_clip;
//     Timing timing = Timing::kBeforeUse;
//     void fields(FieldList& f) {
//       f.add("lr", lr, "peak learning rate");
//       f.add("grad_clip", grad_clip, "clip the global gradient norm to this; null: off");
//       f.choice("timing", timing, kTimingNames, "when a unit is updated");
//     }
//   };
//
// Reading, writing, help texts and docs all walk that list, so they cannot disagree. What the
// member holds before reading is the field's default.

namespace strata {

/// A number of bytes; in text a number or a size such as "24GiB".
struct ByteSize {
  std::size_t bytes = 0;
  bool operator==(const ByteSize&) const = default;
};

/// One row of an enumeration's name table.
template <class E>
struct EnumName {
  E value;
  std::string_view name;
};

/// Name of `value` in a table; "?" if it is not there.
template <class E, std::size_t kCount>
[[nodiscard]] constexpr std::string_view enum_name(const EnumName<E> (&table)[kCount], E value) {
  for (const EnumName<E>& row : table) {
    if (row.value == value) return row.name;
  }
  return "?";
}

enum class FieldType : std::uint8_t {
  kBool,
  kInteger,
  kNumber,
  kString,
  kStrings,
  kPair,
  kBytes,
  kChoice,
  kSection
};

/// What a field may hold, independent of the struct it lives in. monostate: absent (null).
/// A choice is its name.
using FieldValue = std::variant<std::monostate, bool, std::int64_t, double, std::string,
                                std::vector<std::string>, std::array<double, 2>, ByteSize>;

class FieldList;

/// A field of one particular object; refers to it and must not outlive it.
struct Field {
  std::string key;
  std::string description;
  FieldType type = FieldType::kBool;
  bool optional = false;             ///< may be null
  std::vector<std::string> choices;  ///< kChoice: the valid names
  /// For a section: monostate if absent, else true.
  std::function<FieldValue()> get;
  /// Takes the alternative that belongs to `type`, or monostate if `optional`. Sections: monostate.
  std::function<void(const FieldValue&)> set;
  /// Sections only: the fields inside. Brings an absent section to life first.
  std::function<FieldList()> section;
};

template <class T>
concept HasFields = requires(T& t, FieldList& f) { t.fields(f); };

/// A key that a struct once had. Texts that still give it are told so.
struct RetiredKey {
  std::string key;
  std::string remedy;  ///< why it is gone and what to do
};

/// The fields of one object, in the order in which they were added.
class FieldList {
 public:
  /// T: bool, std::int64_t, double, std::string, std::vector<std::string>, std::array<double, 2>,
  /// ByteSize or a struct with fields; or std::optional of one of these (null: absent).
  template <class T>
  void add(std::string_view key, T& value, std::string_view description) {
    Field& f = fields_.emplace_back();
    f.key = key;
    f.description = description;
    bind(f, value);
  }

  /// An enumeration whose valid values are the rows of `names` (static storage).
  template <class E, std::size_t kCount>
  void choice(std::string_view key, E& value, const EnumName<E> (&names)[kCount],
              std::string_view description) {
    Field& f = fields_.emplace_back();
    f.key = key;
    f.description = description;
    f.type = FieldType::kChoice;
    for (const EnumName<E>& row : names) f.choices.emplace_back(row.name);
    f.get = [&value, &names] { return FieldValue(std::string(enum_name(names, value))); };
    f.set = [&value, &names](const FieldValue& v) {
      for (const EnumName<E>& row : names) {
        if (row.name == std::get<std::string>(v)) value = row.value;
      }
    };
  }

  /// Makes reading refuse `key` with `remedy`, a clause that says why the key is gone and what to
  /// do.
  void retire(std::string_view key, std::string_view remedy) {
    retired_.push_back({std::string(key), std::string(remedy)});
  }

  [[nodiscard]] const std::vector<Field>& all() const& { return fields_; }
  void all() && = delete;  // would dangle in a range-for
  [[nodiscard]] const std::vector<RetiredKey>& retired() const& { return retired_; }
  void retired() && = delete;

 private:
  static constexpr FieldType type_of(const bool&) { return FieldType::kBool; }
  static constexpr FieldType type_of(const std::int64_t&) { return FieldType::kInteger; }
  static constexpr FieldType type_of(const double&) { return FieldType::kNumber; }
  static constexpr FieldType type_of(const std::string&) { return FieldType::kString; }
  static constexpr FieldType type_of(const std::vector<std::string>&) {
    return FieldType::kStrings;
  }
  static constexpr FieldType type_of(const std::array<double, 2>&) { return FieldType::kPair; }
  static constexpr FieldType type_of(const ByteSize&) { return FieldType::kBytes; }

  template <class T>
  static void bind(Field& f, T& value) {
    f.type = type_of(value);
    f.get = [&value] { return FieldValue(value); };
    f.set = [&value](const FieldValue& v) { value = std::get<T>(v); };
  }
  template <HasFields T>
  static void bind(Field& f, T& value) {
    f.type = FieldType::kSection;
    f.get = [] { return FieldValue(true); };
    f.section = [&value] { return list_of(value); };
  }
  template <class T>
  static void bind(Field& f, std::optional<T>& value) {
    f.optional = true;
    if constexpr (HasFields<T>) {
      f.type = FieldType::kSection;
      f.get = [&value] { return value ? FieldValue(true) : FieldValue(); };
      f.set = [&value](const FieldValue&) { value.reset(); };
      f.section = [&value] { return list_of(value ? *value : value.emplace()); };
    } else {
      f.type = type_of(T{});
      f.get = [&value] { return value ? FieldValue(*value) : FieldValue(); };
      f.set = [&value](const FieldValue& v) {
        if (std::holds_alternative<std::monostate>(v)) {
          value.reset();
        } else {
          value = std::get<T>(v);
        }
      };
    }
  }
  template <HasFields T>
  static FieldList list_of(T& object) {
    FieldList list;
    object.fields(list);
    return list;
  }

  std::vector<Field> fields_;
  std::vector<RetiredKey> retired_;
};

template <HasFields T>
[[nodiscard]] FieldList fields_of(T& object) {
  FieldList list;
  object.fields(list);
  return list;
}

/// Collects what is wrong with a config, so that everything is shown at once.
class ConfigProblems {
 public:
  /// `key` is the full path ("optimizer.lr"), `text` what is wrong and the remedy.
  void add(std::string_view key, std::string_view text);
  [[nodiscard]] bool empty() const { return lines_.empty(); }
  /// Throws one ConfigError that lists all problems under `source`; returns if there are none.
  void throw_if_any(std::string_view source) const;

 private:
  std::vector<std::string> lines_;
};

/// Reads a JSON object into the fields. `sets` are "a.b=value" assignments made on top of it: the
/// value is parsed as JSON if it parses, else taken as a string. Keys that are not mentioned keep
/// their value. Throws one ConfigError that lists every problem by full path: retired keys (with
/// their remedy), unknown ones (with the nearest valid one), wrong types, duplicate keys, sizes
/// that are none. `source` names the text.
void read_fields(const FieldList& fields, std::string_view json, std::string_view source,
                 std::span<const std::string> sets = {});
template <HasFields T>
void read_fields(T& object, std::string_view json, std::string_view source,
                 std::span<const std::string> sets = {}) {
  read_fields(fields_of(object), json, source, sets);
}

/// The field's value as JSON text; for a section only whether it is there.
[[nodiscard]] std::string field_text(const Field& field);

/// All fields as an indented JSON object that read_fields reads back to the same values.
[[nodiscard]] std::string write_fields(const FieldList& fields);
template <HasFields T>
[[nodiscard]] std::string write_fields(T object) {
  return write_fields(fields_of(object));
}

/// Lists the fields for a terminal: a line with path, type and default, and below it the
/// description in lines of up to 96 columns. Sections that are absent are listed as well, with the
/// defaults they would have.
[[nodiscard]] std::string describe_fields(const FieldList& fields);
template <HasFields T>
[[nodiscard]] std::string describe_fields(T defaults) {
  return describe_fields(fields_of(defaults));
}

/// Lists the same fields in Markdown: a heading, the section's description and a table for each
/// section of the top level. Fields outside of a section come in a table without heading. A section
/// inside of a section has its fields in the outer one's table.
[[nodiscard]] std::string markdown_fields(const FieldList& fields);
template <HasFields T>
[[nodiscard]] std::string markdown_fields(T defaults) {
  return markdown_fields(fields_of(defaults));
}

/// Full paths of the fields whose values differ between two objects of one struct.
[[nodiscard]] std::vector<std::string> differing_fields(const FieldList& a, const FieldList& b);
template <HasFields T>
[[nodiscard]] std::vector<std::string> differing_fields(T a, T b) {
  return differing_fields(fields_of(a), fields_of(b));
}

}  // namespace strata
