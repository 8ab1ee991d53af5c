// The last line of a command says what to type next. Tests run what it says, as it stands, so that
// no such line names a command that is refused.
#pragma once

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "e2e/program.h"
#include "support/catch.h"

namespace strata::test {

/// Returns the line behind "next     ", which the command must have printed as its last one.
inline std::string next_line(const Outcome& done) {
  constexpr std::string_view kMark = "next     ";
  INFO(done.text);
  const std::size_t at = done.text.rfind(kMark);
  REQUIRE(at != std::string::npos);
  const std::string line = done.text.substr(at + kMark.size());
  REQUIRE(line.find('\n') == line.size() - 1);
  return line.substr(0, line.size() - 1);
}

/// Returns the commands in such a line, each with what stands for the names in capital letters.
/// "the same command with OPTIONS" becomes `same` with them.
inline std::vector<std::string> next_commands(const std::string& line, const std::string& same,
                                              const std::map<std::string, std::string>& names) {
  constexpr std::string_view kSame = "the same command with";
  std::vector<std::string> commands;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t begin = std::min(line.find("strata ", at), line.find(kSame, at));
    if (begin == line.npos) break;
    std::size_t end = line.size();
    for (const char* behind : {", strata ", "; ", " (", " goes on", " writes "}) {
      end = std::min(end, line.find(behind, begin));
    }
    std::string command = line.substr(begin, end - begin);
    if (command.starts_with(kSame)) {
      command = same + command.substr(kSame.size());
    } else {
      command = command.substr(std::string_view("strata ").size());
    }
    for (const auto& [name, stands_for] : names) {
      const std::size_t found = (command + ' ').find(' ' + name + ' ');
      if (found != command.npos) command.replace(found + 1, name.size(), stands_for);
    }
    commands.push_back(command);
    at = end;
  }
  return commands;
}

/// Runs all commands of the line in the folder, which must end well, and returns the line.
inline std::string run_next(const Folder& folder, const Outcome& done, const std::string& same,
                            const std::map<std::string, std::string>& names,
                            const std::string& environment = "") {
  std::string line = next_line(done);
  const std::vector<std::string> commands = next_commands(line, same, names);
  CAPTURE(line);
  REQUIRE(!commands.empty());
  for (const std::string& command : commands) {
    std::ofstream(folder / "next.sh")
        << "cd " << (folder / "") << " && " << environment << strata_program() << ' ' << command;
    const Outcome next = run(folder, "sh " + (folder / "next.sh"));
    INFO(command << "\n" << next.text);
    CHECK(next.code == 0);
  }
  return line;
}

}  // namespace strata::test
