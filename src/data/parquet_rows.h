// What strata and its library for Parquet say to each other. That library, strata_parquet.so, is
// the one part that is linked with Apache Arrow, and is loaded when the first table is met: a
// strata without it, or whose Arrow has gone, lacks nothing else (decision 0045).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata {

/// A table that is read from its first row to its last, some MiB at a time.
class ParquetRows {
 public:
  virtual ~ParquetRows() = default;
  /// Returns the names of all columns.
  [[nodiscard]] virtual std::vector<std::string> columns() const = 0;
  /// Says which columns next() reads; of names that there are not nothing comes. Called once.
  virtual void choose(const std::vector<std::string>& names) = 0;
  /// Appends the next rows, each as an object of JSON on a line of its own, and returns whether
  /// there were any. Null is null in a column, and in a struct as if the member were not there.
  /// Bytes that are not UTF-8 stay as they are. Throws std::exception if they cannot be read.
  [[nodiscard]] virtual bool next(std::string& lines) = 0;
  /// Returns how many rows there are, and how many next() has given.
  [[nodiscard]] virtual std::int64_t rows() const = 0;
  [[nodiscard]] virtual std::int64_t rows_read() const = 0;
};

/// The functions of the library, by their names in it. The first opens a file, and throws
/// std::exception, which does not name it, if it is no whole table; whoever calls deletes the
/// object. The second returns the version of Arrow.
inline constexpr const char* kOpenParquet = "strata_open_parquet";
inline constexpr const char* kParquetVersion = "strata_parquet_version";
using OpenParquet = ParquetRows* (*)(const char* file);
using ParquetVersion = const char* (*)();

}  // namespace strata
