// Tests that rates are found again as they were stored, by the device's name alone, on all ranks,
// and that a file which cannot be used is no failure.

#include "strata/predict/stored_rates.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/thread_pool.h"
#include "support/catch.h"
#include "support/scratch_folder.h"
#include "support/thread_ranks.h"
#include "support/tiny_config.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;

/// Returns a run whose cache is a folder of the test.
RunConfig run_with_cache(const ScratchFolder& folder) {
  RunConfig config = tiny_config();
  config.hardware.stored_rates = true;
  config.kernels.plan_cache = folder.file("cache");
  return config;
}

/// The threads of a run of run_with_cache.
constexpr std::int64_t kThreads = 2;

HardwareSection some_rates() {
  HardwareSection rates;
  rates.product_tflops = 600.5;
  rates.host_gbs = 120;
  return rates;
}

}  // namespace

TEST_CASE("stored rates are found by the device's name, with where and when they were seen") {
  const ScratchFolder folder;
  const RunConfig config = run_with_cache(folder);
  CHECK_FALSE(find_stored_rates(config, "NVIDIA H200", kThreads).has_value());
  const fs::path file = stored_rates_file(config.kernels, "NVIDIA H200");
  CHECK(file.filename() == "rates-NVIDIA-H200.json");
  save_rates("NVIDIA H200", some_rates(), kThreads, file);
  const StoredRates found = find_stored_rates(config, "NVIDIA H200", kThreads).value();
  CHECK(found.where == "this machine");
  CHECK(found.threads == kThreads);
  CHECK(found.date.size() == 10);
  CHECK(found.rates.product_tflops == 600.5);
  CHECK(found.rates.host_gbs == 120);
  CHECK_FALSE(found.rates.device_gbs.has_value());
  CHECK_FALSE(find_stored_rates(config, "NVIDIA H100", kThreads).has_value());
}

TEST_CASE("where and when rates were seen is one line, whatever the file says") {
  const ScratchFolder folder;
  const fs::path file = folder.write(
      "rates.json", R"({"device": "a chip", "host": "x\n\u001b[31mno prediction", "threads": 1,
                       "measured": "\u202e now", "host_gbs": 5})");
  const StoredRates found = load_rates(file);
  CHECK(found.where == "x\\n\\x1b[31mno prediction");
  CHECK(found.date == "\\u202e now");
}

TEST_CASE("stored rates are not used if the config says so, and none are kept without a cache") {
  const ScratchFolder folder;
  RunConfig config = run_with_cache(folder);
  save_rates("a chip", some_rates(), kThreads, stored_rates_file(config.kernels, "a chip"));
  config.hardware.stored_rates = false;
  CHECK_FALSE(find_stored_rates(config, "a chip", kThreads).has_value());
  config.kernels.plan_cache = "";
  CHECK(stored_rates_file(config.kernels, "a chip").empty());
}

TEST_CASE("a file of rates that cannot be used is named and left alone") {
  const ScratchFolder folder;
  const RunConfig config = run_with_cache(folder);
  const fs::path file = stored_rates_file(config.kernels, "a chip");
  struct Case {
    const char* content;
    const char* says;
  };
  for (const Case& c :
       {Case{"{\"device\": \"a chip\"", "not valid JSON"}, Case{"", "not valid JSON"},
        Case{"[1]", "expected a JSON object"},
        Case{"{\"device\": \"a chip\"}", "all other rates are missing"},
        Case{"{\"device\": \"a chip\", \"host_gbs\": -1}", "must be from 1e-6 to 1e6"},
        Case{"{\"device\": \"a chip\", \"host_gbs\": 1e-300}", "host_gbs: must"},
        Case{"{\"device\": \"a chip\", \"device_gbs\": 1e300}", "device_gbs: must"},
        Case{"{\"device\": \"a chip\", \"host_gbs\": 5}", "threads: is missing"},
        Case{"{\"device\": \"a chip\", \"host_gbs\": \"x\"}", "expected a number"},
        Case{"{\"host_gbs\": 5}", "device: is missing"}}) {
    CAPTURE(c.content);
    (void)folder.write("cache/" + file.filename().string(), c.content);
    try {
      (void)load_rates(file);
      FAIL("it was read");
    } catch (const Error& error) {
      CHECK_THAT(std::string(error.what()), ContainsSubstring(file.string()));
      CHECK_THAT(std::string(error.what()), ContainsSubstring(c.says));
    }
    CHECK_FALSE(find_stored_rates(config, "a chip", kThreads).has_value());
  }
  // Another device whose name makes the same file name.
  save_rates("a-chip", some_rates(), kThreads, file);
  CHECK_FALSE(find_stored_rates(config, "a chip", kThreads).has_value());
  CHECK_THROWS_AS(save_rates("a chip", some_rates(), kThreads, file), ConfigError);
  CHECK(find_stored_rates(config, "a-chip", kThreads).has_value());
}

TEST_CASE("rates are written through no link that others left under a name that they foresaw") {
  const ScratchFolder folder;
  const RunConfig config = run_with_cache(folder);
  const fs::path file = stored_rates_file(config.kernels, "a chip");
  const std::string precious = folder.write("precious", "text");
  fs::create_directories(file.parent_path());
  const std::string process = std::to_string(::getpid());
  for (const std::string& ending : {std::string(".tmp"), "." + process + ".tmp", "." + process}) {
    fs::create_symlink(precious, file.string() + ending);
  }
  save_rates("a chip", some_rates(), kThreads, file);
  CHECK(find_stored_rates(config, "a chip", kThreads).has_value());
  fs::remove(file);
  fs::create_symlink(precious, file);
  CHECK_THROWS_WITH(save_rates("a chip", some_rates(), kThreads, file),
                    ContainsSubstring("symbolic link; name the file that it leads to"));
  CHECK(fs::file_size(precious) == 4);
}

TEST_CASE(
    "rates of another number of threads are not used, unless nobody knows how many there are") {
  const ScratchFolder folder;
  const RunConfig config = run_with_cache(folder);
  save_rates("a chip", some_rates(), kThreads, stored_rates_file(config.kernels, "a chip"));
  CHECK(find_stored_rates(config, "a chip", kThreads).has_value());
  CHECK_FALSE(find_stored_rates(config, "a chip", 1).has_value());
  CHECK_FALSE(find_stored_rates(config, "a chip", 16).has_value());
  CHECK(find_stored_rates(config, "a chip", std::nullopt).has_value());
}

TEST_CASE("ranks of a host have its cores between them, or as many threads as the config gives") {
  RunConfig config = tiny_config();
  CHECK(threads_alone(config) == 2);
  CHECK(threads_on_host(config, *make_self_ranks()) == 2);
  run_ranks(3, [&](Ranks& ranks) {
    RunConfig own = config;
    if (threads_on_host(own, ranks) != 6) throw Error("not 6 threads");
    own.run.threads = 0;
    if (threads_on_host(own, ranks) != usable_cores()) throw Error("not all cores");
  });
  config.run.threads = 0;
  CHECK(threads_alone(config) == usable_cores());
}

TEST_CASE(
    "rates that were not seen stay those of this machine with as many threads, and no others") {
  const ScratchFolder folder;
  const RunConfig config = run_with_cache(folder);
  const fs::path file = stored_rates_file(config.kernels, "a chip");
  const auto save = [&](std::int64_t threads) {
    HardwareSection seen;
    seen.host_gbs = 7;
    save_rates("a chip", seen, threads, file);
    const HardwareSection kept = load_rates(file).rates;
    CHECK(kept.host_gbs == 7);
    return kept.product_tflops;
  };
  save_rates("a chip", some_rates(), kThreads, file);
  CHECK(save(kThreads) == 600.5);
  CHECK_FALSE(save(kThreads + 1).has_value());
  (void)folder.write("cache/" + file.filename().string(),
                     R"({"device": "a chip", "host": "node7", "threads": 2, "product_tflops": 9})");
  CHECK(load_rates(file).where == "node7");
  CHECK_FALSE(save(kThreads).has_value());
  CHECK(load_rates(file).where == "this machine");
}

TEST_CASE("rates of a run that was disturbed are not worth keeping") {
  using Steps = std::vector<double>;
  // Nothing was under way when the first began, so it may be shorter.
  CHECK(unsteadiness(Steps{0.5, 1, 1.05}, Steps{0.5, 0.95}).empty());
  CHECK(unsteadiness(Steps{0.5}, Steps{0.52, 1}).empty());
  CHECK(unsteadiness(Steps{0.5, 1, 1, 1.2}, Steps{0.5, 1}) == "steps took 1 s and up to 1.2 s");
  CHECK(unsteadiness(Steps{0.5, 1, 1}, Steps{0.5, 1.2}) ==
        "steps took 1 s, and the one that was traced 1.2 s");
  CHECK(unsteadiness(Steps{0.5, 1, 1}, Steps{0.5, 0.8}) ==
        "steps took 1 s, and the one that was traced 0.8 s");
  CHECK_FALSE(unsteadiness(Steps{0.5}, Steps{0.6, 0.5}).empty());
}

TEST_CASE("keys of hardware go before stored rates, and those before what is known of a GPU") {
  const StoredRates stored{
      .device = "NVIDIA H200", .where = "node7", .date = "2026-11-24", .rates = some_rates()};
  HardwareSection given;
  given.host_gbs = 99;
  const KnownRates known = known_rates("NVIDIA H200", given, {}, stored);
  CHECK(known.rates.product_tflops == 600.5);
  CHECK(known.rates.host_gbs == 99);
  CHECK(known.rates.device_gbs == known_rates("NVIDIA H200", {}).rates.device_gbs);
  CHECK(known.source ==
        "H200 (measured; measured on node7, 2026-11-24: hardware.product_tflops; as given: "
        "hardware.host_gbs)");
  const KnownRates unknown = known_rates("a chip", {}, {}, stored);
  CHECK(unknown.missing ==
        "hardware.attention_forward_tflops, hardware.attention_backward_tflops, "
        "hardware.device_gbs");
  StoredRates whole = stored;
  whole.rates.attention_forward_tflops = whole.rates.attention_backward_tflops = 1;
  whole.rates.device_gbs = 1;
  CHECK(known_rates("a chip", {}, {}, whole).source == "a chip (measured on node7, 2026-11-24)");
}

TEST_CASE("all ranks use the rates that rank 0 finds") {
  const ScratchFolder folder;
  const RunConfig with = run_with_cache(folder);
  save_rates("a chip", some_rates(), 3 * kThreads, stored_rates_file(with.kernels, "a chip"));
  std::mutex mutex;
  std::multiset<double> seen;
  run_ranks(3, [&](Ranks& ranks) {
    RunConfig config = with;
    if (ranks.rank() > 0) config.kernels.plan_cache = folder.file("nothing");
    const auto found = agree_on_stored_rates(config, "a chip", ranks);
    const std::lock_guard lock(mutex);
    seen.insert(found ? found->rates.product_tflops.value_or(0) : -1);
  });
  CHECK(seen == std::multiset<double>{600.5, 600.5, 600.5});
}

}  // namespace strata::test
