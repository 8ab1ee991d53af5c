// Cuts streams into blocks of lines and takes records apart. A record's line is read without a
// tree, since nothing but one text of it is wanted.

#include "data/record_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/text.h"
#include "strata/base/utf8.h"

namespace strata {
namespace {

constexpr std::size_t kBlockBytes = kMiB;
constexpr std::size_t kMostLineBytes = 64 * kMiB;

using Json = nlohmann::json;

/// Finds one text among the members of an object. Every method returns whether to go on.
class FieldReader final : public nlohmann::json_sax<Json> {
 public:
  explicit FieldReader(const RecordRules& rules)
      : field_(rules.field.empty() ? "text" : rules.field),
        takes_conversations_(rules.field.empty()),
        format_(rules.format) {}

  /// Null is as if the member were not there.
  bool null() override {
    if (levels_ == 1 && member_ != nullptr) *member_ = false;
    return value("null");
  }
  bool boolean(bool /*value*/) override { return value("true or false"); }
  bool number_integer(number_integer_t /*value*/) override { return value("a number"); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return value("a number"); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return value("a number");
  }
  bool string(string_t& value) override {
    if (wanted_ && levels_ == 1) {
      text_ = std::move(value);
      wanted_ = false;
      return true;
    }
    return this->value("a text");
  }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON has none
  bool key(string_t& key) override {
    if (levels_ != 1) return true;
    wanted_ = key == field_;
    member_ = key == "messages"        ? &has_messages_
              : key == "prompt"        ? &has_prompt_
              : key == "completion"    ? &has_completion_
              : key == "conversations" ? &has_conversations_
              : key == "instruction"   ? &has_instruction_
              : key == "output"        ? &has_output_
              : key == "chosen"        ? &has_chosen_
              : key == "rejected"      ? &has_rejected_
                                       : nullptr;
    if (member_ != nullptr) *member_ = true;
    if (!wanted_ && others_.size() < kMostShown) others_ += (others_.empty() ? "" : ", ") + key;
    return true;
  }
  bool start_object(std::size_t /*size*/) override { return open("an object"); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*size*/) override {
    if (levels_ == 0) throw IoError("is a list, and a record is an object");
    return open("a list");
  }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    throw IoError("is not JSON, of which each line holds one record: " + json_problem(error));
  }

  Record take() {
    if (format_ == InputFormat::kShareGpt) return {.kind = RecordKind::kShareGpt};
    if (format_ == InputFormat::kAlpaca) return {.kind = RecordKind::kAlpaca};
    if (format_ == InputFormat::kPairs) return {.kind = RecordKind::kPair};
    if (takes_conversations_ && (has_messages_ || (has_prompt_ && has_completion_))) {
      return {.kind = RecordKind::kMessages};
    }
    if (text_ && text_->find('\0') != std::string::npos) {
      throw IoError("the field " + printable_name(shortened(field_)) +
                    " has a zero byte (\\u0000), which is no text. Remove it, or the record");
    }
    if (text_) return {.text = std::move(*text_)};
    // A text beside them is what the others were written as by some template, and is taken above.
    if (takes_conversations_ && has_conversations_) return {.kind = RecordKind::kShareGpt};
    if (takes_conversations_ && has_instruction_ && has_output_) {
      return {.kind = RecordKind::kAlpaca};
    }
    if (takes_conversations_ && has_chosen_ && has_rejected_) return {.kind = RecordKind::kPair};
    if (other_kind_ != nullptr) {
      throw IoError("the field " + printable_name(shortened(field_)) + " is " + other_kind_ +
                    ", and a text is expected");
    }
    throw IoError("has no field " + printable_name(shortened(field_)) + "; it has " +
                  (others_.empty() ? "none" : shortened(printable_name(others_))) +
                  ". Name the field of the text by --text-field" +
                  (takes_conversations_
                       ? "; conversations stand in messages, in prompt and completion, "
                         "in conversations (ShareGPT), or in instruction and "
                         "output (Alpaca), and pairs of answers in prompt, chosen and rejected"
                       : ""));
  }

 private:
  bool value(const char* what) {
    if (levels_ == 0) throw IoError(std::string("is ") + what + ", and a record is an object");
    if (levels_ == 1 && wanted_) {
      other_kind_ = what;
      wanted_ = false;
    }
    return true;
  }
  bool open(const char* what) {
    if (levels_ > 0) (void)value(what);
    if (++levels_ > kMostJsonLevels) {
      throw IoError("objects and lists nest more than " + std::to_string(kMostJsonLevels) +
                    " levels deep");
    }
    return true;
  }
  bool close() {
    --levels_;
    return true;
  }

  std::string field_;
  bool takes_conversations_;
  InputFormat format_;
  bool has_messages_ = false;
  bool has_prompt_ = false;
  bool has_completion_ = false;
  bool has_conversations_ = false;
  bool has_instruction_ = false;
  bool has_output_ = false;
  bool has_chosen_ = false;
  bool has_rejected_ = false;
  bool* member_ = nullptr;            ///< which of these the next value of the object is
  const char* other_kind_ = nullptr;  ///< what the field is instead of a text
  int levels_ = 0;
  bool wanted_ = false;  ///< whether the next value of the object is the field's
  std::optional<std::string> text_{};
  std::string others_{};  ///< keys, for a message
};

/// Appends a piece of a stream, and returns whether there was one.
bool read_piece(ByteStream& stream, std::string& text) {
  const std::size_t before = text.size();
  text.resize(before + kBlockBytes);
  const std::size_t bytes = stream.read(std::span(text).subspan(before));
  text.resize(before + bytes);
  return bytes > 0;
}

}  // namespace

LineBlock LineBlocks::next() {
  LineBlock block{.text = std::exchange(rest_, {}), .first_line = line_};
  while (true) {
    const bool more = read_piece(stream_, block.text);
    const std::size_t end = block.text.rfind('\n');
    if (more && (block.text.size() < kBlockBytes || end == block.text.npos)) {
      if (block.text.size() > kMostLineBytes) {
        throw IoError(place_ + std::to_string(line_) + ": is longer than " +
                      format_bytes(kMostLineBytes) + ", and a record has at most that");
      }
      continue;
    }
    if (more) {
      rest_ = block.text.substr(end + 1);
      block.text.resize(end + 1);
    }
    line_ += std::ranges::count(block.text, '\n');
    return block;
  }
}

std::string read_stream(ByteStream& stream, const std::string& name, std::size_t most_bytes) {
  std::string text;
  while (read_piece(stream, text)) {
    if (text.size() > most_bytes) {
      throw IoError(name + ": has more than " + format_bytes(most_bytes) +
                    ", which a document may have; split it into several files");
    }
  }
  return text;
}

Record read_record(std::string_view line, const RecordRules& rules) {
  FieldReader reader(rules);
  try {
    refuse_nul(line);
  } catch (const Json::exception& error) {
    throw IoError("is not JSON, of which each line holds one record: " + json_problem(error));
  }
  try {
    Json::sax_parse(line.begin(), line.end(), &reader);
  } catch (const IoError&) {
    if (valid_utf8_bytes(line) == line.size()) throw;
    throw IoError(
        "has bytes that are not UTF-8, which is no text. Convert it, or remove the record");
  }
  return reader.take();
}

void for_each_record(
    const RecordLines& lines, const RecordRules& rules,
    const std::function<void(std::string_view, const Record&, std::int64_t)>& on_record,
    const std::function<bool(const IoError&)>& on_bad) {
  std::string_view rest = lines.text;
  for (std::int64_t line = lines.first_line; !rest.empty(); ++line) {
    const std::size_t end = rest.find('\n');
    const std::string_view json = rest.substr(0, end);
    rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    if (json.find_first_not_of(" \t\r") == json.npos) continue;
    try {
      on_record(json, read_record(json, rules), line);
    } catch (const IoError& error) {
      const IoError placed(lines.place + std::to_string(line) + ": " + error.what());
      if (!on_bad) throw placed;
      if (!on_bad(placed)) return;
    }
  }
}

}  // namespace strata
