#include "fuzz/verdict.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "strata/base/stop_signals.h"
#include "strata/base/text.h"
#include "strata/train/trainer.h"

namespace strata::fuzz {
namespace {

namespace fs = std::filesystem;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Words that only a library or a sanitizer says.
std::string foreign_words(std::string_view text) {
  for (const char* word : {"AddressSanitizer",
                           "LeakSanitizer",
                           "UndefinedBehavior",
                           "runtime error:",
                           "[error] race:",
                           "json.exception",
                           "nlohmann",
                           "std::",
                           "filesystem error",
                           "basic_string",
                           "what():",
                           "bad_alloc",
                           "bad_optional",
                           "bad_variant",
                           "vector::",
                           "map::at",
                           "stoull",
                           "stoll",
                           "stod",
                           "CLI::",
                           "spdlog",
                           "fmt::",
                           "terminate called",
                           "Assertion"}) {
    if (contains(text, word)) return word;
  }
  return "";
}

/// Texts that harm a terminal or bury what they say.
std::string bad_form(std::string_view text) {
  constexpr std::size_t kLongestRun = 200;
  std::size_t run = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f) return "a control character is printed";
    const std::string_view rest = text.substr(i);
    if (c == 0xc2 && rest.size() > 1 && rest[1] < '\xa0') return "a control of 8 bits is printed";
    if (rest.starts_with("\u202E")) return "a mark of direction is printed";
    run = i > 0 && (text[i] == text[i - 1] || (i > 1 && text[i] == text[i - 2])) ? run + 1 : 0;
    if (run > kLongestRun) return "a value is printed at full length";
  }
  return "";
}

bool names_a_subject(const Case& c, const std::vector<Key>& keys, std::string_view text) {
  const auto in_text = [text](std::string_view name) {
    return contains(text, printable_name(name));
  };
  return std::any_of(c.subjects.begin(), c.subjects.end(), in_text) ||
         std::any_of(keys.begin(), keys.end(), [&](const Key& key) { return in_text(key.path); });
}

/// Returns whether a file is one of a checkpoint that was committed: what a save leaves that did
/// not end has a folder of another name.
bool in_checkpoint(const fs::path& file) {
  std::string before;
  for (const fs::path& part : file.parent_path()) {
    if (before == "checkpoints" || before == "weights") return part.string().starts_with("step-");
    before = part;
  }
  return false;
}

/// The command may add files of the run folder, and those that it was told to write if it says
/// that all went well.
bool may_appear(const Case& c, const Ending& ending, const std::string& name) {
  constexpr std::array<std::string_view, 6> kRunFolder{"config.json", "metrics.jsonl", "train.log",
                                                       "plans.json",  "trace.json",    ".lock"};
  const std::string last = fs::path(name).filename();
  const fs::path folder = fs::path(name).parent_path();
  const std::string& command = c.arguments.empty() ? last : c.arguments[0];
  if (command == "train") {
    const bool events = last.starts_with("events.out.tfevents.") && last.ends_with(".strata");
    return in_checkpoint(name) || events || folder.filename() == "tokenizer" ||
           std::find(kRunFolder.begin(), kRunFolder.end(), last) != kRunFolder.end();
  }
  const bool written = ending.code == 0 || c.full_output;  // the result is lost, not the file
  const bool done = ending.kind == Ending::Kind::kExit && written;
  // Beside a token file of conversations lies a folder with what made it.
  const auto same = [&](const std::string& output) {
    return fs::path(output).lexically_normal() == fs::path(name) ||
           fs::path(output + ".tokenizer").lexically_normal() == folder;
  };
  return done && std::any_of(c.outputs.begin(), c.outputs.end(), same);
}

std::string check_files(const Case& c, const Ending& ending, const Listing& before,
                        const Listing& after) {
  for (const auto& [name, state] : before) {
    const auto found = after.find(name);
    if (found == after.end()) return "an input is gone: " + name;
    if (found->second != state) return "an input was changed: " + name;
  }
  if (ending.cut) return "";  // it may have been amid a save
  for (const auto& [name, state] : after) {
    if (!before.contains(name) && !may_appear(c, ending, name)) {
      return "a file is left behind: " + name;
    }
  }
  return "";
}

}  // namespace

Listing list(const fs::path& folder) {
  Listing files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.symlink_status().type() == fs::file_type::directory) continue;
    struct stat s {};
    if (lstat(entry.path().c_str(), &s) != 0) continue;
    files[entry.path().lexically_relative(folder)] =
        std::to_string(s.st_ino) + ' ' + std::to_string(s.st_size) + ' ' +
        std::to_string(s.st_mtim.tv_sec) + '.' + std::to_string(s.st_mtim.tv_nsec);
  }
  return files;
}

std::string judge(const Case& c, const std::vector<Key>& keys, const Ending& ending,
                  const Listing& before, const Listing& after) {
  switch (ending.kind) {
    case Ending::Kind::kSignal: return std::string("it crashed: ") + strsignal(ending.code);
    case Ending::Kind::kHang: return "it takes too long";
    case Ending::Kind::kMemory: return "it takes too much memory";
    case Ending::Kind::kExit: break;
  }
  if (const std::string word = foreign_words(ending.text); !word.empty()) {
    return "the text has \"" + word + '"';
  }
  if (ending.code != 0) {
    if (std::string form = bad_form(ending.text); !form.empty()) return form;
  }
  if (std::string files = check_files(c, ending, before, after); !files.empty()) return files;
  if (ending.stopped) return "";
  // A time limit that it was given is over: it says so, and no key is at fault.
  if (ending.code == kUnsavedExitCode || ending.code == kSavedExitCode) return "";
  if (ending.code < 0 || ending.code > 5) return "no documented exit code";
  if (ending.code == 0) return c.full_output ? "its output was lost, and it says nothing" : "";
  if (c.full_output) return "";
  return names_a_subject(c, keys, ending.text) ? "" : "the text names neither key nor file";
}

}  // namespace strata::fuzz
