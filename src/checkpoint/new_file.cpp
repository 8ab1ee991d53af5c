// A file is renamed over the one that had the name, so that there is always one of the two.

#include "strata/checkpoint/new_file.h"

#include <exception>
#include <span>
#include <utility>

#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/temporary.h"

namespace strata {

NewFile::NewFile(Files& files, const std::filesystem::path& name, std::string magic,
                 OldModel old_model)
    : files_(files),
      name_(std::filesystem::absolute(name).lexically_normal()),
      magic_(std::move(magic)),
      old_model_(old_model),
      temporary_(name_beside(name_, "tmp")) {
  require_replaceable();
  make_with_parents(files_, name_.parent_path());
  writer_ = files_.create(temporary_);
}

NewFile::~NewFile() {
  if (published_) return;
  writer_.reset();
  try {
    files_.remove(temporary_);
  } catch (const std::exception& error) {
    log::warn("{}; remove {}", error.what(), temporary_.string());
  }
}

void NewFile::require_replaceable() const {
  const auto refuse = [this](const std::string& why) {
    throw ConfigError(name_.string() + ": is not replaced, since it " + why);
  };
  if (!name_.has_filename()) throw ConfigError(name_.string() + ": is no name of a file");
  const Files::Kind kind = files_.kind(name_);
  if (kind == Files::Kind::kNothing) return;
  if (old_model_ == OldModel::kRefuse) {
    refuse("is there already; name another file, or give --overwrite to replace a model");
  }
  if (kind != Files::Kind::kFile) refuse("is no file; name another one");
  const std::unique_ptr<FileReader> old = files_.open(name_);
  std::string begin(magic_.size(), '\0');
  if (old->bytes() >= begin.size()) old->read(0, std::as_writable_bytes(std::span(begin)));
  if (begin != magic_) refuse("does not begin as such a file does; name another one, or remove it");
}

void NewFile::publish() {
  writer_->sync();
  writer_.reset();
  require_replaceable();  // much may have happened since it was made
  files_.rename(temporary_, name_);
  published_ = true;
  files_.sync_folder(name_.parent_path());
}

}  // namespace strata
