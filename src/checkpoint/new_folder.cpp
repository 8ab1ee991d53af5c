// Folders are renamed without replacing anything, so the old model steps aside first. Whoever is
// interrupted between the two finds it under the name that it got.

#include "strata/checkpoint/new_folder.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/temporary.h"
#include "strata/checkpoint/manifest.h"
#include "strata/checkpoint/model_folder.h"
#include "strata/tokenizer/tokenizer_files.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// Returns the name as an absolute path, without a "/" at its end.
fs::path cleaned(const fs::path& name) {
  fs::path path = fs::absolute(name).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// Tells whether all that lies in a folder are templates.
bool holds_templates_alone(const Files& files, const fs::path& folder) {
  if (files.kind(folder) != Files::Kind::kFolder) return false;
  return std::ranges::all_of(files.list(folder), [&](const std::string& name) {
    return is_other_template((folder.filename() / name).string()) &&
           files.kind(folder / name) != Files::Kind::kFolder;
  });
}

}  // namespace

void make_with_parents(Files& files, const fs::path& folder) {
  if (files.kind(folder) != Files::Kind::kNothing) return;
  if (folder.has_relative_path()) make_with_parents(files, folder.parent_path());
  files.make_folder(folder);
}

NewFolder::NewFolder(Files& files, const fs::path& name, OldModel old_model)
    : files_(files),
      name_(cleaned(name)),
      old_model_(old_model),
      temporary_(name_beside(name_, "tmp")) {
  static_cast<void>(require_replaceable());
  make_with_parents(files_, name_.parent_path());
  files_.make_folder(temporary_);
}

NewFolder::~NewFolder() {
  if (published_) return;
  try {
    remove_all(files_, temporary_);
  } catch (const std::exception& error) {
    log::warn("{}; remove {}", error.what(), temporary_.string());
  }
}

/// Returns whether there is something to be replaced, and throws if it must stay.
bool NewFolder::require_replaceable() const {
  const auto refuse = [this](const std::string& why) {
    throw ConfigError(name_.string() + ": is not replaced, since it " + why);
  };
  const Files::Kind kind = files_.kind(name_);
  if (kind == Files::Kind::kNothing) return false;
  if (old_model_ == OldModel::kRefuse) {
    refuse("is there already; name another folder, or give --overwrite to replace a model");
  }
  if (kind != Files::Kind::kFolder) refuse("is no folder; name another one");
  if (files_.kind(name_.parent_path() / kManifestName) != Files::Kind::kNothing) {
    refuse("is part of a checkpoint; name another folder");
  }
  for (const std::string& file : files_.list(name_)) {
    if (is_model_file(file) && files_.kind(name_ / file) != Files::Kind::kFolder) continue;
    if (file == kOtherTemplates && holds_templates_alone(files_, name_ / file)) continue;
    refuse("holds " + file + ", which is no file of a model; name another folder, or remove it");
  }
  return true;
}

void NewFolder::publish() {
  const fs::path templates = temporary_ / kOtherTemplates;
  if (files_.kind(templates) == Files::Kind::kFolder) files_.sync_folder(templates);
  files_.sync_folder(temporary_);
  const fs::path old = name_beside(name_, "old");
  const bool replaces = require_replaceable();  // much may have happened since it was made
  if (replaces) files_.rename(name_, old);
  try {
    files_.rename(temporary_, name_);
  } catch (...) {
    if (replaces) files_.rename(old, name_);
    throw;
  }
  published_ = true;
  files_.sync_folder(name_.parent_path());
  if (replaces) remove_all(files_, old);
}

}  // namespace strata
