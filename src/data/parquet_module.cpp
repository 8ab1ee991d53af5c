// Reads Parquet by Apache Arrow, whose headers no other source includes: they are heavy, and what
// links Arrow does not start without it. One batch of rows is in memory, never a row group, so that
// tables of any size and cut can be read.

#include <arrow/api.h>
#include <arrow/config.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/parquet_rows.h"

namespace strata {
namespace {

/// Rows of a batch, as far as they have so many bytes in the file before they were packed. A text
/// that many rows share stands in the file once, so the number alone bounds those.
constexpr std::int64_t kMostRows = 256;
constexpr std::int64_t kBatchBytes = 4 << 20;
/// How much of a column is read from the file at once.
constexpr std::int64_t kReadBytes = 256 << 10;

void require(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

template <class T>
T require(arrow::Result<T> result) {
  require(result.status());
  return std::move(result).ValueUnsafe();
}

template <class ArrayType>
const ArrayType& as(const arrow::Array& array) {
  return static_cast<const ArrayType&>(array);
}

void write_text(std::string_view text, std::string& out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20) {
      out += "\\u00";
      out += kDigits[code / 16U];
      out += kDigits[code % 16U];
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  out += '"';
}

template <class Number>
void write_number(Number number, std::string& out) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out.append(digits.data(), end.ptr);
}

/// Writes a number so that it stays one with a fraction: 1.0, not 1. JSON has no others than finite
/// ones, and tables have NaN for what is missing.
template <class Number>
void write_fraction(Number number, std::string& out) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  const std::size_t begin = out.size();
  write_number(number, out);
  if (out.find_first_of(".e", begin) == out.npos) out += ".0";
}

void write_value(const arrow::Array& array, std::int64_t row, std::string& out);

void write_list(const arrow::Array& values, std::int64_t begin, std::int64_t count,
                std::string& out) {
  out += '[';
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    write_value(values, begin + i, out);
  }
  out += ']';
}

template <class ListType>
void write_list_at(const arrow::Array& array, std::int64_t row, std::string& out) {
  const auto& list = as<ListType>(array);
  write_list(*list.values(), list.value_offset(row), list.value_length(row), out);
}

void write_struct(const arrow::StructArray& array, std::int64_t row, std::string& out) {
  char before = '{';
  for (int i = 0; i < array.num_fields(); ++i) {
    const std::shared_ptr<arrow::Array> member = array.field(i);
    // A column has every member that any row has: what is null here was mostly never there.
    if (member->IsNull(row)) continue;
    out += std::exchange(before, ',');
    write_text(array.struct_type()->field(i)->name(), out);
    out += ':';
    write_value(*member, row, out);
  }
  out += before == '{' ? "{}" : "}";
}

/// Writes a map by texts as an object, any other as a list of its pairs.
void write_map(const arrow::MapArray& map, std::int64_t row, std::string& out) {
  const std::int64_t begin = map.value_offset(row);
  const std::int64_t end = begin + map.value_length(row);
  if (map.keys()->type_id() != arrow::Type::STRING) {
    return write_list(*map.values(), begin, end - begin, out);
  }
  out += '{';
  for (std::int64_t i = begin; i < end; ++i) {
    if (i > begin) out += ',';
    write_value(*map.keys(), i, out);
    out += ':';
    write_value(*map.items(), i, out);
  }
  out += '}';
}

/// Writes what a dictionary has for a row. Of a damaged file Arrow gives the index as it found it.
void write_word(const arrow::DictionaryArray& words, std::int64_t row, std::string& out) {
  const std::int64_t index = words.GetValueIndex(row);
  if (index < 0 || index >= words.dictionary()->length()) {
    throw std::runtime_error("a row is none of its dictionary's values");
  }
  write_value(*words.dictionary(), index, out);
}

/// Writes what JSON has no kind for, such as a day, as Arrow puts it into words.
void write_other(const arrow::Array& array, std::int64_t row, std::string& out) {
  write_text(require(array.GetScalar(row))->ToString(), out);
}

void write_value(const arrow::Array& array, std::int64_t row, std::string& out) {
  using Kind = arrow::Type;
  if (array.IsNull(row)) {
    out += "null";
    return;
  }
  switch (array.type_id()) {
    case Kind::BOOL: out += as<arrow::BooleanArray>(array).Value(row) ? "true" : "false"; return;
    case Kind::INT8: return write_number(as<arrow::Int8Array>(array).Value(row), out);
    case Kind::INT16: return write_number(as<arrow::Int16Array>(array).Value(row), out);
    case Kind::INT32: return write_number(as<arrow::Int32Array>(array).Value(row), out);
    case Kind::INT64: return write_number(as<arrow::Int64Array>(array).Value(row), out);
    case Kind::UINT8: return write_number(as<arrow::UInt8Array>(array).Value(row), out);
    case Kind::UINT16: return write_number(as<arrow::UInt16Array>(array).Value(row), out);
    case Kind::UINT32: return write_number(as<arrow::UInt32Array>(array).Value(row), out);
    case Kind::UINT64: return write_number(as<arrow::UInt64Array>(array).Value(row), out);
    case Kind::FLOAT: return write_fraction(as<arrow::FloatArray>(array).Value(row), out);
    case Kind::DOUBLE: return write_fraction(as<arrow::DoubleArray>(array).Value(row), out);
    case Kind::STRING:
    case Kind::BINARY: return write_text(as<arrow::BinaryArray>(array).GetView(row), out);
    case Kind::LARGE_STRING:
    case Kind::LARGE_BINARY:
      return write_text(as<arrow::LargeBinaryArray>(array).GetView(row), out);
    case Kind::STRING_VIEW:
    case Kind::BINARY_VIEW: return write_text(as<arrow::BinaryViewArray>(array).GetView(row), out);
    case Kind::DICTIONARY: return write_word(as<arrow::DictionaryArray>(array), row, out);
    case Kind::LIST: return write_list_at<arrow::ListArray>(array, row, out);
    case Kind::LARGE_LIST: return write_list_at<arrow::LargeListArray>(array, row, out);
    case Kind::FIXED_SIZE_LIST: return write_list_at<arrow::FixedSizeListArray>(array, row, out);
    case Kind::STRUCT: return write_struct(as<arrow::StructArray>(array), row, out);
    case Kind::MAP: return write_map(as<arrow::MapArray>(array), row, out);
    case Kind::EXTENSION: return write_value(*as<arrow::ExtensionArray>(array).storage(), row, out);
    default: return write_other(array, row, out);
  }
}

class ArrowRows final : public ParquetRows {
 public:
  explicit ArrowRows(const std::string& file) {
    arrow::MemoryPool* const pool = arrow::system_memory_pool();
    parquet::ReaderProperties reading(pool);
    reading.enable_buffered_stream();  // else a column's part of a row group is read as a whole
    reading.set_buffer_size(kReadBytes);
    reading.set_page_checksum_verification(true);
    parquet::ArrowReaderProperties decoding(/*use_threads=*/false);
    decoding.set_pre_buffer(false);  // which keeps every row group that was read
    parquet::arrow::FileReaderBuilder builder;
    require(builder.Open(require(arrow::io::ReadableFile::Open(file, pool)), reading));
    builder.memory_pool(pool)->properties(decoding);
    require(builder.Build(&reader_));
  }

  [[nodiscard]] std::vector<std::string> columns() const override {
    const parquet::schema::GroupNode& root = *schema().group_node();
    std::vector<std::string> names;
    for (int i = 0; i < root.field_count(); ++i) names.push_back(root.field(i)->name());
    return names;
  }

  void choose(const std::vector<std::string>& names) override {
    for (int i = 0; i < schema().num_columns(); ++i) {
      const std::string& name = schema().GetColumnRoot(i)->name();
      if (std::find(names.begin(), names.end(), name) != names.end()) chosen_.push_back(i);
    }
  }

  [[nodiscard]] bool next(std::string& lines) override {
    const std::shared_ptr<arrow::RecordBatch> batch = next_batch();
    if (!batch) return false;
    const std::vector<std::shared_ptr<arrow::Array>> columns = batch->columns();
    for (std::int64_t row = 0; row < batch->num_rows(); ++row) {
      char before = '{';
      for (std::size_t i = 0; i < columns.size(); ++i) {
        lines += std::exchange(before, ',');
        write_text(batch->schema()->field(static_cast<int>(i))->name(), lines);
        lines += ':';
        write_value(*columns[i], row, lines);
      }
      lines += before == '{' ? "{}\n" : "}\n";
    }
    rows_read_ += batch->num_rows();
    return true;
  }

  [[nodiscard]] std::int64_t rows() const override {
    return reader_->parquet_reader()->metadata()->num_rows();
  }
  [[nodiscard]] std::int64_t rows_read() const override { return rows_read_; }

 private:
  [[nodiscard]] const parquet::SchemaDescriptor& schema() const {
    return *reader_->parquet_reader()->metadata()->schema();
  }

  /// Returns the next rows, null at the end. Arrow refuses some columns of structs where a batch
  /// would be of two row groups, so each has a reader of its own.
  std::shared_ptr<arrow::RecordBatch> next_batch() {
    std::shared_ptr<arrow::RecordBatch> batch;
    while (true) {
      if (batches_) require(batches_->ReadNext(&batch));
      if (batch || next_group_ == reader_->num_row_groups()) return batch;
      reader_->set_batch_size(batch_rows(next_group_));
      batches_ = require(reader_->GetRecordBatchReader({next_group_++}, chosen_));
    }
  }

  /// Returns how many rows a batch of a row group may have.
  [[nodiscard]] std::int64_t batch_rows(int row_group) const {
    const auto group = reader_->parquet_reader()->metadata()->RowGroup(row_group);
    std::int64_t bytes = 0;
    for (const int i : chosen_) bytes += group->ColumnChunk(i)->total_uncompressed_size();
    const std::int64_t row_bytes = bytes / std::max<std::int64_t>(1, group->num_rows()) + 1;
    return std::clamp<std::int64_t>(kBatchBytes / row_bytes, 1, kMostRows);
  }

  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<int> chosen_{};  ///< a column of structs has a number for each of their members
  std::unique_ptr<arrow::RecordBatchReader> batches_{};  ///< of a row group
  int next_group_ = 0;
  std::int64_t rows_read_ = 0;
};

}  // namespace
}  // namespace strata

extern "C" {

[[gnu::visibility("default")]] strata::ParquetRows* strata_open_parquet(const char* file);
[[gnu::visibility("default")]] const char* strata_parquet_version();

strata::ParquetRows* strata_open_parquet(const char* file) {
  return std::make_unique<strata::ArrowRows>(file).release();
}

const char* strata_parquet_version() { return arrow::GetBuildInfo().version_string.c_str(); }
}
