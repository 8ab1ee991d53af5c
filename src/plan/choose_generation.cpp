// Chooses how many sequences are generated at once, by predicted time where it is known. More
// sequences at once read weights less often for each token, until their keys and values take the
// memory that weights need, or the time. The best number is looked for upwards.

#include "strata/plan/choose_generation.h"
#include "strata/device/out_of_addresses.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/dtype.h"
#include "strata/base/error.h"
#include "strata/base/log.h"
#include "strata/base/text.h"
#include "strata/model/families.h"

namespace strata {

namespace {

constexpr std::int64_t kUsualSequences = 16;
constexpr std::int64_t kMostSequences = 512;

/// Where keys and values are, who attends to them, and how long sweeps are.
struct Way {
  bool keys_on_device = false;
  bool host_attention = false;
  /// With it: the share of the layers whose keys are fetched nevertheless, so that the link carries
  /// some while the host reads others.
  double fetched = 0;
  /// Sweeps have room for so many times the usual tokens, and cells too if that is less. More of
  /// them pay where prompts wait for weights, fewer leave memory for more sequences.
  double sweeps = 1;
  bool whole = false;  ///< all of a sweep goes through a layer at once: products of more rows
};

GenerationSetup setup_of(const LlamaConfig& model, const GenerationWish& wish,
                         std::int64_t sequences, const std::optional<Way>& way,
                         const Budget& budget) {
  GenerationNeeds needs = wish.needs;
  needs.sequences = sequences;
  if (way) {
    needs.host_attention = way->host_attention;
    needs.fetched_layers =
        static_cast<int>(way->fetched * static_cast<double>(model.num_hidden_layers));
    const auto times = [&](std::int64_t tokens) {
      return static_cast<std::int64_t>(way->sweeps * static_cast<double>(tokens));
    };
    if (way->sweeps != 1) needs.sweep_tokens = times(usual_sweep_tokens(budget.device_is_host));
    if (way->sweeps < 1) needs.cell_tokens = times(usual_cell_tokens(budget.device_is_host));
    if (way->whole) needs.cell_tokens = times(usual_sweep_tokens(budget.device_is_host));
    needs.kv_slots = way->keys_on_device         ? 0
                     : !needs.host_attention     ? kKvSlots
                     : needs.fetched_layers == 0 ? kKvSlotsOfPrompts
                                                 : kKvSlotsOfSomeLayers;
  }
  return make_generation_setup(model, needs, budget);
}

/// Returns whether products of so many tokens are small enough. A backend that looks for algorithms
/// of batch-invariant products does so in some GiB of the device (InvariantProducts), and what does
/// not fit there runs on a kernel for few rows.
bool may_be_whole(const LlamaConfig& model, std::int64_t tokens) {
  constexpr std::size_t kMostBytes = kGiB;  // of the largest result; weights take as much at most
  const std::int64_t widest = spec_of(model).common().linear(LinearId::kGateUp).out;
  return widest * tokens * static_cast<std::int64_t>(size_of(DType::kBF16)) <=
         static_cast<std::int64_t>(kMostBytes);
}

/// Returns the setup with the usual number of sequences, or the largest below that fits.
GenerationSetup by_rule(const LlamaConfig& model, const GenerationWish& wish,
                        const Budget& budget) {
  std::int64_t sequences = wish.sequences.value_or(std::min(kUsualSequences, wish.load.sequences));
  while (true) {
    try {
      return setup_of(model, wish, sequences, {}, budget);
    } catch (const OutOfMemory&) {
      if (wish.sequences || sequences == 1) throw;
      sequences /= 2;
    }
  }
}

/// Returns numbers of sequences that are tried: what is wished, or powers of two, what lies halfway
/// between them, and those of the load.
std::vector<std::int64_t> tried_sequences(const GenerationWish& wish) {
  if (wish.sequences) return {*wish.sequences};
  const std::int64_t most = std::min(wish.load.sequences, kMostSequences);
  std::vector<std::int64_t> tried;
  for (std::int64_t n = 1; n < most; n *= 2) {
    tried.push_back(n);
    if (n > 1 && n + n / 2 < most) tried.push_back(n + n / 2);
  }
  tried.push_back(most);
  return tried;
}

/// Looks for the best setup, upwards by the number of sequences.
class GenerationSearch {
 public:
  GenerationSearch(const LlamaConfig& model, const GenerationWish& wish, const Budget& budget,
                   const RatedDevice& device)
      : model_(model), wish_(wish), budget_(budget), device_(device) {}

  void run() {
    const std::vector<std::int64_t> tried = tried_sequences(wish_);
    try_ways(tried);
    if (finalists_.empty()) return;
    balance();
    try_more(tried, best(), best().way);
    const bool said = wish_.needs.sweep_tokens || wish_.needs.cell_tokens;
    if (said || budget_.device_is_host) return;
    const bool on_device = best().way.keys_on_device;
    vary_sweeps(tried, best().way);
    // Shorter sweeps may leave room for weights that keys and values took.
    if (!on_device && best_on_device_) vary_sweeps(tried, best_on_device_->way);
  }

  /// Returns the best of those that came out best, of which those that may be it are predicted with
  /// care.
  [[nodiscard]] GenerationChoice winner() {
    GenerationChoice winner;
    double most = 0;
    for (const Finalist& f : finalists_) {
      if (f.score < kClearlySlower * kClearlySlower * finalists_.front().score) break;
      const GenerationPrediction p = predict_generation(f.setup, wish_.load, device_);
      records_ += p.records;
      const double score = p.tokens_per_s / worth_of(f.way);
      if (!(score > most)) continue;
      most = score;
      winner = {f.setup, p, {}};
    }
    winner.records = records_;
    return winner;
  }

 private:
  /// Twice as many sequences have to bring at least this for still more to be tried.
  static constexpr double kWorthMore = 1.05;
  static constexpr double kClearlySlower = 0.95;  ///< a prediction with little effort errs by less
  static constexpr std::size_t kFewer = 2;        ///< numbers below those that do not fit
  static constexpr std::size_t kFinalists = 8;

  /// Returns so many times as fast as others a way has to be: the usual sweeps were measured most,
  /// and after longer ones first tokens come later.
  [[nodiscard]] static double worth_of(const Way& way) { return way.sweeps == 1 ? 1 : 1.01; }

  /// A setup that came out well by a prediction with little effort.
  struct Finalist {
    GenerationSetup setup;
    Way way;
    double score = 0;  ///< tokens per second, divided by what the way has to be worth
  };

  /// Returns the best by little effort, of which there is one.
  [[nodiscard]] const Finalist& best() const { return finalists_.front(); }
  /// Returns the best of the ways that are to be compared with this one.
  [[nodiscard]] const Finalist& best_like(const Way& way) const {
    return way.keys_on_device ? *best_on_device_ : best();
  }

  /// Tries keys and values on the device, and on the host with more sequences than fit there.
  /// Fetched, with no more of them, as many bytes of weights travel in their place; attended to on
  /// the host they leave room for weights, whatever the number. The link fetches while the host
  /// attends, and a layer waits for the slower of them: where more that is fetched is clearly
  /// slower, still more is slower yet.
  void try_ways(const std::vector<std::int64_t>& tried) {
    std::size_t fit = 0;  // so many of the numbers
    while (fit < tried.size() && attempt(tried[fit], {.keys_on_device = true})) ++fit;
    if (budget_.device_is_host) return;
    const auto attended = std::span(tried).subspan(fit - std::min(fit, kFewer));
    double most = 0;  // of those that fetch, which takes more slots
    for (const double fetched : {0.0, 0.125, 0.25, 0.375, 0.5}) {
      const double rate = upwards(attended, {.host_attention = true, .fetched = fetched});
      if (rate > 0 && rate < kClearlySlower * most) return;
      if (fetched > 0) most = std::max(most, rate);
    }
    upwards(std::span(tried).subspan(fit), {});
  }

  /// Tries shares of fetched layers between those that were tried, where link and host both attend.
  void balance() {
    if (!best().way.host_attention) return;
    for (const double step : {0.0625, 0.03125}) {
      const Way middle = best().way;
      for (const double sign : {-1.0, 1.0}) {
        Way way = middle;
        way.fetched += sign * step;
        if (way.fetched > 0) attempt(best().setup.sequences, way);
      }
    }
  }

  /// Tries sweeps of other lengths on a way.
  void vary_sweeps(const std::vector<std::int64_t>& tried, Way way) {
    for (const double sweeps : {1.0, 2.0, 4.0, 0.5, 0.25}) {
      way.sweeps = sweeps;
      for (const bool whole : {false, true}) {
        if (sweeps == 1 && !whole) continue;  // that is known
        const double tokens = sweeps * static_cast<double>(usual_sweep_tokens(false));
        if (whole && !may_be_whole(model_, static_cast<std::int64_t>(tokens))) continue;
        way.whole = whole;
        attempt(best_like(way).setup.sequences, way);
        if (sweeps < 1) try_more(tried, best_like(way), way);
      }
    }
  }

  /// Tries the most sequences, up to the next number, that leave as many weights on the device as
  /// `like` has.
  void try_more(const std::vector<std::int64_t>& tried, const Finalist& like, const Way& way) {
    const std::int64_t before = like.setup.sequences;
    const int travelling = like.setup.travelling_units();
    const auto next = std::ranges::upper_bound(tried, before);
    if (next == tried.end()) return;
    std::int64_t most = before;
    std::int64_t too_many = *next;
    while (too_many - most > 1) {
      const std::int64_t middle = most + (too_many - most) / 2;
      (travelling_units(middle, way) <= travelling ? most : too_many) = middle;
    }
    if (most > before) attempt(most, way);
  }
  /// Returns how many units travel, or more than there are if so many sequences do not fit.
  [[nodiscard]] int travelling_units(std::int64_t sequences, const Way& way) const {
    try {
      return setup_of(model_, wish_, sequences, way, budget_).travelling_units();
    } catch (const OutOfMemory&) {
      return std::numeric_limits<int>::max();
    }
  }

  /// Tries numbers of sequences as long as more of them are worth it, and the last, which may be
  /// all of the load and then leaves none for a last round of a few. Returns the most predicted
  /// tokens per second.
  double upwards(std::span<const std::int64_t> tried, const Way& way) {
    std::map<std::int64_t, double> rates;
    double most = 0;
    for (const std::int64_t sequences : tried) {
      const std::optional<double> rate = attempt(sequences, way);
      if (!rate) break;  // nor will more of them fit
      most = std::max(most, *rate);
      const auto half = rates.upper_bound(sequences / 2);
      if (half != rates.begin() && *rate < kWorthMore * std::prev(half)->second) {
        if (sequences == tried.back()) break;
        most = std::max(most, attempt(tried.back(), way).value_or(0));
        break;
      }
      rates[sequences] = *rate;
    }
    return most;
  }

  /// Returns the predicted tokens per second, or nothing if so many do not fit.
  std::optional<double> attempt(std::int64_t sequences, const Way& way) {
    constexpr PredictionEffort kLittle{.steps_per_doubling = 1, .batches = 3};
    try {
      const GenerationSetup setup = setup_of(model_, wish_, sequences, way, budget_);
      const GenerationPrediction p = predict_generation(setup, wish_.load, device_, kLittle);
      records_ += p.records;
      if (p.tokens_per_s > 0) add_finalist({setup, way, p.tokens_per_s / worth_of(way)});
      return p.tokens_per_s;
    } catch (const OutOfMemory&) {
      return std::nullopt;
    } catch (const OutOfAddresses&) {  // to predict with; what needs none is chosen then
      return std::nullopt;
    }
  }

  void add_finalist(Finalist f) {
    if (f.way.keys_on_device && (!best_on_device_ || f.score > best_on_device_->score)) {
      best_on_device_ = f;
    }
    const auto behind = std::ranges::find_if(
        finalists_, [&](const Finalist& other) { return other.score < f.score; });
    finalists_.insert(behind, std::move(f));
    if (finalists_.size() > kFinalists) finalists_.pop_back();
  }

  const LlamaConfig& model_;
  const GenerationWish& wish_;
  const Budget& budget_;
  const RatedDevice& device_;
  std::vector<Finalist>
      finalists_;  ///< by descending score; of equal ones the first that was tried
  std::optional<Finalist> best_on_device_;  ///< of those whose keys and values are there
  std::size_t records_ = 0;                 ///< of all predictions
};

std::string text_of(const GenerationChoice& best, const GenerationChoice& usual) {
  const auto described = [](const GenerationChoice& c) {
    return fmt::format("{} sequences at once, keys and values on the {}{}: {} tokens/s predicted",
                       format_count(c.setup.sequences), c.setup.kv.slots == 0 ? "device" : "host",
                       c.setup.who_attends(),
                       format_count(std::llround(c.prediction.tokens_per_s)));
  };
  return described(best) + "; by rule " + described(usual);
}

}  // namespace

GenerationChoice choose_generation(const LlamaConfig& model, const GenerationWish& wish,
                                   const Budget& budget, const RatedDevice& device) {
  GenerationChoice usual{by_rule(model, wish, budget), {}, {}};
  if (wish.needs.scores) return usual;  // what is drawn is predicted
  usual.prediction = predict_generation(usual.setup, wish.load, device);
  if (!usual.prediction.unknown.empty()) return usual;
  if (wish.needs.kv_slots) return usual;
  GenerationSearch search(model, wish, budget, device);
  search.run();
  GenerationChoice best = search.winner();
  best.records += usual.prediction.records;
  usual.records = best.records;
  if (!(best.prediction.tokens_per_s > usual.prediction.tokens_per_s)) return usual;
  best.text = text_of(best, usual);
  return best;
}

}  // namespace strata
