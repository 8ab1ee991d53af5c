// The half of fields.h that needs no JSON: the collection of problems, and the tables of fields
// that `--help` and the generated documentation show. A section that is absent is brought to life
// to list its defaults, and removed again.

#include "strata/base/fields.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
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

std::string type_text(const Field& field) {
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

void collect_rows(const FieldList& fields, const std::string& prefix, std::vector<Row>& rows) {
  for (const Field& field : fields.all()) {
    const std::string path = prefix + field.key;
    if (field.type != FieldType::kSection) {
      rows.push_back({path, type_text(field), field_text(field), field.description});
      continue;
    }
    const bool absent = std::holds_alternative<std::monostate>(field.get());
    if (absent) rows.push_back({path, "section", "null", field.description});
    collect_rows(field.section(), path + '.', rows);
    if (absent) field.set({});
  }
}

std::string escape_table_cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) {
    text.insert(at, 1, '\\');
  }
  return text;
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
  std::vector<Row> rows;
  collect_rows(fields, "", rows);
  std::array<std::size_t, 3> width{};
  for (const Row& row : rows) {
    width[0] = std::max(width[0], row.path.size());
    width[1] = std::max(width[1], row.type.size());
    width[2] = std::max(width[2], row.default_text.size());
  }
  const auto pad = [](std::string text, std::size_t to) {
    text.resize(to + 2, ' ');
    return text;
  };
  std::string text;
  for (const Row& row : rows) {
    text += pad(row.path, width[0]) + pad(row.type, width[1]) + pad(row.default_text, width[2]) +
            row.description + '\n';
  }
  return text;
}

std::string markdown_fields(const FieldList& fields) {
  std::vector<Row> rows;
  collect_rows(fields, "", rows);
  std::string text = "| key | type | default | description |\n|---|---|---|---|\n";
  for (const Row& row : rows) {
    text += "| `" + row.path + "` | " + escape_table_cell(row.type) + " | `" + row.default_text +
            "` | " + escape_table_cell(row.description) + " |\n";
  }
  return text;
}

}  // namespace strata
