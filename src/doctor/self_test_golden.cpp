// The self-test against stored goldens: five clipped steps of a tiny model, whose losses and norms
// PyTorch computed in f64. What PyTorch itself gets wrong in a dtype says how much is allowed in
// it.

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <span>

#include "doctor/golden_files.h"
#include "doctor/tiny_training.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/output_file.h"
#include "strata/model/safetensors.h"

namespace strata {

namespace {

/// Room for another order of sums, and other places of rounding, than PyTorch's.
constexpr double kRoom = 4;
/// What is allowed in f64, relative.
constexpr double kExact = 1e-9;

std::filesystem::path write_golden_files(const std::filesystem::path& scratch) {
  const std::filesystem::path folder = scratch / "golden";
  std::filesystem::create_directories(folder);
  for (const GoldenFile& file : kGoldenFiles) {
    write_file((folder / file.name).string(), file.bytes);
  }
  return folder;
}

/// The batches and what must come of them.
class Golden {
 public:
  explicit Golden(const std::filesystem::path& folder)
      : folder_(folder), file_(folder / "self_test.safetensors") {
    const std::vector<std::int64_t>& shape = file_.info("tokens").shape;
    rows_ = shape.at(1);
    tokens_ = shape.at(2);
  }

  [[nodiscard]] RunConfig config(const SelfTestOptions& options, DType dtype) const {
    RunConfig config = tiny_training(options);
    config.run.dtype = dtype;
    config.run.steps = file_.info("tokens").shape.at(0);
    config.model.path = folder_.string();
    config.model.llama = load_llama_config(folder_ / "config.json");
    config.data.sequence_length = tokens_;
    config.schedule.sub_batches = rows_;
    // What streams is another check's business.
    config.schedule.resident_units = config.model.llama.num_hidden_layers + 2;
    config.schedule.activations = KeepLevel::kFull;
    config.schedule.spill = KeepLevel::kRecompute;  // nothing
    config.optimizer.gradient_dtype = DType::kF32;
    config.optimizer.lr = number("optimizer.lr");
    config.optimizer.betas = {number("optimizer.beta1"), number("optimizer.beta2")};
    config.optimizer.eps = number("optimizer.eps");
    config.optimizer.weight_decay = number("optimizer.weight_decay");
    config.optimizer.grad_clip = number("optimizer.clip");
    return config;
  }

  /// Fills the only pass of a step, a row a sub-batch; returns the number of valid targets.
  std::int64_t fill(std::int64_t step, const PassBuffers& out) const {
    const std::int64_t first = step * rows_ * tokens_;
    file_.read("tokens", first, out.ids);
    file_.read("targets", first, out.targets);
    file_.read("positions", first, out.positions);
    const auto width = static_cast<std::size_t>(tokens_);
    const auto length = static_cast<std::int32_t>(tokens_);
    std::ranges::fill(out.segments, 0);
    const std::size_t entries = out.segments.size() / static_cast<std::size_t>(rows_);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows_); ++row) {
      out.segments[row * entries + 2] = length;
      out.segments[row * entries + 3] = length;
      const auto ids = out.ids.subspan(row * width, width);
      const auto order = out.order.subspan(row * width, width);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, {}, [&](auto n) { return ids[static_cast<std::size_t>(n)]; });
    }
    return std::ranges::count_if(out.targets, [](auto target) { return target != kIgnoreTarget; });
  }

  [[nodiscard]] std::vector<double> values(const std::string& name) const {
    std::vector<double> all(static_cast<std::size_t>(file_.info(name).elements));
    file_.read(name, 0, std::span(all));
    return all;
  }

  /// Returns how far a series ("loss" or "grad_norm") may be off in a dtype, relative.
  [[nodiscard]] double allowed(const std::string& name, DType dtype) const {
    if (dtype == DType::kF64) return kExact;
    const std::vector<double> errors = values(name + "." + std::string(name_of(dtype)) + "_error");
    return kRoom * *std::ranges::max_element(errors) + 1e-7;
  }

 private:
  [[nodiscard]] double number(const std::string& name) const { return values(name).at(0); }

  std::filesystem::path folder_;
  SafetensorsFile file_;
  std::int64_t rows_ = 0;
  std::int64_t tokens_ = 0;
};

/// One series of a run beside PyTorch's.
struct Series {
  std::string name;  ///< for people
  std::vector<double> got;
  std::vector<double> want;
  double allowed = 0;  ///< relative
};

double relative_error(double got, double want) { return std::abs(got - want) / std::abs(want); }

Finding check_dtype(const SelfTestOptions& options, const Golden& golden, DType dtype) {
  SessionHooks hooks = hooks_of(options);
  hooks.fill = [&](std::int64_t step, int, const BatchOptions&, const PassBuffers& out) {
    return golden.fill(step, out);
  };
  SingleRank single(options);
  Session session(golden.config(options, dtype), single.ranks(), hooks);
  train_steps(session, 0, session.config().run.steps);
  const TrainingResult result = result_of(session);
  const std::array<Series, 2> all{
      {{"loss", result.losses, golden.values("loss"), golden.allowed("loss", dtype)},
       {"gradient norm", result.norms, golden.values("grad_norm"),
        golden.allowed("grad_norm", dtype)}}};
  Finding finding{.name = fmt::format("golden model in {}", name_of(dtype))};
  for (const Series& series : all) {
    double worst = 0;
    for (std::size_t step = 0; step < series.want.size(); ++step) {
      const double error = relative_error(series.got.at(step), series.want[step]);
      worst = std::max(worst, error);
      if (error <= series.allowed) continue;
      finding.verdict = Verdict::kBad;
      finding.found = fmt::format(
          "{} of step {} is {:.9g}, PyTorch's is {:.9g}; off by {:.1e}, "
          "allowed {:.1e}",
          series.name, step, series.got[step], series.want[step], error, series.allowed);
      finding.remedy = remedy_of_wrong_numbers(
          options.backend,
          "see whether an operator is wrong, too; if none is, what puts them together is");
      return finding;
    }
    finding.found += fmt::format("{}{} of {} steps within {:.1e} of PyTorch's, allowed {:.1e}",
                                 finding.found.empty() ? "" : "; ", series.name, series.want.size(),
                                 worst, series.allowed);
  }
  return finding;
}

}  // namespace

std::vector<Finding> check_golden(const SelfTestOptions& options) {
  const Golden golden(write_golden_files(options.scratch));
  std::vector<DType> dtypes{DType::kF32, DType::kBF16};
  if (options.backend == BackendKind::kCpu) dtypes.insert(dtypes.begin(), DType::kF64);
  std::vector<Finding> findings;
  findings.reserve(dtypes.size());
  for (const DType dtype : dtypes) findings.push_back(check_dtype(options, golden, dtype));
  return findings;
}

}  // namespace strata
