// Tests that rates are found again as they were stored, by the device's name alone, on all ranks,
// and that a file which cannot be used is no failure.

#include "strata/run/stored_rates.h"

#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "strata/base/error.h"
#include "support/catch.h"
#include "support/scratch_folder.h"
#include "support/session_run.h"
#include "support/thread_ranks.h"

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
  CHECK_FALSE(find_stored_rates(config, "NVIDIA H200").has_value());
  const fs::path file = stored_rates_file(config.kernels, "NVIDIA H200");
  CHECK(file.filename() == "rates-NVIDIA-H200.json");
  save_rates("NVIDIA H200", some_rates(), file);
  const StoredRates found = find_stored_rates(config, "NVIDIA H200").value();
  CHECK(found.where == "this machine");
  CHECK(found.date.size() == 10);
  CHECK(found.rates.product_tflops == 600.5);
  CHECK(found.rates.host_gbs == 120);
  CHECK_FALSE(found.rates.device_gbs.has_value());
  CHECK_FALSE(find_stored_rates(config, "NVIDIA H100").has_value());
}

TEST_CASE("stored rates are not used if the config says so, and none are kept without a cache") {
  const ScratchFolder folder;
  RunConfig config = run_with_cache(folder);
  save_rates("a chip", some_rates(), stored_rates_file(config.kernels, "a chip"));
  config.hardware.stored_rates = false;
  CHECK_FALSE(find_stored_rates(config, "a chip").has_value());
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
  for (const Case& c : {Case{"{\"device\": \"a chip\"", "not valid JSON"},
                        Case{"", "not valid JSON"}, Case{"[1]", "expected a JSON object"},
                        Case{"{\"device\": \"a chip\"}", "all other rates are missing"},
                        Case{"{\"device\": \"a chip\", \"host_gbs\": -1}", "must be above 0"},
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
    CHECK_FALSE(find_stored_rates(config, "a chip").has_value());
  }
  // Another device whose name makes the same file name.
  save_rates("a-chip", some_rates(), file);
  CHECK_FALSE(find_stored_rates(config, "a chip").has_value());
  CHECK(find_stored_rates(config, "a-chip").has_value());
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
  save_rates("a chip", some_rates(), stored_rates_file(with.kernels, "a chip"));
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

TEST_CASE("a session predicts by stored rates, and its numbers do not change") {
  const ScratchFolder folder;
  RunConfig config = run_with_cache(folder);
  const std::unique_ptr<Ranks> alone = make_self_ranks();
  std::string device;
  RunResult before, after;
  {
    Session session(config, *alone);
    device = session.device().info().name;
    CHECK_FALSE(session.setup().stored.has_value());
    before = run_steps(session);
  }
  save_rates(device, some_rates(), stored_rates_file(config.kernels, device));
  {
    Session session(config, *alone);
    REQUIRE(session.setup().stored.has_value());
    CHECK(session.setup().stored->rates.host_gbs == 120);
    after = run_steps(session);
  }
  REQUIRE(!before.losses.empty());
  CHECK(before.losses == after.losses);
}

}  // namespace strata::test
