// Lists the candidates of a space. Candidates are all combinations of a few lists. What the rules
// of the config refuse is left out by asking them, so that no rule is written down twice.

#include "strata/plan/tune_space.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>

#include "strata/base/error.h"
#include "strata/ops/moment_codes.h"

namespace strata {

namespace {

/// With so many tokens products fill every GPU of the table, and more of them only take memory.
constexpr double kUsualCellTokens = 8192;
/// More than this in a sub-batch is not tried.
constexpr std::int64_t kMostCellTokens = 65536;

/// Returns divisors of `number`, ascending from 1, each at least twice the one before it.
std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= number / d; ++d) {
    if (number % d == 0) all.insert(all.end(), {d, number / d});
  }
  std::ranges::sort(all);
  std::vector<std::int64_t> found;
  for (const std::int64_t d : all) {
    if (found.empty() || d >= 2 * found.back()) found.push_back(d);
  }
  return found;
}

/// Returns the ways to cut a step, with everything else as in the base.
std::vector<TuneKeys> shapes(const RunConfig& base, const TuneSpace& space) {
  const TuneKeys given = TuneKeys::of(base);
  using List = std::vector<std::int64_t>;
  std::vector<TuneKeys> found;
  for (const std::int64_t passes : space.passes ? divisors(space.step_rows) : List{given.passes}) {
    if (space.step_rows % passes != 0) continue;
    const std::int64_t pass_rows = space.step_rows / passes;
    for (const std::int64_t rows : space.rows ? divisors(pass_rows) : List{given.rows}) {
      const bool large = rows > 1 && rows * base.data.sequence_length > kMostCellTokens;
      if (pass_rows % rows != 0 || (space.rows && large)) continue;
      TuneKeys keys = given;
      keys.rows = rows;
      keys.sub_batches = pass_rows / rows;
      keys.passes = passes;
      if (space.sub_batches || keys.sub_batches == given.sub_batches) found.push_back(keys);
    }
  }
  return found;
}

/// Returns the lengths of rings that are worth a try: room for what waits by rule, and the least.
std::vector<std::optional<std::int64_t>> rings(const RunConfig& base, const TuneSpace& space,
                                               UpdateTiming timing) {
  if (!space.gradient_ring) return {base.optimizer.gradient_ring};
  std::vector<std::optional<std::int64_t>> found{std::nullopt};
  if (timing != UpdateTiming::kOnArrival) return found;
  const std::int64_t layers = base.model.llama.num_hidden_layers;
  constexpr std::int64_t kLeast = 3;
  const std::int64_t by_rule = (layers + 2) / 3 + 2;
  for (const std::int64_t ring : {by_rule, kLeast}) {
    if (ring < layers && found.back() != ring) found.emplace_back(ring);
  }
  return found;
}

bool is_valid(const RunConfig& config) {
  try {
    config.validate("a candidate");
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

// What a run in bf16 may have, the widest first.
constexpr DType kMoments[] = {DType::kF32, DType::kBF16, kMomentCode};
constexpr MasterWeights kMasters[] = {MasterWeights::kSplit, MasterWeights::kNone};
constexpr Products kProducts[] = {Products::kPlain, Products::kFp8, Products::kFp8All};
constexpr Form kBases[] = {Form::kPlain, Form::kInt8, Form::kFp8, Form::kNf4};

/// Returns all values if they are searched, else the one that is given.
template <class T, std::size_t N>
std::vector<T> values(bool searched, const T (&all)[N], T given) {
  return searched ? std::vector<T>(std::begin(all), std::end(all)) : std::vector<T>{given};
}

/// Returns the ways to store and multiply.
std::vector<TuneNumbers> numbers(const RunConfig& base, const TuneSpace& space) {
  const TuneNumbers given = TuneKeys::of(base).numbers;
  const bool bases = space.base_format && base.adapter.has_value();
  std::vector<TuneNumbers> found;
  for (const DType moment : values(space.moment_dtype, kMoments, given.moment_dtype)) {
    for (const MasterWeights master : values(space.master, kMasters, given.master)) {
      for (const Products products : values(space.products, kProducts, given.products)) {
        for (const Form format : values(bases, kBases, given.base_format)) {
          found.push_back({moment, master, products, format});
        }
      }
    }
  }
  return found;
}

/// Returns what candidates of equal speed are put in order by; less is better.
auto reluctance(const TuneKeys& keys, std::int64_t sequence_length) {
  const auto cell_tokens = static_cast<double>(keys.rows * sequence_length);
  const TuneNumbers& n = keys.numbers;
  return std::tuple(std::ranges::find(kMoments, n.moment_dtype), n.master, n.products,
                    std::ranges::find(kBases, n.base_format), keys.gradient_ring.has_value(),
                    keys.timing != UpdateTiming::kBeforeUse, keys.passes,
                    std::abs(std::log2(cell_tokens / kUsualCellTokens)));
}

}  // namespace

TuneKeys TuneKeys::of(const RunConfig& config) {
  return {.rows = config.schedule.rows,
          .sub_batches = config.schedule.sub_batches,
          .passes = config.schedule.passes,
          .timing = config.optimizer.timing,
          .gradient_ring = config.optimizer.gradient_ring,
          .gradient_sums = config.schedule.gradient_sums,
          .numbers = {.moment_dtype = config.optimizer.moment_dtype,
                      .master = config.optimizer.master,
                      .products = config.run.products,
                      .base_format = config.adapter ? config.adapter->base_format : Form::kPlain}};
}

RunConfig TuneKeys::put_into(RunConfig config) const {
  config.schedule.rows = rows;
  config.schedule.sub_batches = sub_batches;
  config.schedule.passes = passes;
  config.schedule.gradient_sums = gradient_sums;
  config.optimizer.timing = timing;
  config.optimizer.gradient_ring = gradient_ring;
  config.optimizer.moment_dtype = numbers.moment_dtype;
  config.optimizer.master = numbers.master;
  config.run.products = numbers.products;
  if (config.adapter) config.adapter->base_format = numbers.base_format;
  return config;
}

std::vector<DType> smaller_moments(const RunConfig& config) {
  if (config.run.dtype != DType::kBF16) return {};
  const bool codes = config.optimizer.kind == OptimizerKind::kAdamW;
  return {std::ranges::find(kMoments, config.optimizer.moment_dtype) + 1,
          std::end(kMoments) - (codes ? 0 : 1)};
}

std::vector<TuneKeys> tune_candidates(const RunConfig& base, const TuneSpace& space) {
  std::vector<UpdateTiming> timings{base.optimizer.timing};
  if (space.timing) {
    timings = {UpdateTiming::kBeforeUse, UpdateTiming::kOnArrival, UpdateTiming::kSpeculative};
  }
  const std::vector<TuneNumbers> ways = numbers(base, space);
  std::vector<TuneKeys> found;
  for (TuneKeys keys : shapes(base, space)) {
    for (const UpdateTiming timing : timings) {
      keys.timing = timing;
      for (const std::optional<std::int64_t>& ring : rings(base, space, timing)) {
        keys.gradient_ring = ring;
        const bool needs_device = ring && space.gradient_ring && keys.passes > 1 &&
                                  base.schedule.gradient_sums == GradientSums::kAuto;
        keys.gradient_sums = needs_device ? GradientSums::kDevice : base.schedule.gradient_sums;
        for (const TuneNumbers& way : ways) {
          keys.numbers = way;
          if (is_valid(keys.put_into(base))) found.push_back(keys);
        }
      }
    }
  }
  std::ranges::stable_sort(
      found, {}, [&](const TuneKeys& keys) { return reluctance(keys, base.data.sequence_length); });
  return found;
}

}  // namespace strata
