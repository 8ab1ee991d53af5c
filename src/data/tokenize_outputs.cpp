// Refuses outputs of `strata tokenize` that are inputs or somebody else's files. Outputs are
// compared with inputs by identity, since paths, links and hard links give one file many names.

#include "data/tokenize_outputs.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "data/file_kind.h"
#include "data/token_shards.h"
#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/output_file.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

/// Returns where a file is, or will be, with all links of its folder followed.
fs::path place_of(const std::string& file) {
  std::error_code error;
  const fs::path path(file);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const fs::path place = fs::canonical(folder, error);
  return (error ? folder : place) / path.filename();
}

void refuse_inputs(const std::string& output, const std::vector<TextFile>& files) {
  const auto identity = identity_of(output);
  if (!identity) return;
  const auto same = std::ranges::find(files, *identity, &TextFile::identity);
  if (same == files.end()) return;
  throw ConfigError(output + ": is both input and output" +
                    (same->name == output ? "" : ", as input under the name " + same->name) +
                    ". It would be replaced; name another output");
}

/// An output that a folder's search would find is text for the next start of the same command.
void refuse_later_input(const std::string& output, const TokenizeOptions& options) {
  const auto ends = [&](const std::string& ending) { return output.ends_with(ending); };
  if (!options.extensions.empty() && std::ranges::none_of(options.extensions, ends)) return;
  const std::string place = place_of(output).string();
  for (const std::string& input : options.inputs) {
    std::error_code error;
    const fs::path folder = fs::canonical(input, error);
    if (error || !fs::is_directory(folder, error) || !place.starts_with((folder / "").string())) {
      continue;
    }
    throw ConfigError(output + ": lies in the input folder " + input +
                      " and would be taken for text there. Name an output outside of it, or with " +
                      "another ending, such as .bin");
  }
}

void refuse_other_files(const std::string& output) {
  const InputFile file(output);
  if (file.bytes() == 0 || is_token_file(read_beginning(file))) return;
  throw ConfigError(output +
                    ": is there, and is not a token file of strata. Name another output, " +
                    "or add --overwrite to replace it");
}

/// Returns the files that an output is, or replaces: those of its shards that are there, and the
/// first one.
std::vector<std::string> files_of(const std::string& output, const TokenizeOptions& options) {
  if (options.shard_tokens == 0) return {output};
  std::vector<std::string> files = find_shards(output);
  files.push_back(shard_file(output, 0));
  return files;
}

}  // namespace

void check_outputs(const TokenizeOptions& options, const std::vector<TextFile>& files) {
  for (const std::string& output : {options.output, options.validation_output}) {
    if (output.empty()) continue;
    for (const std::string& file : files_of(output, options)) {
      refuse_inputs(file, files);
      require_replaceable(file);
      refuse_later_input(file, options);
      if (!options.overwrite && identity_of(file)) refuse_other_files(file);
    }
  }
  if (options.validation_output.empty()) return;
  const auto identity = identity_of(options.output);
  const bool one_file = identity && identity == identity_of(options.validation_output);
  if (!one_file && place_of(options.output) != place_of(options.validation_output)) return;
  throw ConfigError("tokenize: " + options.output + " and " + options.validation_output +
                    " are one file, which cannot be training and validation set. Name two");
}

}  // namespace strata
