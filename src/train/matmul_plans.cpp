// Rank 0 searches plans file by file and measures what no file has; the others take its text and
// use what their platform knows.

#include "train/matmul_plans.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <set>
#include <sstream>
#include <system_error>

#include "strata/base/cache_file.h"
#include "strata/base/error.h"
#include "strata/base/fields.h"
#include "strata/base/file.h"
#include "strata/base/log.h"
#include "strata/runfiles/run_folder.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNotBitwise = "; results are not bitwise those of the run so far";

/// A set of plans has this form as the JSON object of a file.
struct PlanFile {
  std::string platform;
  std::vector<std::string> plans;  ///< a line each
  void fields(FieldList& f) {
    f.add("platform", platform, "device and library");
    f.add("plans", plans, "a line for each product");
  }
};

/// Adds a plan to a set, in the place of one for the same shape.
void put(MatmulPlanSet& set, const MatmulPlan& plan) {
  const auto at = std::ranges::find(set.plans, plan.shape, &MatmulPlan::shape);
  if (at == set.plans.end()) {
    set.plans.push_back(plan);
  } else {
    *at = plan;
  }
}

MatmulPlanSet parse_plan_set(const std::string& text, const fs::path& file) {
  PlanFile content;
  read_fields(content, text, file.string());
  MatmulPlanSet set{content.platform, {}};
  for (const std::string& line : content.plans) {
    try {
      set.plans.push_back(parse_matmul_plan(line));
    } catch (const IoError& error) {
      throw IoError(file.string() + ": " + error.what());
    }
  }
  return set;
}

/// Finds a plan for every shape, file by file. Rank 0 runs it.
class PlanSearch {
 public:
  PlanSearch(MatmulTuner& tuner, std::span<const MatmulShape> shapes, PlanReport& report)
      : tuner_(tuner), missing_(shapes.begin(), shapes.end()), report_(report) {
    chosen_.platform = tuner.platform();
  }

  [[nodiscard]] const MatmulPlanSet& chosen() const { return chosen_; }

  /// Takes the plans that the file of the run has, and says what it lacks. Returns all that it
  /// holds for this platform. Throws IoError if it cannot be read: it is written again, and may
  /// hold the plans that the run's bits are by.
  MatmulPlanSet take_from_run(const fs::path& file) {
    if (!is_there(file)) return {chosen_.platform, {}};
    const std::string text = read_text_file(file, kMostPlanBytes, Links::kRefuse);
    MatmulPlanSet held = take(file, text, kNotBitwise, report_.from_run);
    if (!held.plans.empty()) warn_of_missing(file);
    return held;
  }

  /// The same of the cache, which can be done without.
  MatmulPlanSet take_from_cache(const fs::path& file) {
    constexpr std::string_view kMeasuring = "; measuring again";
    std::error_code ignored;
    if (!fs::exists(file, ignored)) return {chosen_.platform, {}};
    std::string text;
    try {
      text = read_text_file(file, kMostPlanBytes);
    } catch (const IoError& error) {
      warn(error.what() + std::string(kMeasuring));
      return {chosen_.platform, {}};
    }
    return take(file, text, kMeasuring, report_.from_cache);
  }

  /// Lets the tuner find plans for what is still missing.
  void measure(std::size_t memory_bytes, WorkProgress* work) {
    if (missing_.empty()) return;
    log::info("measuring algorithms of {} matrix products", missing_.size());
    const std::vector<MatmulShape> shapes(missing_.begin(), missing_.end());
    if (work != nullptr) {
      work->begin("measuring " + std::to_string(shapes.size()) + " matrix products");
    }
    std::size_t unmeasured = 0;
    for (const MatmulPlan& plan : tuner_.tune(shapes, memory_bytes)) {
      use(plan);
      ++(plan.measured_us > 0 ? report_.measured : unmeasured);
    }
    if (unmeasured > 0) {
      warn(std::to_string(unmeasured) +
           " matrix products run with algorithms that were not measured: there was no memory for "
           "it, or no choice");
    }
  }

 private:
  /// Takes the plans that `text`, of `file`, has for missing shapes, and counts them in `count`.
  /// Returns all that it holds for this platform. `consequence` ends every warning.
  MatmulPlanSet take(const fs::path& file, const std::string& text, std::string_view consequence,
                     std::size_t& count) {
    MatmulPlanSet held{chosen_.platform, {}};
    try {
      const MatmulPlanSet found = parse_plan_set(text, file);
      if (found.platform == held.platform) {
        held = found;
      } else {
        warn(file.string() + ": its plans are for " + found.platform + ", this is " +
             held.platform + std::string(consequence));
        return held;
      }
    } catch (const Error& error) {
      warn(std::string(error.what()) + std::string(consequence));
      return held;
    }
    for (const MatmulPlan& plan : held.plans) {
      if (!missing_.contains(plan.shape)) continue;
      try {
        use(plan);
        ++count;
      } catch (const BackendError& error) {
        warn(file.string() + ": " + error.what() + std::string(consequence));
      }
    }
    return held;
  }

  void warn_of_missing(const fs::path& file) {
    if (missing_.empty()) return;
    warn(file.string() + ": has no plan for " + std::to_string(missing_.size()) +
         " of the run's matrix products" + std::string(kNotBitwise));
  }

  void use(const MatmulPlan& plan) {
    tuner_.use(plan);
    put(chosen_, plan);
    missing_.erase(plan.shape);
  }
  void warn(std::string text) { report_.warnings.push_back(std::move(text)); }

  MatmulTuner& tuner_;
  MatmulPlanSet chosen_;
  std::set<MatmulShape> missing_;
  PlanReport& report_;
};

/// Returns a plan for every shape, in use on this rank, after writing both folders.
MatmulPlanSet choose(MatmulTuner& tuner, std::span<const MatmulShape> shapes,
                     const PlanFolders& folders, std::size_t memory_bytes, PlanReport& report,
                     WorkProgress* work) {
  PlanSearch search(tuner, shapes, report);
  MatmulPlanSet of_run, cached;
  const fs::path run_file = folders.run / kPlansName;
  if (!folders.run.empty()) of_run = search.take_from_run(run_file);
  const fs::path cache_file = plan_cache_file(folders.cache, search.chosen().platform);
  if (!folders.cache.empty()) cached = search.take_from_cache(cache_file);
  search.measure(memory_bytes, work);

  for (const MatmulPlan& plan : search.chosen().plans) {
    put(of_run, plan);
    if (plan.measured_us > 0) put(cached, plan);
  }
  if (!folders.run.empty()) save_plan_set(of_run, run_file);
  if (!folders.cache.empty() && report.measured > 0) {
    try {
      save_plan_set(cached, cache_file);
    } catch (const Error& error) {
      report.warnings.push_back(std::string(error.what()) +
                                "; the next run measures again (kernels.plan_cache)");
    }
  }
  return search.chosen();
}

/// Returns rank 0's text on every rank.
std::string broadcast(const std::string& text, Ranks& ranks) {
  std::array<std::uint64_t, 1> size{text.size()};
  ranks.broadcast(std::as_writable_bytes(std::span(size)), 0, Channel::kSubmit);
  std::string received = text;
  received.resize(size[0]);
  ranks.broadcast(std::as_writable_bytes(std::span(received)), 0, Channel::kSubmit);
  return received;
}

/// Uses rank 0's plans on another rank. What does not fit this platform becomes a warning.
void use_all(MatmulTuner& tuner, const std::string& text, PlanReport& report) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  if (line != tuner.platform()) {
    report.warnings.push_back("rank 0 planned matrix products for " + line + ", this rank is on " +
                              tuner.platform() +
                              ": it does without plans, and results depend on the rank");
    return;
  }
  while (std::getline(lines, line)) {
    try {
      tuner.use(parse_matmul_plan(line));
    } catch (const BackendError& error) {
      report.warnings.push_back(std::string(error.what()) +
                                ": this rank does without rank 0's plan, not bitwise");
    }
  }
}

}  // namespace

MatmulPlanSet load_plan_set(const fs::path& file) {
  return parse_plan_set(read_text_file(file, kMostPlanBytes), file);
}

void save_plan_set(const MatmulPlanSet& set, const fs::path& file) {
  PlanFile content{set.platform, {}};
  for (const MatmulPlan& plan : set.plans) content.plans.push_back(to_line(plan));
  replace_cache_file(file, write_fields(content));
}

fs::path plan_cache_file(const fs::path& folder, const std::string& platform) {
  std::string name = "matmul-plans-";
  for (const char c : platform) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += c;
    } else if (name.back() != '-') {
      name += '-';
    }
  }
  return folder / (name + ".json");
}

PlanReport plan_matmuls(MatmulTuner& tuner, std::span<const MatmulShape> shapes,
                        const PlanFolders& folders, std::size_t memory_bytes, Ranks& ranks,
                        WorkProgress* work) {
  PlanReport report;
  std::string text;
  if (ranks.rank() == 0) {
    const MatmulPlanSet set = choose(tuner, shapes, folders, memory_bytes, report, work);
    text = set.platform + "\n";
    for (const MatmulPlan& plan : set.plans) text += to_line(plan) + "\n";
  }
  text = broadcast(text, ranks);
  if (ranks.rank() != 0) use_all(tuner, text, report);
  return report;
}

}  // namespace strata
