// Compares the first bytes of a file with a table of known formats. Their magics are long enough
// that ids of a headerless token file do not begin with one by chance.

#include "data/file_kind.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "data/token_file_format.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/shell_word.h"
#include "strata/base/utf8.h"

namespace strata {

namespace {

using namespace std::string_view_literals;

constexpr FileKind kGzip{"is compressed by gzip", "Unpack it first, with gunzip"};
constexpr FileKind kZstd{"is compressed by zstd", "Unpack it first, with unzstd"};
constexpr FileKind kXz{"is compressed by xz", "Unpack it first, with unxz"};
constexpr FileKind kBzip2{"is compressed by bzip2", "Unpack it first, with bunzip2"};
constexpr FileKind kZip{"is a zip archive, or a format made of one (.npz, .pt, .docx)",
                        "Unpack it first, or export plain text or bare ids"};
constexpr FileKind kTar{"is a tar archive", "Unpack it first, with tar -xf"};
constexpr FileKind kParquet{
    "is a Parquet table",
    "Pipe its records (pip install pyarrow): python3 -c \"import json,sys,pyarrow.parquet as p; "
    "[print(json.dumps(r,default=str)) for b in p.ParquetFile(sys.argv[1]).iter_batches() for r in "
    "b.to_pylist()]\" FILE | strata tokenize - --format jsonl ..."};
constexpr FileKind kArrow{
    "is an Arrow table",
    "Pipe its records (pip install datasets): python3 -c \"import json,sys,datasets as d; "
    "[print(json.dumps(r,default=str)) for r in d.Dataset.from_file(sys.argv[1])]\" FILE | strata "
    "tokenize - --format jsonl ..."};
constexpr FileKind kJson{
    "is JSON, of which nothing but the text should be trained on",
    "Name it itself, or say --format jsonl, to have its records read (--format text takes it as it "
    "is, with braces and keys)"};
constexpr FileKind kCsv{
    "is a table, and commas and column names would be trained on",
    "Pipe its records: python3 -c \"import csv,json,sys; [print(json.dumps(r)) for r in "
    "csv.DictReader(open(sys.argv[1],encoding='utf-8-sig',newline=''))]\" FILE | strata tokenize - "
    "--format jsonl ..., with --text-field for the column of the text (--format text takes it as "
    "it is)"};
constexpr FileKind kTsv{
    "is a table, and tabs and column names would be trained on",
    "Pipe its records: python3 -c \"import csv,json,sys; [print(json.dumps(r)) for r in "
    "csv.DictReader(open(sys.argv[1],encoding='utf-8-sig',newline=''),delimiter='\\t')]\" FILE | "
    "strata tokenize - --format jsonl ..., with --text-field for the column of the text (--format "
    "text takes it as it is)"};
constexpr FileKind kNumpy{
    "is a NumPy array with a header, not bare ids",
    "Write its ids alone, numpy.load(FILE).astype('uint16').tofile('ids.bin') or with 'uint32', "
    "and set data.dtype to that"};
constexpr FileKind kLlmc{"is a token file of llm.c", "Name it as data.train"};
constexpr FileKind kLlmcQuestions{"is a file of questions of llm.c, not running text",
                                  "Name a token file that strata tokenize made"};
constexpr FileKind kMegatron{"is the index of a Megatron dataset", "Name it as data.train"};
constexpr FileKind kOldMegatron{
    "is the index of a dataset in an older format of Megatron, not its ids",
    "Name the .bin file beside it, and set data.dtype to u16 or, with a vocabulary above 65,500, "
    "u32"};
constexpr FileKind kTokenFile{"is a token file of strata already", "Name it as data.train"};
constexpr FileKind kReference{"is a stored reference, not tokens",
                              "Name the .bin file beside it, or end the pattern in .bin"};
constexpr FileKind kDamaged{"begins like a token file of strata, but its first bytes are damaged",
                            "Copy it again, not as text, or tokenize it again"};
constexpr FileKind kWeights{"holds a model's weights, not data",
                            "Name its folder as model.path, and token files as data.train"};
constexpr FileKind kBinary{"is binary", "Name text files, or token files"};
constexpr FileKind kUtf16{"is text in UTF-16",
                          "Convert it first, with iconv -f UTF-16 -t UTF-8 FILE > TEXT"};

constexpr std::string_view kTokenMagic(token_file::kMagic.data(), token_file::kMagic.size());

struct Magic {
  std::string_view bytes;
  FileKind kind;
  std::size_t offset = 0;
};

constexpr std::array kMagics{
    Magic{"\x1f\x8b\x08"sv, kGzip},
    Magic{"\x28\xb5\x2f\xfd"sv, kZstd},
    Magic{"\xfd"
          "7zXZ\0"sv,
          kXz},
    Magic{"1AY&SY"sv, kBzip2, 4},
    Magic{"PK\x03\x04"sv, kZip},
    Magic{"ustar"sv, kTar, 257},
    Magic{"PAR1"sv, kParquet},
    Magic{"ARROW1"sv, kArrow},
    Magic{"\x93NUMPY"sv, kNumpy},
    Magic{"STRREF\r\n"sv, kReference},
    Magic{"MMIDIDX\0\0"sv, kMegatron},
    Magic{"TNTIDX\0\0"sv, kOldMegatron},
    // 20240520, 20240801, 20240522 and 20240326 as i32.
    Magic{"\x88\xd8\x34\x01"sv, kLlmc},
    Magic{"\xa1\xd9\x34\x01"sv, kLlmc},
    Magic{"\x8a\xd8\x34\x01"sv, kLlmcQuestions},
    Magic{"\xc6\xd7\x34\x01"sv, kWeights},
    Magic{"GGUF"sv, kWeights},
    Magic{"\x89HDF\r\n\x1a\n"sv, kBinary},
    Magic{"SQLite format 3\0"sv, kBinary},
    Magic{"%PDF-"sv, kBinary},
    Magic{"\x7f"
          "ELF"sv,
          kBinary},
};

std::uint64_t number_at(std::string_view text, std::size_t offset, std::size_t bytes) {
  std::uint64_t value = 0;
  if (offset + bytes <= text.size()) std::memcpy(&value, text.data() + offset, bytes);
  return value;
}

std::string_view without_space(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

/// Returns whether a text that begins with no mark is in UTF-16: of most scripts' letters, and of
/// all spaces, every other byte is 0, on one side alone.
bool is_unmarked_utf16(std::string_view beginning) {
  constexpr std::size_t kFewest = 8;  // bytes that ids are not taken for text by
  std::array<std::size_t, 2> zeros{};
  for (std::size_t i = 0; i < beginning.size(); ++i) zeros[i % 2] += beginning[i] == '\0' ? 1 : 0;
  const std::size_t pairs = beginning.size() / 2;
  const auto [fewer, more] = std::minmax(zeros[0], zeros[1]);
  return beginning.size() >= kFewest && fewer == 0 && more * 2 > pairs;
}

/// The length of a JSON header, then the header.
bool is_safetensors(std::string_view beginning) {
  return beginning.size() > 10 && number_at(beginning, 0, 8) <= 100 * kMiB &&
         beginning.substr(8).starts_with("{\"");
}

/// A stream of messages: a mark, and the length of the schema.
bool is_arrow_stream(std::string_view beginning) {
  const std::uint64_t length = number_at(beginning, 4, 4);
  return beginning.starts_with("\xff\xff\xff\xff") && length > 0 && length <= kMiB &&
         length % 8 == 0;
}

/// Most of the magic of a token file, after a transfer that took it for text or changed a byte.
bool is_damaged_token_file(std::string_view beginning) {
  if (beginning.size() < kTokenMagic.size()) return false;
  std::size_t same = 0;
  for (std::size_t i = 0; i < kTokenMagic.size(); ++i) same += beginning[i] == kTokenMagic[i];
  return same + 2 >= kTokenMagic.size();
}

/// The text after a JSON string that it begins with, or nothing.
std::string_view after_string(std::string_view text) {
  if (!text.starts_with('"')) return {};
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') return text.substr(i + 1);
    if (text[i] == '\\') ++i;
  }
  return {};
}

/// Other characters than those that text is made of.
bool is_control(char c) {
  constexpr std::string_view kOfText = "\t\n\v\f\r\x1b";
  const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  return control && kOfText.find(c) == std::string_view::npos;
}

}  // namespace

std::string read_beginning(const InputFile& file) {
  std::string beginning(std::min<std::size_t>(file.bytes(), kBeginningBytes), '\0');
  file.read(0, std::as_writable_bytes(std::span(beginning)));
  return beginning;
}

std::optional<FileKind> recognize_format(std::string_view beginning) {
  for (const Magic& magic : kMagics) {
    if (beginning.size() >= magic.offset &&
        beginning.substr(magic.offset).starts_with(magic.bytes)) {
      return magic.kind;
    }
  }
  if (is_token_file(beginning)) return kTokenFile;
  if (is_damaged_token_file(beginning)) return kDamaged;
  if (is_safetensors(beginning)) return kWeights;
  if (is_arrow_stream(beginning)) return kArrow;
  return std::nullopt;
}

bool is_token_file(std::string_view beginning) { return beginning.starts_with(kTokenMagic); }

bool begins_like_json_list(std::string_view beginning) {
  return without_space(without_mark(beginning)).starts_with('[');
}

std::string_view without_mark(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

std::optional<FileKind> table_by_name(std::string_view name) {
  if (name.ends_with(".csv")) return kCsv;
  if (name.ends_with(".tsv")) return kTsv;
  return std::nullopt;
}

void refuse_kind(const FileKind& kind, const std::string& name) {
  constexpr std::string_view kFile = "FILE";
  std::string remedy = kind.remedy;
  const std::string word = name == "standard input" ? "FILE" : shell_word(name);
  for (std::size_t at = remedy.find(kFile); at != remedy.npos;
       at = remedy.find(kFile, at + word.size())) {
    remedy.replace(at, kFile.size(), word);
  }
  throw IoError(name + ": " + kind.what + ". " + remedy);
}

std::optional<FileKind> recognize_json(std::string_view beginning) {
  std::string_view text = without_space(without_mark(beginning));
  if (text.starts_with('[')) text = without_space(text.substr(1));
  if (!text.starts_with('{')) return std::nullopt;
  const std::string_view rest = without_space(after_string(without_space(text.substr(1))));
  if (!rest.starts_with(':')) return std::nullopt;
  return kJson;
}

std::optional<FileKind> recognize_utf16(std::string_view beginning) {
  if (beginning.starts_with("\xff\xfe") || beginning.starts_with("\xfe\xff") ||
      is_unmarked_utf16(beginning)) {
    return kUtf16;
  }
  return std::nullopt;
}

std::optional<FileKind> format_by_name(std::string_view name) {
  struct Ending {
    std::string_view text;
    FileKind kind;
  };
  constexpr std::array kEndings{Ending{".jsonl", kJson},         Ending{".ndjson", kJson},
                                Ending{".json", kJson},          Ending{".parquet", kParquet},
                                Ending{".arrow", kArrow},        Ending{".gz", kGzip},
                                Ending{".zst", kZstd},           Ending{".xz", kXz},
                                Ending{".bz2", kBzip2},          Ending{".npy", kNumpy},
                                Ending{".safetensors", kWeights}};
  for (const Ending& ending : kEndings) {
    if (name.ends_with(ending.text)) return ending.kind;
  }
  return table_by_name(name);
}

bool looks_like_text(std::string_view beginning) {
  constexpr std::size_t kFewest = 64;
  constexpr std::size_t kLongestSequence = 4;  // of UTF-8; the last one may be cut
  return beginning.size() >= kFewest && std::ranges::none_of(beginning, is_control) &&
         valid_utf8_bytes(beginning) + kLongestSequence > beginning.size();
}

}  // namespace strata
