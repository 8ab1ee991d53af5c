// Describes fields, for a terminal and in Markdown, and collects what is wrong with a config.
// Reading and writing them as JSON is in fields_json.cpp.

#include "strata/base/fields.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <sstream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "strata/base/error.h"

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
    case FieldType::kStrings: return "list of strings";
    case FieldType::kPair: return "two numbers";
    case FieldType::kBytes: return "size";
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

std::string type_text(const Field& field) {
  return name_of_type(field) + (field.optional ? " or null" : "");
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

/// The words of `text` in indented lines of up to `width` columns, where words are no longer.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t width) {
  std::string lines;
  std::string line;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > width) {
      lines += std::string(indent, ' ') + line + '\n';
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) lines += std::string(indent, ' ') + line + '\n';
  return lines;
}

}  // namespace

void ConfigProblems::add(std::string_view key, std::string_view text) {
  lines_.push_back(std::string(key) + ": " + std::string(text));
}

void ConfigProblems::throw_if_any(std::string_view source) const {
  if (lines_.empty()) return;
  std::string message(source);
  message +=
      lines_.size() == 1 ? ": 1 problem" : ": " + std::to_string(lines_.size()) + " problems";
  for (const std::string& line : lines_) message += "\n  " + line;
  throw ConfigError(message);
}

std::string describe_fields(const FieldList& fields) {
  constexpr std::size_t kIndent = 6;
  constexpr std::size_t kWidth = 96;
  std::vector<Row> rows;
  for (const Field& field : fields.all()) collect_rows(field, "", rows);
  std::array<std::size_t, 2> width{};
  for (const Row& row : rows) {
    width[0] = std::max(width[0], row.path.size());
    // A long list of choices must not move the defaults of all other fields.
    if (row.type.size() <= kWidth / 3) width[1] = std::max(width[1], row.type.size());
  }
  const auto pad = [](std::string text, std::size_t to) {
    text.resize(std::max(text.size(), to) + 2, ' ');
    return text;
  };
  std::string text;
  for (const Row& row : rows) {
    text += pad(row.path, width[0]) + pad(row.type, width[1]) + row.default_text + '\n' +
            wrapped(row.description, kIndent, kWidth);
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
