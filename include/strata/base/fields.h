// Config structs that list their fields once. Reading JSON, `--set`, writing, help texts and the
// generated documentation (describe_fields.h) all walk that list, so they cannot disagree; what a
// member holds before reading is the field's default. The config structs of model and train use it,
// and the command line. All problems of a text are collected and thrown as one ConfigError.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "strata/base/field_types.h"
#include "strata/base/file_sources.h"

// A config struct lists its fields in a member function:
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

namespace strata {

/// What kind of value a field holds, and so which JSON it is read from.
enum class FieldType : std::uint8_t {
  kBool,
  kInteger,
  kNumber,
  kString,
  kStrings,
  kPair,
  kBytes,
  kFiles,
  kChoice,
  kSection,
  kNumbers
};

/// What a field may hold, independent of the struct it lives in. monostate stands for an absent
/// value (null in JSON). A choice is held by its name.
using FieldValue =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::string>,
                 std::array<double, 2>, ByteSize, FileSources, std::vector<double>>;

class FieldList;

/// The values that a number or a size may have, whatever other keys say.
struct FieldLimits {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above = false;    ///< `least` itself is not allowed
  std::string remark{};  ///< a clause that the message ends with
};

/// What is counted is at most this: kernels and collectives count in 32 bits what one rank handles
/// at once.
inline constexpr double kMostCount = std::numeric_limits<std::int32_t>::max();

/// A field of one particular object. It refers to the object's member and must not outlive it.
struct Field {
  std::string key;
  std::string description;
  FieldType type = FieldType::kBool;
  bool optional = false;             ///< may be null
  std::vector<std::string> choices;  ///< kChoice: the valid names
  /// Returns the field's value now. A section gives monostate if it is absent, else true.
  std::function<FieldValue()> get;
  /// Sets the member. It takes the alternative that belongs to `type`, or monostate if `optional`;
  /// an optional section takes monostate only, and a section that is always there has no setter.
  std::function<void(const FieldValue&)> set;
  /// Lists the fields inside a section and brings an absent section to life first. Other fields
  /// have none.
  std::function<FieldList()> section;
  std::optional<FieldLimits> limits;
  bool required = false;  ///< has to be given: the default, 0, stands for nothing

  /// Each sets the limits, and returns the field, so that it is written behind add().
  Field& from(double least, double most = kMostCount) {
    limits = {.least = least, .most = most};
    return *this;
  }
  Field& at_least(double least) {
    limits = {.least = least};
    return *this;
  }
  Field& above(double least, std::string_view remark = {}) {
    limits = {.least = least, .above = true, .remark = std::string(remark)};
    return *this;
  }
  /// Says that a config has to give the field, whose default is 0.
  Field& require() {
    required = true;
    return *this;
  }
};

template <class T>
concept HasFields = requires(T& t, FieldList& f) { t.fields(f); };

/// A key that a struct once had. Texts that still give it are told so.
struct RetiredKey {
  std::string key;
  std::string remedy;  ///< why it is gone and what to do
};

/// A key as other programs call it.
struct ForeignName {
  std::string name;
  std::string key;     ///< the full path of the key that is meant
  std::string remark;  ///< what is different about it, a clause; may be empty
};

/// The fields of one object, in the order in which they were added, to which they refer: a list
/// must not outlive it.
class FieldList {
 public:
  /// Adds a field. T is bool, std::int64_t, double, std::string, std::vector<std::string>,
  /// std::vector<double>, std::array<double, 2>, ByteSize, FileSources or a struct with fields, or
  /// std::optional of one of these (null means absent). What is returned holds until the next field
  /// is added.
  template <class T>
  Field& add(std::string_view key, T& value, std::string_view description) {
    Field& f = fields_.emplace_back();
    f.key = key;
    f.description = description;
    bind(f, value);
    return f;
  }

  /// Adds a field for an enumeration whose valid values are the rows of `names`, which must be
  /// static.
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
  /// Makes reading say, wherever it finds `name`, that `key`, a full path from this list on, is
  /// meant. `remark` is a clause that says what is different about it.
  void also_called(std::string_view name, std::string_view key, std::string_view remark = {}) {
    foreign_.push_back({std::string(name), std::string(key), std::string(remark)});
  }
  /// Returns what is meant by the name of another program, or null.
  [[nodiscard]] const ForeignName* find_foreign(std::string_view name) const;
  [[nodiscard]] const std::vector<ForeignName>& foreign() const& { return foreign_; }
  void foreign() && = delete;
  /// Returns the fields, in the order in which they were added.
  [[nodiscard]] const std::vector<Field>& all() const& { return fields_; }
  void all() && = delete;  // would dangle in a range-for
  /// Returns the field of this key, or null.
  [[nodiscard]] const Field* find(std::string_view key) const;
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
  static constexpr FieldType type_of(const std::vector<double>&) { return FieldType::kNumbers; }
  static constexpr FieldType type_of(const std::array<double, 2>&) { return FieldType::kPair; }
  static constexpr FieldType type_of(const ByteSize&) { return FieldType::kBytes; }
  static constexpr FieldType type_of(const FileSources&) { return FieldType::kFiles; }

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
  std::vector<ForeignName> foreign_;
};

/// Returns the fields of `object`, to which the list refers.
template <HasFields T>
[[nodiscard]] FieldList fields_of(T& object) {
  FieldList list;
  object.fields(list);
  return list;
}

/// Collects what is wrong with a config, so that everything is shown at once.
class ConfigProblems {
 public:
  /// Adds a problem. `key` is the full path ("optimizer.lr"), `text` says what is wrong and the
  /// remedy.
  void add(std::string_view key, std::string_view text);
  [[nodiscard]] bool empty() const { return count_ == 0; }
  /// Throws one ConfigError that lists all problems under the name `source`, the first 50 of very
  /// many, or returns if there are none.
  void throw_if_any(std::string_view source) const;

 private:
  static constexpr std::size_t kMostLines = 50;
  std::size_t count_ = 0;
  std::vector<std::string> lines_;
};

/// Adds a problem for every number outside of its limits, and for every required one that was not
/// given, but for those inside of sections; `prefix` stands before each key ("optimizer.").
void check_limits(const FieldList& fields, std::string_view prefix, ConfigProblems& problems);

/// Reads a JSON object into the fields; comments and `$schema` at the top are ignored. `sets` are
/// "a.b=value" assignments made on top of it: the value is parsed as JSON if it parses, else taken
/// as a string. Keys that are not mentioned keep their value. Throws one ConfigError that lists
/// every problem by full path: retired keys (with their remedy), unknown ones (with the one that is
/// meant, or the nearest valid one), wrong types, duplicate keys, sizes that are none. `source`
/// names the text.
void read_fields(const FieldList& fields, std::string_view json, std::string_view source,
                 std::span<const std::string> sets = {});
template <HasFields T>
void read_fields(T& object, std::string_view json, std::string_view source,
                 std::span<const std::string> sets = {}) {
  read_fields(fields_of(object), json, source, sets);
}

/// Returns the type of the field's value as help shows it: "integer or null", "bf16|f32".
[[nodiscard]] std::string type_text(const Field& field);
/// Returns the full paths of all values that a text gives, be they keys of the fields or not, and
/// of the fields that the assignments set. Throws ConfigError, but only for what is no
/// JSON object, and for assignments to nothing.
[[nodiscard]] std::vector<std::string> given_paths(const FieldList& fields, std::string_view json,
                                                   std::string_view source,
                                                   std::span<const std::string> sets = {});

/// Returns the field's value as JSON text; of a section only whether it is there (true or null).
[[nodiscard]] std::string field_text(const Field& field);

/// A field's full path and its value as JSON text; an absent section has the value null.
struct FieldText {
  std::string path;
  std::string value;
};
/// Returns all fields that are no sections, and the sections that are absent.
[[nodiscard]] std::vector<FieldText> field_texts(const FieldList& fields);
template <HasFields T>
[[nodiscard]] std::vector<FieldText> field_texts(T object) {
  return field_texts(fields_of(object));
}

/// Returns all fields as an indented JSON object that read_fields reads back to the same values.
[[nodiscard]] std::string write_fields(const FieldList& fields);
template <HasFields T>
[[nodiscard]] std::string write_fields(T object) {
  return write_fields(fields_of(object));
}

/// Returns the full paths of the fields whose values differ between two objects of one struct. A
/// section that only one of them has counts as one difference.
[[nodiscard]] std::vector<std::string> differing_fields(const FieldList& a, const FieldList& b);
template <HasFields T>
[[nodiscard]] std::vector<std::string> differing_fields(T a, T b) {
  return differing_fields(fields_of(a), fields_of(b));
}

}  // namespace strata
