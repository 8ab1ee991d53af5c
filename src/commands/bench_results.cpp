// Results go to a file as a whole, or to standard output alone, where a program reads them.

#include "commands/bench_results.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "commands/generation_job.h"
#include "commands/machine_provenance.h"
#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/file.h"
#include "strata/base/json.h"
#include "strata/benchmark/suite.h"

namespace strata {

namespace fs = std::filesystem;

void require_replaceable(std::string_view option, const fs::path& file,
                         std::span<const std::string_view> keys) {
  std::error_code ignored;
  const bool may_hold_anything =
      fs::is_regular_file(file, ignored) || fs::is_block_file(file, ignored);
  if (!may_hold_anything || fs::is_empty(file, ignored)) return;
  const nlohmann::json held = nlohmann::json::parse(read_text_file(file, kGiB), nullptr, false);
  const auto holds = [&](std::string_view key) { return held.contains(key); };
  if (held.is_object() && std::ranges::any_of(keys, holds)) return;
  throw IoError(std::string(option) + ": " + file.string() +
                " is there and is not such a file; name another one");
}

void require_results_file(const BenchOptions& options) {
  if (options.json.empty() || options.json == kStandardOutput) return;
  require_replaceable("--json", options.json, kResultKeys);
}

bool write_results(const BenchOptions& options, const nlohmann::json& json) {
  if (options.json.empty()) return true;
  const std::string text = json_text(json, 2, NotUtf8::kReplace) + '\n';
  if (options.json == kStandardOutput) {
    std::fputs(text.c_str(), stdout);
    return false;
  }
  std::ofstream file(options.json);
  file << text;
  if (!file.flush()) throw IoError("--json: cannot write " + options.json.string());
  return true;
}

namespace {

/// Returns the words by which this process was started.
std::vector<std::string> words_of_process() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

}  // namespace

nlohmann::json origin_of(const RunConfig& config) {
  Provenance machine = this_machine();
  machine.command = shell_line(words_of_process());
  nlohmann::json json{{"provenance", parse_json<nlohmann::json>(write_fields(machine))}};
  for (const FieldText& field : field_texts(config)) {
    json["config"][field.path] = parse_json<nlohmann::json>(field.value);
  }
  return json;
}

}  // namespace strata
