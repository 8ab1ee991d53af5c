// Walks folders with <filesystem>, whose recursive iterator does not follow links, so it comes to
// an end also where they form a circle. Links to files count where these lie in the folder.

#include "data/text_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "data/byte_stream.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/text.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_read(const std::string& name, const std::error_code& error) {
  const bool too_long = error == std::errc::filename_too_long;
  const std::string shown = name.empty() ? "\"\"" : too_long ? shortened(name) : name;
  throw IoError(printable_name(shown) + ": cannot be read: " + error.message() +
                ". Name a file or folder that is there and that this user can read");
}

struct stat status_of(const std::string& name) {
  struct stat status {};
  if (::stat(name.c_str(), &status) != 0) {
    fail_to_read(name, std::error_code(errno, std::generic_category()));
  }
  return status;
}

TextFile text_file(std::string name, const struct stat& status) {
  return {.name = std::move(name),
          .identity = {.device = status.st_dev, .inode = status.st_ino},
          .bytes = static_cast<std::size_t>(status.st_size)};
}

/// Returns why a file of a folder is not taken, or nothing if it is.
std::string why_left_out(const fs::directory_entry& entry,
                         const std::vector<std::string>& extensions) {
  std::error_code error;
  if (!entry.is_regular_file(error)) {
    if (entry.is_symlink(error)) return "links to no file";
    return "pipes, sockets and devices";
  }
  const std::string file = entry.path().filename().string();
  const std::string_view name = without_packing(file);
  const auto ends = [&](const std::string& ending) { return name.ends_with(ending); };
  if (extensions.empty() || std::ranges::any_of(extensions, ends)) return {};
  const std::string ending = entry.path().extension().string();
  return ending.empty() ? "without ending" : printable_name(shortened(ending));
}

/// Throws if a link in a folder leads out of it: who made the folder would choose which of this
/// user's files become tokens.
void require_inside(const fs::path& link, const std::string& folder) {
  std::error_code error;
  const fs::path place = fs::canonical(link, error);
  const fs::path inside = error ? fs::path() : fs::canonical(folder, error);
  if (error) fail_to_read(link.string(), error);
  const fs::path from_there = place.lexically_relative(inside);
  if (!from_there.empty() && *from_there.begin() != "..") return;
  throw IoError(link.string() + ": is a link to " + shortened(place.string()) + ", out of the " +
                "folder " + folder + ". Name that file, or its folder, as an input too, or copy " +
                "the folder by cp -rL");
}

void say_what_was_left_out(const std::string& folder,
                           const std::map<std::string, std::int64_t>& left_out) {
  if (left_out.empty()) return;
  constexpr std::size_t kShown = 8;
  std::string text;
  std::size_t shown = 0;
  for (const auto& [what, files] : left_out) {
    if (shown++ == kShown) {
      text += ", and others";
      break;
    }
    text += (text.empty() ? "" : ", ") + format_count(files) + " " + what;
  }
  log::info("tokenize: left out of {}: {} (--extension takes other endings)", folder, text);
}

void add_folder(const std::string& folder, const std::vector<std::string>& extensions,
                std::vector<TextFile>& files) {
  std::vector<std::string> found;
  std::map<std::string, std::int64_t> left_out;
  // An iterator that enters folders itself does not say which one it could not enter.
  std::vector<fs::path> folders{folder};
  while (!folders.empty()) {
    const fs::path searched = std::move(folders.back());
    folders.pop_back();
    std::error_code error;
    for (fs::directory_iterator at(searched, error), end; !error && at != end;
         at.increment(error)) {
      std::error_code ignored;  // of a link in a circle, which is no folder
      if (at->is_directory(ignored) && !at->is_symlink(ignored)) {
        folders.push_back(at->path());
        continue;
      }
      const std::string why = why_left_out(*at, extensions);
      if (why.empty()) {
        if (at->is_symlink(ignored)) require_inside(at->path(), folder);
        found.push_back(at->path().string());
      } else {
        ++left_out[why];
      }
    }
    if (error) fail_to_read(searched.string(), error);
  }
  std::ranges::sort(found);
  for (std::string& name : found) {
    const struct stat status = status_of(name);
    files.push_back(text_file(std::move(name), status));
  }
  say_what_was_left_out(folder, left_out);
}

}  // namespace

std::string_view without_packing(std::string_view name) {
  for (const std::string_view ending : {".gz", ".zst"}) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

std::vector<TextFile> find_text_files(const std::vector<std::string>& inputs,
                                      const std::vector<std::string>& extensions) {
  std::vector<TextFile> files;
  for (const std::string& input : inputs) {
    if (input == kStandardInput) {
      files.push_back({.name = input, .named = true});
      continue;
    }
    const struct stat status = status_of(input);
    if (S_ISDIR(status.st_mode)) {
      add_folder(input, extensions, files);
    } else {
      files.push_back(text_file(input, status));
      files.back().named = true;
    }
  }
  return files;
}

}  // namespace strata
