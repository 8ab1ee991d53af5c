// Describes fields, for a terminal and in Markdown, and collects what is wrong with a config.
// Reading and writing them as JSON is in fields_json.cpp.

#include "strata/base/fields.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "strata/base/describe_fields.h"
#include "strata/base/error.h"
#include "strata/base/text.h"

namespace strata {
namespace {

struct Row {
  std::string path;
  std::string type;
  std::string default_text;
  std::string description;
};

std::string name_of_type(const Field& field) {
  switch (field.type) {
    case FieldType::kBool: return "bool";
    case FieldType::kInteger: return "integer";
    case FieldType::kNumber: return "number";
    case FieldType::kString: return "string";
    case FieldType::kStrings: return "list of strings or objects";
    case FieldType::kPair: return "two numbers";
    case FieldType::kNumbers: return "list of numbers";
    case FieldType::kBytes: return "size";
    case FieldType::kFiles: return "path or list";
    case FieldType::kSection: return "section";
    case FieldType::kChoice: break;
  }
  std::string text;
  for (const std::string& name : field.choices) {
    if (!text.empty()) text += '|';
    text += name;
  }
  return text;
}

/// Appends the rows of one field: its own, or those of all fields in a section. A section that may
/// be absent has a row of its own ahead of them.
void collect_rows(const Field& field, const std::string& prefix, std::vector<Row>& rows) {
  const std::string path = prefix + field.key;
  if (field.type != FieldType::kSection) {
    rows.push_back({path, type_text(field), field_text(field), field.description});
    return;
  }
  const bool absent = std::holds_alternative<std::monostate>(field.get());
  if (absent) rows.push_back({path, "section", "null", field.description});
  const FieldList section = field.section();
  for (const Field& inner : section.all()) collect_rows(inner, path + '.', rows);
  if (absent) field.set({});
}

void collect_texts(const FieldList& fields, const std::string& prefix,
                   std::vector<FieldText>& texts) {
  for (const Field& field : fields.all()) {
    const bool absent = std::holds_alternative<std::monostate>(field.get());
    if (field.type == FieldType::kSection && !absent) {
      collect_texts(field.section(), prefix + field.key + '.', texts);
    } else {
      texts.push_back({prefix + field.key, field_text(field)});
    }
  }
}

std::string escape_table_cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) {
    text.insert(at, 1, '\\');
  }
  return text;
}

std::string markdown_table(const std::vector<Row>& rows) {
  std::string text = "| key | type | default | what it is for |\n|---|---|---|---|\n";
  for (const Row& row : rows) {
    text += "| `" + row.path + "` | " + escape_table_cell(row.type) + " | `" + row.default_text +
            "` | " + escape_table_cell(row.description) + " |\n";
  }
  return text;
}

}  // namespace

std::string type_text(const Field& field) {
  return name_of_type(field) + (field.optional ? " or null" : "");
}

const Field* FieldList::find(std::string_view key) const {
  const auto found = std::find_if(fields_.begin(), fields_.end(),
                                  [&](const Field& field) { return field.key == key; });
  return found == fields_.end() ? nullptr : &*found;
}

const ForeignName* FieldList::find_foreign(std::string_view name) const {
  const auto found = std::find_if(foreign_.begin(), foreign_.end(),
                                  [&](const ForeignName& foreign) { return foreign.name == name; });
  return found == foreign_.end() ? nullptr : &*found;
}

void ConfigProblems::add(std::string_view key, std::string_view text) {
  if (++count_ > kMostLines) return;
  // A zero byte would end the message, and a line end begin another problem.
  lines_.push_back(printable_name(shortened(key)) + ": " + printable_name(text));
}

void ConfigProblems::throw_if_any(std::string_view source) const {
  if (empty()) return;
  std::string message = printable_name(source);
  message += count_ == 1 ? ": 1 problem" : ": " + std::to_string(count_) + " problems";
  for (const std::string& line : lines_) message += "\n  " + line;
  if (count_ > lines_.size()) {
    message += "\n  and " + std::to_string(count_ - lines_.size()) + " more";
  }
  throw ConfigError(message);
}

std::vector<FieldText> field_texts(const FieldList& fields) {
  std::vector<FieldText> texts;
  collect_texts(fields, "", texts);
  return texts;
}

std::string describe_fields(const FieldList& fields, std::size_t columns) {
  constexpr std::size_t kIndent = 6;
  std::vector<Row> rows;
  for (const Field& field : fields.all()) collect_rows(field, "", rows);
  std::array<std::size_t, 2> width{};
  for (const Row& row : rows) {
    width[0] = std::max(width[0], row.path.size());
    // A long list of choices must not move the defaults of all other fields.
    if (row.type.size() <= columns / 3) width[1] = std::max(width[1], row.type.size());
  }
  const auto pad = [](std::string text, std::size_t to) {
    text.resize(std::max(text.size(), to) + 2, ' ');
    return text;
  };
  std::string text;
  for (const Row& row : rows) {
    std::string head = pad(row.path, width[0]) + pad(row.type, width[1]) + row.default_text + '\n';
    if (head.size() > columns + 1) {  // then the table's columns give way
      head = wrapped_lines(pad(row.path, 0) + pad(row.type, 0) + row.default_text, columns);
    }
    text += head + wrapped(row.description, kIndent, columns);
  }
  return text;
}

std::string markdown_fields(const FieldList& fields) {
  std::vector<Row> outside;
  std::string sections;
  for (const Field& field : fields.all()) {
    if (field.type != FieldType::kSection) {
      collect_rows(field, "", outside);
      continue;
    }
    std::vector<Row> rows;
    collect_rows(field, "", rows);
    if (!sections.empty()) sections += '\n';
    constexpr std::size_t kWidth = 118;
    sections += "## " + field.key + "\n\n" + wrapped(field.description, 0, kWidth) + "\n" +
                markdown_table(rows);
  }
  if (outside.empty()) return sections;
  return markdown_table(outside) + (sections.empty() ? "" : "\n") + sections;
}

}  // namespace strata
