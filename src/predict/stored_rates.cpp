// Reads, checks and writes the files of measured rates. A file of rates is a JSON object with the
// device's name, the host, the date, the program and the keys of kRateKeys. It is read like a
// config, so that whatever is wrong with it is said by key.

#include "strata/predict/stored_rates.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "strata/base/cache_file.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/base/thread_pool.h"
#include "strata/base/version.h"
#include "strata/comm/core_binding.h"
#include "strata/predict/rate_keys.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 1 << 16;
/// Beyond these no machine is, in TFLOP/s or in GB/s.
constexpr double kLeastRate = 1e-6, kMostRate = 1e6;
/// A run whose steps differ by more than this share was disturbed, and tells no rates.
constexpr double kSteady = 0.1;

/// A file of rates, as it is read and written.
struct RatesFile {
  std::string device, host, measured, program;
  std::int64_t threads = 0;
  HardwareSection rates;
  void fields(FieldList& f) {
    f.add("device", device, "name of the device");
    f.add("host", host, "name of the machine");
    f.add("measured", measured, "date");
    f.add("program", program, "version and commit that measured");
    f.add("threads", threads, "that the rank had");
    for (const RateKey& key : kRateKeys) {
      f.add(key.key, rates.*key.given, "as hardware has it");
    }
  }
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts);
  return text.data();
}

RatesFile read_rates(const fs::path& file) {
  RatesFile content;
  read_fields(content, read_text_file(file, kMostBytes), file.string());
  bool any = false;
  ConfigProblems problems;
  for (const RateKey& key : kRateKeys) {
    const std::optional<double>& rate = content.rates.*key.given;
    if (!rate) continue;
    any = true;
    if (!(*rate >= kLeastRate && *rate <= kMostRate)) {
      problems.add(key.key, "must be from 1e-6 to 1e6");
    }
  }
  if (!any) problems.add(kRateKeys[0].key, "and all other rates are missing");
  if (content.device.empty()) problems.add("device", "is missing");
  if (content.threads < 1) problems.add("threads", "is missing");
  problems.throw_if_any(file.string());
  return content;
}

StoredRates to_stored(RatesFile&& content) {
  return {.device = std::move(content.device),
          .where = content.host == this_host() ? "this machine" : printable_name(content.host),
          .date = printable_name(content.measured),
          .threads = content.threads,
          .rates = content.rates};
}

/// Fills in rates that were not seen, from a file of the same device, machine and threads. What
/// cannot be read is forgotten. Throws ConfigError if the file is another device's.
void keep_unseen(RatesFile& seen, const fs::path& file) {
  RatesFile old;
  try {
    old = read_rates(file);
  } catch (const Error&) {
    return;
  }
  if (old.device != seen.device) {
    throw ConfigError(file.string() + ": is about " + printable_name(shortened(old.device)) +
                      ", not " + seen.device +
                      "; remove it, or name another folder (kernels.plan_cache)");
  }
  if (old.host != seen.host || old.threads != seen.threads) return;
  for (const RateKey& key : kRateKeys) {
    std::optional<double>& rate = seen.rates.*key.given;
    if (!rate) rate = old.rates.*key.given;
  }
}

std::string threads_text(std::int64_t threads) {
  return format_count(threads) + (threads == 1 ? " thread" : " threads");
}

/// Returns rank 0's text on every rank.
std::string broadcast(std::string text, Ranks& ranks) {
  std::array<std::uint64_t, 1> size{text.size()};
  ranks.broadcast(std::as_writable_bytes(std::span(size)), 0, Channel::kSubmit);
  text.resize(size[0]);
  ranks.broadcast(std::as_writable_bytes(std::span(text)), 0, Channel::kSubmit);
  return text;
}

}  // namespace

fs::path stored_rates_file(const KernelsSection& kernels, std::string_view device) {
  const fs::path folder = kernels.plan_cache ? fs::path(*kernels.plan_cache) : user_cache_folder();
  if (folder.empty() || device.empty()) return {};
  std::string name = "rates-";
  for (const char c : device) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += c;
    } else if (name.back() != '-') {
      name += '-';
    }
  }
  return folder / (name + ".json");
}

StoredRates load_rates(const fs::path& file) { return to_stored(read_rates(file)); }

void save_rates(std::string_view device, HardwareSection rates, std::int64_t threads,
                const fs::path& file) {
  const BuildInfo build = build_info();
  RatesFile content{.device = std::string(device),
                    .host = this_host(),
                    .measured = today(),
                    .program = std::string(build.version) + " " + std::string(build.commit),
                    .threads = threads,
                    .rates = rates};
  keep_unseen(content, file);
  replace_cache_file(file, write_fields(content));
}

std::string unsteadiness(std::span<const double> step_s, std::span<const double> traced_s) {
  const std::size_t from = step_s.size() > 1 ? 1 : 0;
  std::vector<double> steps(step_s.begin() + static_cast<std::ptrdiff_t>(from), step_s.end());
  std::ranges::sort(steps);
  const double usual_s = 0.5 * (steps[(steps.size() - 1) / 2] + steps[steps.size() / 2]);
  const double traced = traced_s[from];
  if (steps.back() > (1 + kSteady) * usual_s) {
    return fmt::format("steps took {:.3g} s and up to {:.3g} s", usual_s, steps.back());
  }
  if (std::abs(traced - usual_s) > kSteady * usual_s) {
    return fmt::format("steps took {:.3g} s, and the one that was traced {:.3g} s", usual_s,
                       traced);
  }
  return {};
}

std::int64_t threads_alone(const RunConfig& config) {
  return config.run.threads > 0 ? config.run.threads : usable_cores();
}

std::int64_t threads_on_host(const RunConfig& config, Ranks& ranks) {
  if (ranks.size() == 1) return threads_alone(config);
  const RankCores own = cores_of_this_rank();
  const std::vector<std::byte> bytes =
      ranks.all_gather_host(std::as_bytes(std::span(&own, 1)), Channel::kSubmit);
  std::vector<RankCores> all(static_cast<std::size_t>(ranks.size()));
  std::memcpy(static_cast<void*>(all.data()), bytes.data(), bytes.size());
  std::int64_t here = 0;
  CoreBits cores;
  for (const RankCores& rank : all) {
    if (rank.machine != own.machine) continue;
    ++here;
    cores |= rank.cores;
  }
  if (config.run.threads > 0) return config.run.threads * here;
  // Where a control group limits time, not cores, the ranks of a job share one.
  const int usable = usable_cores();
  const bool limited = static_cast<std::size_t>(usable) < own.cores.count();
  return limited ? usable : static_cast<std::int64_t>(cores.count());
}

std::optional<StoredRates> find_stored_rates(const RunConfig& config, std::string_view device,
                                             std::optional<std::int64_t> threads) {
  if (!config.hardware.stored_rates) return std::nullopt;
  const fs::path file = stored_rates_file(config.kernels, device);
  std::error_code ignored;
  if (file.empty() || !fs::exists(file, ignored)) return std::nullopt;
  constexpr const char* kRemedy =
      "; the stored rates are not used: remove the file, or measure again with strata tune "
      "--measure";
  try {
    StoredRates stored = load_rates(file);
    if (stored.device != device) {
      log::warn("{}: is about {}, not {}{}", file.string(),
                printable_name(shortened(stored.device)), device, kRemedy);
    } else if (threads && stored.threads != *threads) {
      log::warn("{}: was measured with {}, and here the host has {}{}", file.string(),
                threads_text(stored.threads), threads_text(*threads), kRemedy);
    } else {
      return stored;
    }
  } catch (const Error& error) {
    log::warn("{}{}", error.what(), kRemedy);
  }
  return std::nullopt;
}

std::optional<StoredRates> agree_on_stored_rates(const RunConfig& config, std::string_view device,
                                                 Ranks& ranks) {
  const std::int64_t threads = threads_on_host(config, ranks);
  if (ranks.size() == 1) return find_stored_rates(config, device, threads);
  RatesFile sent;
  if (ranks.rank() == 0) {
    if (const std::optional<StoredRates> found = find_stored_rates(config, device, threads)) {
      sent = {.device = found->device,
              .host = found->where,
              .measured = found->date,
              .program = {},
              .threads = found->threads,
              .rates = found->rates};
    }
  }
  RatesFile received;
  read_fields(received, broadcast(write_fields(sent), ranks), "the stored rates of rank 0");
  if (received.device.empty()) return std::nullopt;
  return StoredRates{.device = received.device,
                     .where = received.host,
                     .date = received.measured,
                     .threads = received.threads,
                     .rates = received.rates};
}

}  // namespace strata
