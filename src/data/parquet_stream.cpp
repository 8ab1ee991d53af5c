// Opens Parquet files by a library that it loads at the first table and not before: it brings 60 MB
// of Arrow, and where that has gone nothing else shall fail. It lies beside the program that was
// built, and in lib/strata of what was installed.

#include "data/parquet_stream.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "data/file_kind.h"
#include "data/parquet_rows.h"
#include "strata/base/error.h"
#include "strata/base/json.h"
#include "strata/base/text.h"
#include "strata/data/parquet_support.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kParquetMagic = "PAR1";
constexpr const char* kLibrary = "strata_parquet.so";

/// What records are made of, as read_record() and conversations have it. Other columns of a table,
/// which may be pictures, are not read.
constexpr std::array kColumns{"text",
                              "messages",
                              "prompt",
                              "completion",
                              "conversations",
                              "instruction",
                              "input",
                              "output",
                              "system",
                              "history",
                              "tools",
                              "documents",
                              "chat_template_kwargs",
                              "chosen",
                              "rejected"};

/// The functions of the library, or why there are none.
struct Library {
  OpenParquet open = nullptr;
  ParquetVersion version = nullptr;
  std::string problem{};
};

std::optional<fs::path> find_library() {
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& file : {folder / kLibrary, folder / "../lib/strata" / kLibrary}) {
    if (fs::exists(file, ignored)) return file;
  }
  return std::nullopt;
}

/// Loads a library, which stays: Arrow keeps state of its own.
Library load_library(const fs::path& file) {
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  Library library;
  if (handle != nullptr) {
    library.open = reinterpret_cast<OpenParquet>(dlsym(handle, kOpenParquet));
    library.version = reinterpret_cast<ParquetVersion>(dlsym(handle, kParquetVersion));
  }
  if (library.open != nullptr && library.version != nullptr) return library;
  const char* const why = dlerror();
  return {.problem = why == nullptr ? file.string() : why};
}

/// Returns a record with all columns, each of which is a text.
std::string empty_record(const std::vector<std::string>& columns) {
  auto record = nlohmann::ordered_json::object();
  for (const std::string& column : columns) record[column] = "";
  return json_text(record, kOneLine, NotUtf8::kReplace);
}

class ParquetStream final : public PieceStream {
 public:
  ParquetStream(const std::string& file, const Library& library, const RecordRules& rules)
      : name_(file), file_bytes_(fs::file_size(file)) {
    say_where([&] { rows_.reset(library.open(file.c_str())); });
    require_columns(rules);
    std::vector<std::string> wanted(kColumns.begin(), kColumns.end());
    if (!rules.field.empty()) wanted = {rules.field};
    say_where([&] { rows_->choose(wanted); });
  }

  std::size_t consumed() const override {
    if (ended_) return file_bytes_;
    const auto rows = static_cast<double>(std::max<std::int64_t>(1, rows_->rows()));
    const double share = static_cast<double>(rows_->rows_read()) / rows;
    return static_cast<std::size_t>(static_cast<double>(file_bytes_) * share);
  }

 private:
  bool make(std::string& lines) override {
    say_where([&] { ended_ = !rows_->next(lines); });
    return !ended_;
  }

  /// Throws IoError if no row can be a record, for a reason that each of them would name.
  void require_columns(const RecordRules& rules) const {
    try {
      (void)read_record(empty_record(rows_->columns()), rules);
    } catch (const IoError& error) {
      throw IoError(name_ + ": " + error.what());
    }
  }

  /// Does what the library does, and names the file in what it throws.
  template <class Work>
  void say_where(const Work& work) const {
    try {
      work();
    } catch (const std::exception& error) {
      constexpr std::size_t kMostOfArrow = 200;
      std::string why = shortened(printable_name(error.what()), kMostOfArrow);
      while (why.ends_with('.')) why.pop_back();
      const std::int64_t read = rows_ ? rows_->rows_read() : 0;
      throw IoError(name_ + ": cannot be read as a Parquet table" +
                    (read > 0 ? " behind row " + std::to_string(read) : "") + ": " + why +
                    ". Copy or make it again");
    }
  }

  std::string name_;
  std::size_t file_bytes_;
  std::unique_ptr<ParquetRows> rows_{};
  bool ended_ = false;
};

}  // namespace

bool is_parquet(std::string_view beginning) { return beginning.starts_with(kParquetMagic); }

bool reads_parquet() { return find_library().has_value(); }

std::unique_ptr<ByteStream> lines_of_parquet(const std::string& file, const RecordRules& rules) {
  const std::optional<fs::path> found = find_library();
  const Library library = found ? load_library(*found) : Library{.problem = "it is not there"};
  if (library.open == nullptr) {
    const FileKind kind = *recognize_format(kParquetMagic);
    const std::string what =
        std::string(kind.what) + ", and what reads them cannot be loaded (" + library.problem + ")";
    refuse_kind({.what = what.c_str(), .remedy = kind.remedy}, file);
  }
  return std::make_unique<ParquetStream>(file, library, rules);
}

std::string parquet_support() {
  const std::optional<fs::path> found = find_library();
  if (!found) return "none";
  const Library library = load_library(*found);
  if (library.version == nullptr) return "none: " + library.problem;
  return "Arrow " + std::string(library.version());
}

}  // namespace strata
