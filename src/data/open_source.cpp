// Opens token files of all kinds. The first bytes of a file decide which kind it is, never its
// name.

#include "strata/data/open_source.h"

#include "data/file_kind.h"
#include "data/llmc_file.h"
#include "data/megatron_file.h"

namespace strata {

std::unique_ptr<TokenSource> open_token_source(const std::string& file,
                                               const ForeignFormat& foreign) {
  const std::string beginning = read_beginning(InputFile(file));
  if (LlmcFile::is(beginning)) {
    std::optional<Separator> separator;
    if (foreign.end_of_document) {
      separator = {.id = *foreign.end_of_document,
                   .begins = foreign.document_begins.value_or(true)};
    }
    return std::make_unique<LlmcFile>(file, separator);
  }
  if (MegatronFile::is(beginning)) return std::make_unique<MegatronFile>(file);
  if (!foreign.type) return TokenFile::open(file);
  return TokenFile::open(
      file, RawTokenFormat{.type = *foreign.type,
                           .end_of_document = foreign.end_of_document,
                           .document_begins = foreign.document_begins.value_or(false)});
}

std::vector<std::string> files_of_token_source(const std::string& file) {
  std::vector<std::string> files{file};
  if (file.ends_with(MegatronFile::kIndexEnding)) files.push_back(MegatronFile::ids_of(file));
  return files;
}

}  // namespace strata
