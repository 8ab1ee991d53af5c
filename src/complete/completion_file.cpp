// A line ends with its newline, so a last line without one was torn by whatever ended the process.

#include "strata/complete/completion_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "complete/json_record.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/json.h"

namespace strata {

namespace {

using Json = JsonRecord::Json;

std::string system_problem() { return std::strerror(errno); }

}  // namespace

CompletionFile::CompletionFile(std::filesystem::path path, OldOutput old)
    : path_(std::move(path)), old_(old) {
  const bool there = is_there(path_);
  if (there && old == OldOutput::kRefuse) {
    throw ConfigError(path_.string() +
                      ": is there already; go on with it by --resume, replace it by --overwrite, "
                      "or name another --output");
  }
  std::error_code error;
  if (there && !std::filesystem::is_regular_file(std::filesystem::symlink_status(path_, error))) {
    throw ConfigError(path_.string() +
                      ": is no regular file, or a link to one; name another --output");
  }
  if (there && old == OldOutput::kResume) read_lines();
}

void CompletionFile::open() {
  descriptor_ = open_to_write(path_, O_WRONLY | O_APPEND);
  if (old_ == OldOutput::kReplace && ::ftruncate(descriptor_, 0) != 0) {
    throw IoError(path_.string() + ": cannot be emptied: " + system_problem());
  }
}

CompletionFile::~CompletionFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void CompletionFile::read_lines() {
  std::ifstream file(path_, std::ios::binary);
  if (!file) throw IoError(path_.string() + ": cannot be read: " + system_problem());
  std::uintmax_t whole = 0;  // bytes of lines that end
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line) && !file.eof(); ++number) {
    const std::string where = path_.string() + ":" + std::to_string(number);
    try {
      const Json json = parse_json<Json>(line);
      there_.emplace(json.at("id").get<std::string>(), json.at("sample").get<std::int64_t>());
    } catch (const std::exception&) {
      throw ConfigError(where +
                        ": is no line that `generate` wrote; name another --output, or replace "
                        "the file by --overwrite");
    }
    whole += line.size() + 1;
  }
  file.close();
  std::error_code error;
  if (std::filesystem::file_size(path_, error) != whole) {
    std::filesystem::resize_file(path_, whole, error);
  }
  if (error) throw IoError(path_.string() + ": a torn line cannot be cut off: " + error.message());
}

void CompletionFile::write(const std::string& line) {
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t written = ::write(descriptor_, line.data() + done, line.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      throw IoError(path_.string() + ": cannot be written: " + system_problem() +
                    "; go on by --resume when it can");
    }
    done += static_cast<std::size_t>(written);
  }
}

}  // namespace strata
