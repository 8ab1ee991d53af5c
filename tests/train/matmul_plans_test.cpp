// Tests where plans of matrix products come from and where they are kept, with a tuner that only
// counts what it is asked for, and that the model lists the products that a step runs.

#include "train/matmul_plans.h"

#include "strata/base/cache_file.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "strata/base/error.h"
#include "strata/model/families.h"
#include "support/catch.h"
#include "support/session_run.h"
#include "support/thread_ranks.h"

namespace strata::test {
namespace {

namespace fs = std::filesystem;

/// A folder that is removed at the end.
struct Folder {
  Folder() {
    std::string name = (fs::temp_directory_path() / "strata_plans_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] PlanFolders folders(const std::string& run = "run") const {
    return {.run = path / run, .cache = path / "cache"};
  }
  fs::path path;
};

/// Calls its algorithms "first_1", "first_2", ... in the order of tuning.
class FakeTuner final : public MatmulTuner {
 public:
  explicit FakeTuner(std::string name, std::string platform = "a chip")
      : name_(std::move(name)), platform_(std::move(platform)) {}

  [[nodiscard]] std::string platform() const override { return platform_; }
  [[nodiscard]] std::vector<MatmulPlan> tune(std::span<const MatmulShape> shapes,
                                             std::size_t memory_bytes) override {
    std::vector<MatmulPlan> plans;
    for (const MatmulShape& shape : shapes) {
      plans.push_back({.shape = shape,
                       .algorithm = name_ + "_" + std::to_string(++tuned),
                       .measured_us = memory_bytes > 0 ? 10.0 : 0.0});
    }
    return plans;
  }
  void use(const MatmulPlan& plan) override {
    if (plan.algorithm == refused) throw BackendError("refused");
    used[plan.shape] = plan.algorithm;
  }
  [[nodiscard]] std::vector<MatmulComparison> compare(std::span<const MatmulShape>,
                                                      std::size_t) override {
    return {};
  }

  int tuned = 0;
  std::string refused;
  std::map<MatmulShape, std::string> used;

 private:
  std::string name_, platform_;
};

MatmulShape shape(std::int64_t m) {
  return {.m = m, .n = 2, .k = 3, .stride_a = 3, .stride_b = 3, .stride_out = 2};
}

const std::vector<MatmulShape> kShapes{shape(1), shape(2), shape(1)};  // one comes twice

PlanReport plan(FakeTuner& tuner, const PlanFolders& folders,
                const std::vector<MatmulShape>& shapes = kShapes, std::size_t memory = 1) {
  const auto self = make_self_ranks();
  return plan_matmuls(tuner, shapes, folders, memory, *self);
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator{}));
}

void write(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

}  // namespace

TEST_CASE("what was measured for one run is found by the next one") {
  const Folder folder;
  FakeTuner first("first");
  const PlanReport measured = plan(first, folder.folders("one"));
  CHECK(measured.measured == 2);
  CHECK(measured.warnings.empty());
  FakeTuner second("second");
  const PlanReport found = plan(second, folder.folders("two"));
  CHECK(found.from_cache == 2);
  CHECK(found.warnings.empty());
  CHECK(second.tuned == 0);
  CHECK(second.used == first.used);
  CHECK(files_in(folder.path / "cache") == 1);
  CHECK(files_in(folder.path / "one") == 1);
  CHECK(load_plan_set(folder.path / "one/plans.json").plans.size() == 2);
}

TEST_CASE("a run goes on with the plans of its folder, whatever the cache says") {
  const Folder folder;
  FakeTuner first("first");
  plan(first, folder.folders());
  fs::remove_all(folder.path / "cache");
  FakeTuner other("other");
  plan(other, folder.folders("other run"));
  FakeTuner again("again");
  const PlanReport report = plan(again, folder.folders());
  CHECK(report.from_run == 2);
  CHECK(report.warnings.empty());
  CHECK(again.used == first.used);
  CHECK(again.used != other.used);
}

TEST_CASE("products that a run's plans lack are measured and reported as not bitwise") {
  const Folder folder;
  FakeTuner first("first");
  plan(first, folder.folders());
  FakeTuner more("more");
  const PlanReport report = plan(more, folder.folders(), {shape(1), shape(5)});
  CHECK(report.from_run == 1);
  CHECK(report.measured == 1);
  REQUIRE(report.warnings.size() == 1);
  REQUIRE_THAT(report.warnings[0],
               ContainsSubstring("no plan for 1") && ContainsSubstring("not bitwise"));
  CHECK(more.used[shape(5)] == "more_1");
  // What the run used before is kept.
  CHECK(load_plan_set(folder.path / "run/plans.json").plans.size() == 3);
}

TEST_CASE("plans that a run folder does not take end the start, which would not be repeatable") {
  const Folder folder;
  fs::create_directories(folder.path / "run/plans.json/in the way");
  FakeTuner tuner("first");
  REQUIRE_THROWS_WITH(plan(tuner, folder.folders()),
                      ContainsSubstring((folder.path / "run/plans.json").string()));
}

TEST_CASE("plan files that are broken or foreign are reported, and written again") {
  const Folder folder;
  FakeTuner first("first");
  plan(first, folder.folders());
  const fs::path run = folder.path / "run/plans.json";
  const fs::path cache = plan_cache_file(folder.path / "cache", "a chip");
  REQUIRE(fs::exists(cache));
  MatmulPlanSet foreign = load_plan_set(run);
  foreign.platform = "another chip";

  std::vector<std::pair<std::string, std::string>> broken{
      {"{\"platform\": \"a chip\", \"plans\": [\"NT bf16\"]}", "\"NT bf16\" is not a plan"},
      {"{\"platform\": ", run.string()},
      {"{\"platforms\": \"a chip\"}", "platforms"},
      {"", run.string()}};
  for (const auto& [text, complaint] : broken) {
    INFO(text);
    write(run, text);
    write(cache, text);
    FakeTuner again("again");
    const PlanReport report = plan(again, folder.folders());
    CHECK(report.measured == 2);
    REQUIRE(report.warnings.size() == 2);
    REQUIRE_THAT(report.warnings[0], ContainsSubstring(run.string()) &&
                                         ContainsSubstring(complaint) &&
                                         ContainsSubstring("not bitwise"));
    REQUIRE_THAT(report.warnings[1], ContainsSubstring(cache.string()));
    CHECK(load_plan_set(run).plans.size() == 2);
    CHECK(load_plan_set(cache).plans.size() == 2);
  }

  save_plan_set(foreign, run);
  FakeTuner here("here");
  const PlanReport report = plan(here, folder.folders());
  CHECK(report.from_run == 0);
  REQUIRE(report.warnings.size() == 1);
  REQUIRE_THAT(report.warnings[0], ContainsSubstring("for another chip, this is a chip") &&
                                       ContainsSubstring("not bitwise"));
  CHECK(load_plan_set(run).platform == "a chip");
}

TEST_CASE("a plan that the library refuses is replaced") {
  const Folder folder;
  FakeTuner first("first");
  plan(first, folder.folders());
  FakeTuner strict("strict");
  strict.refused = first.used[shape(2)];
  const PlanReport report = plan(strict, folder.folders());
  CHECK(report.from_run == 1);
  CHECK(report.measured == 1);
  CHECK(strict.used[shape(1)] == first.used[shape(1)]);
  CHECK(strict.used[shape(2)] == "strict_1");
  REQUIRE_FALSE(report.warnings.empty());
  REQUIRE_THAT(report.warnings[0],
               ContainsSubstring("refused") && ContainsSubstring("not bitwise"));
}

TEST_CASE("plans that could not be measured stay with the run and out of the cache") {
  const Folder folder;
  FakeTuner poor("poor");
  const PlanReport report = plan(poor, folder.folders(), kShapes, 0);
  CHECK(report.measured == 0);
  REQUIRE(report.warnings.size() == 1);
  REQUIRE_THAT(report.warnings[0], ContainsSubstring("not measured"));
  CHECK_FALSE(fs::exists(folder.path / "cache"));
  FakeTuner again("again");
  CHECK(plan(again, folder.folders()).from_run == 2);
  CHECK(again.used == poor.used);
}

TEST_CASE("a cache that cannot be written costs a warning") {
  const Folder folder;
  write(folder.path / "cache", "a file where the folder should be");
  FakeTuner tuner("first");
  const PlanReport report = plan(tuner, folder.folders());
  CHECK(report.measured == 2);
  REQUIRE(report.warnings.size() == 1);
  REQUIRE_THAT(report.warnings[0], ContainsSubstring("kernels.plan_cache"));
}

TEST_CASE("plans are written through no link, and those of a run are not read through one") {
  const Folder folder;
  FakeTuner tuner("first");
  (void)plan(tuner, folder.folders());
  const fs::path held = folder.path / "run/plans.json";
  const fs::path cache = plan_cache_file(folder.path / "cache", "a chip");
  write(folder.path / "precious", "text");
  for (const fs::path& file : {held, cache}) {
    fs::create_symlink("../precious", file.string() + "." + std::to_string(::getpid()) + ".tmp");
  }
  fs::remove(cache);
  fs::create_symlink("../precious", cache);
  FakeTuner again("again");
  const PlanReport report = plan(again, folder.folders("run-2"));
  CHECK(report.measured == 2);
  REQUIRE(report.warnings.size() == 2);  // it is not JSON, and is not replaced
  CHECK_THAT(report.warnings[1], ContainsSubstring("symbolic link"));
  fs::rename(held, folder.path / "elsewhere.json");
  fs::create_symlink("../elsewhere.json", held);
  CHECK_THROWS_WITH(plan(again, folder.folders()), ContainsSubstring("plans.json: is a link"));
  CHECK(fs::file_size(folder.path / "precious") == 4);
}

TEST_CASE("without folders every run measures and leaves nothing") {
  FakeTuner tuner("first");
  const PlanReport report = plan(tuner, {});
  CHECK(report.measured == 2);
  CHECK(report.warnings.empty());
  CHECK_FALSE(fs::exists("plans.json"));
}

TEST_CASE("all ranks run with the plans of rank 0") {
  const Folder folder;
  std::mutex mutex;
  std::map<int, std::map<MatmulShape, std::string>> used;
  std::map<int, PlanReport> reports;
  run_ranks(3, [&](Ranks& ranks) {
    const int rank = ranks.rank();
    FakeTuner tuner("rank" + std::to_string(rank), rank == 2 ? "another chip" : "a chip");
    const PlanReport report = plan_matmuls(tuner, kShapes, folder.folders(), 1, ranks);
    const std::lock_guard lock(mutex);
    used[rank] = tuner.used;
    reports[rank] = report;
    CHECK(tuner.tuned == (rank == 0 ? 2 : 0));
  });
  CHECK(used[0].size() == 2);
  CHECK(used[1] == used[0]);
  CHECK(reports[1].warnings.empty());
  CHECK(used[2].empty());
  REQUIRE(reports[2].warnings.size() == 1);
  REQUIRE_THAT(reports[2].warnings[0], ContainsSubstring("planned matrix products for a chip"));
}

TEST_CASE("the cache is in the user's cache folder") {
  const auto variable = [](const char* name) {
    const char* value = ::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  const auto set = [](const char* name, const std::optional<std::string>& value) {
    value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
  };
  const auto xdg = variable("XDG_CACHE_HOME");
  const auto home = variable("HOME");
  set("HOME", "/home/somebody");
  set("XDG_CACHE_HOME", "/caches");
  CHECK(user_cache_folder() == "/caches/strata");
  set("XDG_CACHE_HOME", std::nullopt);
  CHECK(user_cache_folder() == "/home/somebody/.cache/strata");
  set("HOME", std::nullopt);
  CHECK(user_cache_folder().empty());
  set("XDG_CACHE_HOME", xdg);
  set("HOME", home);
  CHECK(plan_cache_file("c", "NVIDIA H200, 132 multiprocessors, cuBLASLt 130101") ==
        "c/matmul-plans-NVIDIA-H200-132-multiprocessors-cuBLASLt-130101.json");
}

TEST_CASE("the model lists exactly the matrix products that a step runs") {
  RunConfig config = tiny_config();
  config.schedule.head_chunk_tokens = 3;  // of 7 tokens: a last chunk of 1
  config.debug.execution = Execution::kEager;
  Recorder recorder;
  const auto self = make_self_ranks();
  Session session(config, *self, {.trace = &recorder});
  recorder.start();
  session.submit(0, 1e-3);
  recorder.stop();
  session.synchronize();

  // A product's dimensions follow from the sizes of its operands.
  using Sizes = std::tuple<std::size_t, std::size_t, std::size_t, bool>;
  std::set<Sizes> run;
  for (const std::size_t i : recorder.find("matmul")) {
    const Accesses& accesses = recorder.records()[i].what.accesses;
    REQUIRE(accesses.reads.size() >= 2);
    run.emplace(accesses.reads[0].bytes, accesses.reads[1].bytes, accesses.writes.at(0).bytes,
                accesses.reads.size() == 3);
  }
  const auto bytes = [](std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    return static_cast<std::size_t>((rows - 1) * stride + columns) * sizeof(double);
  };
  std::set<Sizes> listed;
  for (const LlamaMatmul& product :
       Llama::matmuls(spec_of(config.model.llama), llama_sizes(config))) {
    const MatmulShape& s = product.shape;
    const std::int64_t columns_a = s.layout == MatmulLayout::kTN ? s.m : s.k;
    const std::int64_t columns_b = s.layout == MatmulLayout::kNT ? s.k : s.n;
    listed.emplace(bytes(s.rows_a(), columns_a, s.stride_a),
                   bytes(s.rows_b(), columns_b, s.stride_b), bytes(s.m, s.n, s.stride_out),
                   s.update == MatmulUpdate::kAccumulate);
  }
  CHECK(run.size() == 18);
  CHECK(run == listed);
}

}  // namespace strata::test
