// A file of rates is a JSON object with the device's name, the host, the date, the program and the
// keys of kRateKeys. It is read like a config, so that whatever is wrong with it is said by key.

#include "strata/run/stored_rates.h"

#include <unistd.h>

#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <span>
#include <system_error>
#include <utility>

#include "run/matmul_plans.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/base/version.h"
#include "strata/config/rate_keys.h"

namespace strata {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 1 << 16;

/// A file of rates, as it is read and written.
struct RatesFile {
  std::string device, host, measured, program;
  HardwareSection rates;
  void fields(FieldList& f) {
    f.add("device", device, "name of the device");
    f.add("host", host, "name of the machine");
    f.add("measured", measured, "date");
    f.add("program", program, "version and commit that measured");
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
    if (!(*rate > 0)) problems.add(key.key, "must be above 0");
  }
  if (!any) problems.add(kRateKeys[0].key, "and all other rates are missing");
  if (content.device.empty()) problems.add("device", "is missing");
  problems.throw_if_any(file.string());
  return content;
}

StoredRates to_stored(RatesFile&& content) {
  return {.device = std::move(content.device),
          .where = content.host == this_host() ? "this machine" : std::move(content.host),
          .date = std::move(content.measured),
          .rates = content.rates};
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

void save_rates(std::string_view device, const HardwareSection& rates, const fs::path& file) {
  const BuildInfo build = build_info();
  const RatesFile content{.device = std::string(device),
                          .host = this_host(),
                          .measured = today(),
                          .program = std::string(build.version) + " " + std::string(build.commit),
                          .rates = rates};
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  const fs::path unfinished = file.string() + "." + std::to_string(::getpid()) + ".tmp";
  std::ofstream out(unfinished, std::ios::binary);
  out << write_fields(content);
  out.close();
  const bool written = out.good();
  if (written) fs::rename(unfinished, file, failed);
  if (written && !failed) return;
  std::error_code ignored;
  fs::remove(unfinished, ignored);
  throw IoError(file.string() + ": cannot be written" + (failed ? ": " + failed.message() : ""));
}

std::optional<StoredRates> find_stored_rates(const RunConfig& config, std::string_view device) {
  if (!config.hardware.stored_rates) return std::nullopt;
  const fs::path file = stored_rates_file(config.kernels, device);
  std::error_code ignored;
  if (file.empty() || !fs::exists(file, ignored)) return std::nullopt;
  constexpr const char* kRemedy =
      "; the stored rates are not used: remove the file, or measure again with strata tune "
      "--measure";
  try {
    StoredRates stored = load_rates(file);
    if (stored.device == device) return stored;
    log::warn("{}: is about {}, not {}{}", file.string(), stored.device, device, kRemedy);
  } catch (const Error& error) {
    log::warn("{}{}", error.what(), kRemedy);
  }
  return std::nullopt;
}

std::optional<StoredRates> agree_on_stored_rates(const RunConfig& config, std::string_view device,
                                                 Ranks& ranks) {
  if (ranks.size() == 1) return find_stored_rates(config, device);
  RatesFile sent;
  if (ranks.rank() == 0) {
    if (const std::optional<StoredRates> found = find_stored_rates(config, device)) {
      sent = {.device = found->device,
              .host = found->where,
              .measured = found->date,
              .program = {},
              .rates = found->rates};
    }
  }
  RatesFile received;
  read_fields(received, broadcast(write_fields(sent), ranks), "the stored rates of rank 0");
  if (received.device.empty()) return std::nullopt;
  return StoredRates{.device = received.device,
                     .where = received.host,
                     .date = received.measured,
                     .rates = received.rates};
}

}  // namespace strata
