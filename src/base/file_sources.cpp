// Expands the patterns of file sources, by the rules of glob(3), and puts sources into words.

#include "strata/base/file_sources.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "strata/base/text.h"

namespace strata {

namespace {

std::vector<std::string> matches_of(const std::string& name) {
  std::error_code ignored;
  const bool pattern = name.find_first_of("*?[") != std::string::npos;
  if (!pattern || std::filesystem::exists(name, ignored)) return {name};
  glob_t found{};
  std::vector<std::string> names;
  if (::glob(name.c_str(), 0, nullptr, &found) == 0) {
    names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  std::ranges::sort(names);
  if (names.empty()) names.push_back(name);
  return names;
}

}  // namespace

FileSources::FileSources(const std::string& file) {
  if (!file.empty()) list.push_back({.files = {file}});
}

std::vector<std::string> FileSources::files() const {
  std::vector<std::string> all;
  for (const FileSource& source : list) {
    all.insert(all.end(), source.files.begin(), source.files.end());
  }
  return all;
}

std::string FileSources::text() const {
  const std::vector<std::string> all = files();
  if (all.size() == 1) return all[0];
  const std::string count = format_count(std::ssize(all)) + " files";
  return list.size() <= 1 ? count : count + " in " + std::to_string(list.size()) + " sources";
}

void expand_patterns(FileSources& sources) {
  for (FileSource& source : sources.list) {
    std::vector<std::string> files;
    for (const std::string& name : source.files) {
      const std::vector<std::string> matches = matches_of(name);
      files.insert(files.end(), matches.begin(), matches.end());
    }
    source.files = std::move(files);
  }
}

}  // namespace strata
