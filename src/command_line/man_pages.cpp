// The texts are those of help, so a page says no more than `--help` does; what it adds is a place
// where `man` and `apropos` look.

#include "command_line/man_pages.h"

#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/fields.h"
#include "strata/config/config.h"

namespace strata {

namespace {

constexpr const char* kExitStatus = R"(.SH EXIT STATUS
.TP
0
Done.
.TP
1
Anything else went wrong.
.TP
2
The config, an argument or an input file is wrong.
.TP
3
Out of memory, or of threads.
.TP
4
The loss, the norm or a weight is not finite.
.TP
5
A rank hung, was silent or died.
.TP
75
A run ended early, and its last state is saved.
)";

/// Returns text that roff prints as it stands: hyphens stay those of the keyboard, so that what is
/// copied from a page can be typed, and no line begins with a command.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      const bool begins = result.empty() || result.back() == '\n';
      if ((c == '.' || c == '\'') && begins) result += "\\&";
      result += c;
    }
  }
  return result;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

/// Returns the text with a capital letter at its beginning and a full stop at its end.
std::string sentence(std::string text) {
  if (text.empty()) return text;
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  if (text.back() != '.') text += '.';
  return roff(text);
}

/// Returns the name of a command's page: "strata-train".
std::string page_name(const CommandText& command) {
  std::string name = command.name;
  for (char& c : name) {
    if (c == ' ') c = '-';
  }
  return name;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string head(const std::string& name, int section, const std::string& version,
                 const std::string& what) {
  return ".\\\" Written by `strata man`.\n.TH " + roff(upper(name)) + ' ' +
         std::to_string(section) + " \"\" \"strata " + version + "\" \"strata\"\n.SH NAME\n" +
         roff(name) + " \\- " + roff(what) + '\n';
}

std::string entry(const OptionText& option, bool named) {
  std::string text = ".TP\n";
  if (!named) text += italic(option.names.front());
  for (const std::string& name : named ? option.names : std::vector<std::string>()) {
    text += (name == option.names.front() ? "" : ", ") + bold(name);
  }
  if (named && !option.placeholder.empty()) text += ' ' + italic(option.placeholder);
  return text + '\n' + sentence(option.description) + '\n';
}

std::string synopsis(const CommandText& command) {
  std::string text = bold(command.name) + " [" + italic("options") + "]";
  for (const OptionText& argument : command.arguments) {
    const std::string name = italic(argument.names.front()) + (argument.repeated ? " ..." : "");
    text += argument.required ? ' ' + name : " [" + name + ']';
  }
  if (!command.commands.empty()) text += ' ' + italic("command");
  return text + '\n';
}

std::string arguments_and_options(const CommandText& command) {
  std::string text;
  for (const OptionText& argument : command.arguments) text += entry(argument, false);
  for (const OptionText& option : command.options) text += entry(option, true);
  return text;
}

std::string command_page(const CommandText& command, const std::string& version) {
  std::string text = head(page_name(command), 1, version, command.description);
  text += ".SH SYNOPSIS\n" + synopsis(command);
  text += ".SH DESCRIPTION\n" + sentence(command.description) + '\n';
  text += ".SH OPTIONS\n" + arguments_and_options(command);
  if (!command.commands.empty()) text += ".SH COMMANDS\n";
  for (const CommandText& inner : command.commands) {
    text += ".SS " + roff(last_word(inner)) + '\n' + synopsis(inner) + ".PP\n" +
            sentence(inner.description) + '\n' + arguments_and_options(inner);
  }
  return text + kExitStatus + ".SH SEE ALSO\n.BR strata (1),\n.BR strata\\-config (5)\n";
}

std::string program_page(const CommandText& program, const std::string& version) {
  std::string text = head("strata", 1, version, "train LLaMA models larger than GPU memory");
  text += ".SH SYNOPSIS\n" + synopsis(program);
  text += ".SH DESCRIPTION\n" + sentence(program.description) + '\n';
  text += ".SH COMMANDS\n";
  for (const CommandText& command : program.commands) {
    text += ".TP\n" + bold(last_word(command)) + '\n' + sentence(command.description) +
            "\nSee\n.BR " + roff(page_name(command)) + " (1).\n";
  }
  text += ".SH OPTIONS\n" + arguments_and_options(program) + kExitStatus;
  text += ".SH SEE ALSO\n.BR strata\\-config (5)";
  for (const CommandText& command : program.commands) {
    text += ",\n.BR " + roff(page_name(command)) + " (1)";
  }
  return text + '\n';
}

void add_keys(const FieldList& fields, const std::string& prefix, std::string& text) {
  for (const Field& field : fields.all()) {
    const std::string path = prefix + field.key;
    if (field.type == FieldType::kSection) {
      text += ".TP\n" + bold(path) + '\n' + roff(field.description) + '\n';
      add_keys(field.section(), path + '.', text);
      continue;
    }
    const std::string value = field.required ? ", required" : ", default " + field_text(field);
    text += ".TP\n" + bold(path) + " (" + roff(type_text(field) + value) + ")\n" +
            roff(field.description) + '\n';
  }
}

std::string config_page(const std::string& version) {
  std::string text = head("strata-config", 5, version, "keys of a run config of strata");
  text += ".SH DESCRIPTION\n" +
          roff(
              "A run config is a JSON file with the sections below. Keys that it leaves out have "
              "their defaults, unknown ones are an error, and ") +
          bold("--set") + ' ' + italic("section.key=value") +
          roff(
              " on the command line changes one. A size is a number of bytes or a text such as "
              "\"24GiB\". null stands for what is not given.") +
          '\n';
  RunConfig config;
  const FieldList sections = fields_of(config);
  for (const Field& section : sections.all()) {
    text += ".SH " + roff(upper(section.key)) + '\n';
    add_keys(section.section(), section.key + '.', text);
  }
  return text + ".SH SEE ALSO\n.BR strata (1),\n.BR strata\\-train (1)\n";
}

}  // namespace

std::vector<ManPage> man_pages(const CommandText& program, const std::string& version) {
  std::vector<ManPage> pages{{"strata.1", program_page(program, version)},
                             {"strata-config.5", config_page(version)}};
  for (const CommandText& command : program.commands) {
    pages.push_back({page_name(command) + ".1", command_page(command, version)});
  }
  return pages;
}

}  // namespace strata
