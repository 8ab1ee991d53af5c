// Compares what ranks were given, and turns an error of one rank into an error of all. Ranks show
// each other texts: first their lengths, then the texts, padded to the longest. Files are told
// apart by length and samples, since reading a corpus would take longer than a start.

#include "strata/launch/rank_agreement.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iterator>
#include <map>
#include <span>
#include <system_error>
#include <thread>

#include "strata/base/error.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/base/stop_signals.h"
#include "strata/base/text.h"
#include "strata/base/version.h"
#include "strata/checkpoint/load_state.h"
#include "strata/data/open_source.h"
#include "strata/data/pair_reference.h"
#include "strata/model/peft_config.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// Keys that a rank may have for itself; what is in the files is compared instead of their names.
constexpr std::string_view kOwnKeys[] = {
    "run.output",        "run.threads",        "run.bind",           "memory.device_limit",
    "memory.host_limit", "memory.spill_limit", "kernels.plan_cache", "data.train",
    "data.validation",   "model.path",         "adapter.path"};
/// Keys that a plan resolves by a rank's own memory, and that no other rank notices.
constexpr std::string_view kOwnChoices[] = {"schedule.activation_slots", "schedule.spill"};

/// What the watchdog has to notice that a rank is gone, and to say so.
constexpr std::chrono::seconds kUntilVerdict{3};

std::vector<FieldText> texts_without(const RunConfig& config,
                                     std::span<const std::string_view> left_out) {
  std::vector<FieldText> texts = field_texts(config);
  std::erase_if(texts, [&](const FieldText& text) {
    return std::ranges::find(left_out, text.path) != left_out.end();
  });
  return texts;
}

std::string identity_of(const fs::path& path, Links links = Links::kFollow) {
  const InputFile file(path, links);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%" PRIu64 " bytes, samples %016" PRIx64, file.bytes(),
                sampled_hash(file));
  return text.data();
}

/// Adds the config and the weights of a folder that `key` names, a model's or that of adapters.
void add_model_files(const std::string& key, const fs::path& folder,
                     std::vector<FieldText>& facts) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool weights = name.find(".safetensors") != std::string::npos;
    if (weights || name == "config.json" || name == kPeftConfigName) files.push_back(entry.path());
  }
  if (error) throw IoError(key + ": " + folder.string() + ": " + error.message());
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    facts.push_back({key + '/' + file.filename().string(), identity_of(file, Links::kOfModel)});
  }
}

/// Adds the files of adapter.path, a folder of PEFT or a checkpoint, unless it is gone: a run that
/// goes on does without.
void add_adapter_files(const fs::path& folder, std::vector<FieldText>& facts) {
  if (!is_there(folder)) return;
  const fs::path of_checkpoint = folder / "adapter";
  add_model_files("adapter.path", is_there(of_checkpoint) ? of_checkpoint : folder, facts);
}

/// Returns what is in a token file, or in the files that it consists of, and in the reference that
/// is stored of it.
std::string identity_of_tokens(const std::string& token_file, ReferenceFrom reference) {
  std::string parts;
  for (const std::string& file : files_of_token_source(token_file)) {
    parts += (parts.empty() ? "" : "; ") + identity_of(file);
  }
  const std::string stored = reference_file_of(token_file);
  if (reference != ReferenceFrom::kStored || !is_there(stored)) return parts;
  return parts + "; reference of " + identity_of(stored);
}

/// Adds what is in the files of a key, in which sources they are, and the weights of those.
void add_data_files(const std::string& key, const FileSources& sources, ReferenceFrom reference,
                    std::vector<FieldText>& facts) {
  const bool several = sources.files().size() > 1 || sources.list.size() > 1;
  for (std::size_t s = 0; s < sources.list.size(); ++s) {
    const FileSource& source = sources.list[s];
    const std::string name = several ? key + "[" + std::to_string(s) + "]" : key;
    if (several) {
      facts.push_back({name, std::to_string(source.files.size()) + " files, weight " +
                                 std::to_string(source.weight.value_or(1))});
    }
    for (std::size_t f = 0; f < source.files.size(); ++f) {
      const std::string place = several ? name + " file " + std::to_string(f) : name;
      facts.push_back({place, identity_of_tokens(source.files[f], reference)});
    }
  }
}

std::vector<FieldText> parse(const std::string& text) {
  std::vector<FieldText> facts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t middle = text.find('\0', begin);
    const std::size_t end = text.find('\0', middle + 1);
    facts.push_back(
        {text.substr(begin, middle - begin), text.substr(middle + 1, end - middle - 1)});
    begin = end + 1;
  }
  return facts;
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    if (last > i) text += "-" + std::to_string(ranks[last]);
    i = last;
  }
  return text;
}

std::string failures_text(const std::vector<std::string>& failures) {
  constexpr std::size_t kMostTold = 8;  // that differ
  std::vector<std::pair<std::string, std::vector<int>>> told;
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    auto same = std::find_if(told.begin(), told.end(),
                             [&](const auto& entry) { return entry.first == failures[rank]; });
    if (same == told.end()) same = told.insert(told.end(), {failures[rank], {}});
    same->second.push_back(static_cast<int>(rank));
  }
  std::string text;
  for (std::size_t i = 0; i < told.size(); ++i) {
    if (i == kMostTold) return text + "\nand others on other ranks";
    const auto& [failure, ranks] = told[i];
    const bool all = ranks.size() == failures.size() && ranks.size() > 1;
    text += (i == 0 ? "" : "\n") + (all ? "on all ranks" : ranks_text(ranks)) + ": " + failure;
  }
  return text;
}

void require_one_command(std::string_view command, Ranks& ranks) {
  if (ranks.size() == 1) return;
  const std::vector<std::string> commands = gather_texts(std::string(command), ranks);
  if (std::ranges::count(commands, commands.front()) == std::ssize(commands)) return;
  throw AgreedError("the ranks were started for different commands; start all of them for one:\n" +
                        failures_text(commands),
                    ConfigError("").exit_code());
}

void fail_together(Ranks& ranks, const std::function<void()>& body) {
  if (ranks.size() == 1) return body();
  Failure own{.text = {}, .exit_code = 0};
  try {
    body();
  } catch (const std::exception&) {
    own = current_failure();
  }
  const std::string told = own.text.empty() ? own.text : char(own.exit_code) + own.text;
  std::vector<std::string> failures = gather_texts(told, ranks);
  int code = 0;
  for (std::string& failure : failures) {
    if (failure.empty()) continue;
    if (code == 0) code = static_cast<unsigned char>(failure.front());
    failure.erase(0, 1);
  }
  if (code != 0) throw AgreedError(failures_text(failures), code);
}

bool known_to_all(const std::exception& error) {
  return dynamic_cast<const AgreedError*>(&error) != nullptr ||
         dynamic_cast<const Interrupted*>(&error) != nullptr ||
         dynamic_cast<const DamagedCheckpoint*>(&error) != nullptr;
}

void fail_for_all(Ranks& ranks, const std::function<void()>& body) {
  if (ranks.size() == 1) return body();
  try {
    body();
  } catch (const std::exception& error) {
    if (known_to_all(error)) throw;
    const Failure failure = current_failure();
    log::error("{}", failure.text);
    if (dynamic_cast<const ConnectionError*>(&error) != nullptr) {
      std::this_thread::sleep_for(kUntilVerdict);
    }
    ranks.abort(failure.exit_code);
  }
}

std::vector<FieldText> facts_of_run(const RunConfig& config) {
  std::vector<FieldText> facts = texts_without(config, kOwnKeys);
  facts.push_back(
      {"the program", version_text(build_info()) + ", " + identity_of("/proc/self/exe")});
  add_data_files("data.train", config.data.train, config.train.reference, facts);
  add_data_files("data.validation", config.data.validation, config.train.reference, facts);
  if (!config.model.path.empty()) add_model_files("model.path", config.model.path, facts);
  if (config.adapter) add_adapter_files(config.adapter->path, facts);
  return facts;
}

std::vector<FieldText> facts_of_plan(const RunConfig& resolved) {
  std::vector<std::string_view> left_out(std::begin(kOwnKeys), std::end(kOwnKeys));
  left_out.insert(left_out.end(), std::begin(kOwnChoices), std::end(kOwnChoices));
  return texts_without(resolved, left_out);
}

std::vector<std::string> gather_texts(const std::string& own, Ranks& ranks) {
  const auto count = static_cast<std::size_t>(ranks.size());
  const std::array<std::uint64_t, 1> length{own.size()};
  const std::vector<std::byte> gathered =
      ranks.all_gather_host(std::as_bytes(std::span(length)), Channel::kSubmit);
  std::vector<std::uint64_t> lengths(count);
  std::ranges::copy(gathered, std::as_writable_bytes(std::span(lengths)).begin());
  std::string padded = own;
  padded.resize(std::ranges::max(lengths));
  const std::vector<std::byte> all =
      ranks.all_gather_host(std::as_bytes(std::span(std::as_const(padded))), Channel::kSubmit);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < count; ++rank) {
    const auto* const begin = reinterpret_cast<const char*>(all.data()) + rank * padded.size();
    texts.emplace_back(begin, lengths[rank]);
  }
  return texts;
}

std::string disagreement(const std::vector<FieldText>& own, Ranks& ranks) {
  std::string text;
  for (const FieldText& fact : own) text += fact.path + '\0' + fact.value + '\0';
  const std::vector<std::string> all = gather_texts(text, ranks);
  std::string lines;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    std::map<std::string, std::array<std::string, 2>> values;
    for (const FieldText& fact : parse(all[0])) values[fact.path][0] = fact.value;
    for (const FieldText& fact : parse(all[rank])) values[fact.path][1] = fact.value;
    for (const auto& [key, value] : values) {
      if (value[0] == value[1]) continue;
      const auto has = [](const std::string& v) {
        return v.empty() ? "nothing" : printable_name(shortened(v));
      };
      lines += "\n  " + printable_name(key) + ": rank 0 has " + has(value[0]) + ", rank " +
               std::to_string(rank) + " has " + has(value[1]);
    }
    constexpr std::size_t kMostText = 4000;
    if (lines.size() > kMostText) return lines + "\n  and maybe more on the ranks after it";
  }
  return lines;
}

}  // namespace strata
