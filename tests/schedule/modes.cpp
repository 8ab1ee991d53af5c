// Writes the table down: the rows of trace_table as nested loops, whose names and order are those
// of its output, and the others as combinations of assignments to keys of the config.

#include "modes.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "strata/base/fields.h"
#include "strata/device/execution.h"

namespace strata::test {

RunConfig recycling_config() {
  RunConfig config = tiny_config();
  config.schedule.sub_batches = 3;
  config.schedule.activation_slots = 4;
  config.schedule.weight_slots = 2;
  config.schedule.gradient_slots = 2;
  config.model.llama.num_hidden_layers = 5;
  return config;
}

namespace {

/// Where the state of blocks lives, and who updates it.
struct Placement {
  std::string_view name;
  std::int64_t resident;
  double interleave;
};
constexpr Placement kPlacements[] = {
    {"host", 0, 0},           {"resident2", 2, 0},
    {"resident_all", 7, 0},   {"interleave_half", 0, 0.5},
    {"interleave_all", 0, 1}, {"resident2_interleave_half", 2, 0.5}};

/// When blocks are updated; a ring of gradients where the timing allows one.
struct Timing {
  std::string_view name;
  UpdateTiming timing;
  std::int64_t deferred;
  std::int64_t ring;  ///< 0: none
};
constexpr Timing kTimings[] = {{"before_use", UpdateTiming::kBeforeUse, 0, 0},
                               {"on_arrival", UpdateTiming::kOnArrival, 2, 0},
                               {"on_arrival_all", UpdateTiming::kOnArrival, 0, 0},
                               {"on_arrival_ring", UpdateTiming::kOnArrival, 2, 4},
                               {"speculative", UpdateTiming::kSpeculative, 2, 0}};

/// Ways to write a part of a config: each is assignments "key=value" with spaces between them.
using Choices = std::vector<std::string>;

/// Sets a device limit with which cells keep more or less: a share of what "full" takes beside
/// everything else.
void keep_share(RunConfig& config, double share) {
  const auto bytes = [&](KeepLevel level) {
    config.schedule.activations = level;
    return make_setup(config, 0, 1, {}).device_bytes();
  };
  const std::size_t least = bytes(KeepLevel::kRecompute);
  const auto kept = share * static_cast<double>(bytes(KeepLevel::kFull) - least);
  config.schedule.activations = std::nullopt;
  config.memory.device_limit = ByteSize{least + static_cast<std::size_t>(kept)};
}

}  // namespace

Mode mode_of(const RunConfig& base, const std::string& assignments) {
  Mode mode{.name = assignments, .config = base};
  std::istringstream words(assignments);
  std::vector<std::string> keys;
  std::optional<double> share;
  for (std::string word; words >> word;) {
    if (word.starts_with("ranks=")) {
      mode.ranks = std::stoi(word.substr(6));
    } else if (word.starts_with("share=")) {
      share = std::stod(word.substr(6));
    } else {
      keys.push_back(word);
    }
  }
  read_fields(mode.config, "{}", "a mode", keys);
  if (share) keep_share(mode.config, *share);
  mode.config.validate(mode.name);
  return mode;
}

namespace {

/// Appends a row for every combination of one choice of each list.
void add(std::vector<Mode>& modes, const RunConfig& base, const std::vector<Choices>& lists) {
  Choices rows{""};
  for (const Choices& list : lists) {
    Choices longer;
    for (const std::string& row : rows) {
      for (const std::string& choice : list) {
        longer.push_back(row.empty() || choice.empty() ? row + choice : row + " " + choice);
      }
    }
    rows = std::move(longer);
  }
  for (const std::string& row : rows) modes.push_back(mode_of(base, row));
}

/// Returns "key=value" for each value.
Choices each(const std::string& key, const std::vector<std::string>& values) {
  Choices choices;
  for (const std::string& value : values) choices.push_back(key + "=" + value);
  return choices;
}

/// Returns the choices of all lists as those of one.
Choices one_of(const std::vector<Choices>& lists) {
  Choices all;
  for (const Choices& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

const Choices kTwoDTypes{"run.dtype=f64", "run.dtype=bf16"};
const Choices kDTypes = one_of({kTwoDTypes, {"run.dtype=bf16 optimizer.moment_dtype=bf16"}});
const Choices kLevels{"recompute", "attention", "attention_out", "selective", "full"};
/// Device and host tiers, by level.
const Choices kTiers{"schedule.activations=recompute schedule.spill=attention",
                     "schedule.activations=recompute schedule.spill=full",
                     "schedule.activations=attention schedule.spill=selective",
                     "schedule.activations=selective schedule.spill=full"};
const std::string kOnArrival = "optimizer.timing=on_arrival optimizer.grad_clip=null";

}  // namespace

std::vector<Mode> state_modes() {
  std::vector<Mode> modes;
  for (const Timing& timing : kTimings) {
    for (const Placement& placement : kPlacements) {
      for (const std::int64_t passes : {1, 2}) {
        for (const GradientSums sums : {GradientSums::kHost, GradientSums::kDevice}) {
          for (const int ranks : {1, 2}) {
            for (const bool tied : {false, true}) {
              const bool one_sum = passes == 1 && !tied;
              if (one_sum && sums == GradientSums::kDevice) continue;
              if (timing.ring > 0 && passes > 1 && sums == GradientSums::kHost) continue;
              RunConfig c = recycling_config();
              const DType dtype = tied ? DType::kF64 : DType::kBF16;
              c.run.dtype = dtype;
              c.optimizer.gradient_dtype = tied ? DType::kF32 : DType::kBF16;
              c.optimizer.timing = timing.timing;
              c.optimizer.deferred_units = timing.deferred;
              if (timing.ring > 0) c.optimizer.gradient_ring = timing.ring;
              if (timing.timing == UpdateTiming::kOnArrival) c.optimizer.grad_clip = std::nullopt;
              c.optimizer.interleave = placement.interleave;
              c.schedule.resident_units = tied && placement.resident == 7 ? 6 : placement.resident;
              c.schedule.passes = passes;
              c.schedule.gradient_sums = sums;
              c.model.llama.tie_word_embeddings = tied;
              std::string name = std::string(timing.name) + "." + std::string(placement.name) +
                                 ".passes" + std::to_string(passes) + "." +
                                 std::string(enum_name(kGradientSumsNames, sums)) + ".ranks" +
                                 std::to_string(ranks) + (tied ? ".tied.f64" : ".bf16");
              modes.push_back({std::move(name), std::move(c), ranks});
            }
          }
        }
      }
    }
  }
  for (const bool int8 : {false, true}) {
    for (const std::int64_t slots : {2, 100}) {
      RunConfig c = recycling_config();
      c.schedule.activations = KeepLevel::kAttention;
      c.schedule.spill = KeepLevel::kFull;
      c.schedule.spill_slots = slots;
      if (int8) c.schedule.spill_dtype = BoundaryForm::kInt8;
      c.debug.poison_slots = slots == 2;
      modes.push_back({"spill" + std::to_string(slots) + (int8 ? ".int8" : ""), std::move(c), 1});
    }
  }
  RunConfig moments = recycling_config();
  moments.run.dtype = DType::kBF16;
  moments.optimizer.gradient_dtype = DType::kBF16;
  moments.optimizer.moment_dtype = DType::kBF16;
  moments.optimizer.interleave = 0.5;
  moments.optimizer.timing = UpdateTiming::kSpeculative;
  moments.optimizer.undo_log = ByteSize{40000};
  modes.push_back({"bf16_moments.small_undo_log", moments, 3});
  moments.optimizer.moment_dtype = DType::kU8;
  modes.push_back({"8bit_moments.small_undo_log", moments, 3});
  moments.schedule.resident_units = 2;
  moments.optimizer.timing = UpdateTiming::kOnArrival;
  moments.optimizer.undo_log.reset();
  moments.optimizer.grad_clip.reset();
  moments.optimizer.deferred_units = 2;
  moments.optimizer.gradient_ring = 4;
  modes.push_back({"8bit_moments.resident2_interleave_half", std::move(moments), 2});
  return modes;
}

std::vector<Mode> cell_modes() {
  std::vector<Mode> modes;
  const RunConfig base = tiny_config();
  add(modes, base,
      {kDTypes, one_of({each("schedule.activation_slots", {"2", "3", "4", "5", "8", "13"}),
                        each("schedule.weight_slots", {"1", "2", "3"}),
                        each("schedule.gradient_slots", {"1", "3"}),
                        each("debug.execution", {"eager", "threads"}),
                        {"debug.synchronize_each=true", "run.threads=1"}})});
  const Choices kept = one_of({each("schedule.activations", kLevels),
                               each("schedule.activations=auto share", {"0.15", "0.6"})});
  add(modes, base,
      {{"run.steps=2 schedule.passes=2"},
       kTwoDTypes,
       each("schedule.sub_batches", {"1", "2", "3"}),
       kept});
  add(modes, base, {{"run.dtype=bf16 schedule.activation_slots=3 data.document_mask=true"}, kept});
  add(modes, base,
      {{"run.steps=2 schedule.passes=2"},
       {"run.dtype=f64 schedule.spill_slots=2", "run.dtype=bf16 schedule.spill_slots=1",
        "run.dtype=bf16 schedule.spill_slots=3"},
       each("schedule.sub_batches", {"1", "3"}),
       kTiers});
  add(modes, base,
      {{"run.steps=2 run.dtype=bf16 schedule.activation_slots=3 data.document_mask=true"},
       each("debug.execution=shuffled debug.shuffle_seed", {"1", "2", "3"}),
       each("schedule.spill_slots", {"1", "2", "100"}),
       kTiers});
  const std::string all_stores =
      " schedule.spill=attention_out schedule.activation_slots=3 schedule.passes=2"
      " optimizer.interleave=0.5";
  add(modes, base,
      {{"run.dtype=bf16 schedule.spill=selective", "run.dtype=f64" + all_stores,
        "run.dtype=bf16 schedule.resident_units=3" + all_stores, "run.dtype=f64",
        "run.dtype=bf16 schedule.resident_units=3"},
       each("schedule.activations=auto share", {"0.3"})});
  add(modes, base,
      {{"schedule.spill_dtype=int8"},
       kTwoDTypes,
       one_of({each("schedule.activations=recompute schedule.activation_slots",
                    {"7", "8", "13", "24"}),
               each("schedule.spill=full schedule.activations", kLevels),
               each("schedule.activations", {"recompute", "full"})})});
  RunConfig tight = recycling_config();
  tight.schedule.passes = 2;
  add(modes, tight,
      {{"schedule.activations=attention schedule.spill=full"},
       each("schedule.spill_dtype", {"exact", "int8"}),
       each("schedule.spill_slots", {"1", "3"})});
  add(modes, base,
      {kTwoDTypes,
       {"schedule.rows=6 schedule.sub_batches=1", "schedule.rows=3 schedule.sub_batches=2",
        "schedule.rows=2 schedule.sub_batches=3", "schedule.rows=1 schedule.sub_batches=8"}});
  add(modes, base,
      {{"model.num_hidden_layers=1 schedule.sub_batches=1"},
       {"", "schedule.activations=recompute schedule.spill=full",
        "schedule.activations=recompute schedule.spill=full schedule.spill_dtype=int8"}});
  return modes;
}

std::vector<Mode> update_modes() {
  std::vector<Mode> modes;
  const RunConfig base = tiny_config();
  const Choices ranks = each("ranks", {"1", "2"});
  add(modes, base, {kDTypes, {kOnArrival}, each("optimizer.deferred_units", {"0", "1", "2", "5"})});
  // Dtypes and kinds of embeddings that the rows of trace_table do not have.
  RunConfig short_run = base;
  short_run.run.steps = 2;
  short_run.schedule.sub_batches = 2;
  const std::string tied = " model.tie_word_embeddings=true";
  add(modes, short_run,
      {{"run.dtype=f64", "run.dtype=f32 optimizer.gradient_dtype=bf16" + tied,
        "run.dtype=bf16 optimizer.gradient_dtype=bf16 optimizer.moment_dtype=bf16" + tied},
       {"optimizer.timing=before_use", kOnArrival + " optimizer.deferred_units=2"},
       each("schedule.passes", {"1", "2"}),
       ranks,
       {"schedule.resident_units=1", "schedule.gradient_sums=device schedule.resident_units=3",
        "schedule.gradient_sums=device schedule.resident_units=5",
        "schedule.gradient_sums=device optimizer.interleave=0.7 schedule.resident_units=2",
        "optimizer.interleave=1 schedule.weight_slots=1"}});
  add(modes, short_run,
      {{"run.dtype=f32" + tied},
       {"optimizer.timing=before_use", kOnArrival + " optimizer.deferred_units=0"},
       ranks});
  // Rings of gradients with more or fewer slots and deferred units.
  RunConfig rings = short_run;
  rings.model.llama.num_hidden_layers = 5;
  const Choices dtypes{"run.dtype=f64", "run.dtype=bf16 optimizer.gradient_dtype=bf16",
                       "run.dtype=bf16 optimizer.gradient_dtype=bf16 optimizer.moment_dtype=bf16",
                       "run.dtype=f32 optimizer.gradient_dtype=bf16 optimizer.moment_dtype=8bit"};
  const std::string ring = "optimizer.gradient_ring=";
  const Choices sizes{ring + "2", ring + "3", ring + "4", ring + "100"};
  add(modes, rings, {{kOnArrival}, dtypes, ranks, sizes, {"", "optimizer.deferred_units=0"}});
  add(modes, rings,
      {{kOnArrival},
       one_of(
           {dtypes, {"run.dtype=f32 optimizer.gradient_dtype=bf16 optimizer.moment_dtype=bf16"}}),
       ranks,
       {ring + "3 optimizer.deferred_units=1", ring + "4 optimizer.deferred_units=2",
        ring + "100 optimizer.deferred_units=1", ring + "100 optimizer.deferred_units=7",
        ring + "2 schedule.gradient_slots=1", ring + "2 schedule.resident_units=4",
        ring + "2 schedule.resident_units=7"}});
  add(modes, rings,
      {{kOnArrival + " schedule.passes=2 schedule.gradient_sums=device"},
       dtypes,
       ranks,
       {ring + "2", ring + "3 optimizer.deferred_units=1", ring + "2 schedule.resident_units=4",
        ring + "2 schedule.resident_units=7"}});
  const std::string speculative = "optimizer.timing=speculative optimizer.undo_log=40000";
  add(modes, rings,
      {{"run.dtype=bf16 optimizer.moment_dtype=bf16 optimizer.kind=lion",
        "run.dtype=f64 optimizer.kind=sgd optimizer.nesterov=true",
        "run.dtype=bf16 optimizer.master=none",
        "run.dtype=bf16 optimizer.master=none optimizer.moment_dtype=8bit",
        "run.dtype=bf16 optimizer.master=none optimizer.moment_dtype=bf16 optimizer.kind=sgd",
        R"(run.dtype=bf16 optimizer.lr_factors=["*.k_proj.weight=3","*.layers.1.*=0.5"])"},
       {"optimizer.timing=before_use", kOnArrival + " optimizer.deferred_units=2", speculative},
       ranks,
       {"", "optimizer.interleave=0.5 schedule.resident_units=2"}});
  add(modes, rings,
      {{"optimizer.kind=muon"},
       {"run.dtype=f64", "run.dtype=f32" + tied, "run.dtype=bf16 optimizer.moment_dtype=bf16",
        "run.dtype=bf16 optimizer.master=none"},
       each("ranks", {"1", "2", "3"}),
       {"", "schedule.passes=2", "schedule.passes=2 schedule.gradient_sums=device",
        "schedule.weight_slots=1"}});
  return modes;
}

std::vector<Mode> speculative_modes() {
  std::vector<Mode> modes;
  const std::string small_moments = "run.dtype=bf16 optimizer.moment_dtype=bf16";
  for (const double clip : {kClipsAll, kClipsSome, kClipsNone}) {
    RunConfig base = tiny_config();
    base.run.steps = 4;
    base.model.llama.num_hidden_layers = 2;
    base.schedule.sub_batches = 2;
    base.optimizer.timing = UpdateTiming::kSpeculative;
    base.optimizer.grad_clip = clip;
    add(modes, base,
        {each("optimizer.deferred_units", {"0", "2"}),
         {"run.dtype=f64", "run.dtype=bf16",
          small_moments + " model.tie_word_embeddings=true ranks=2",
          small_moments + " schedule.passes=2 schedule.gradient_sums=device",
          "run.dtype=bf16 optimizer.moment_dtype=8bit optimizer.interleave=0.5",
          "model.tie_word_embeddings=true schedule.passes=2",
          "run.dtype=bf16 schedule.resident_units=2", "run.dtype=bf16 optimizer.interleave=0.5"}});
  }
  return modes;
}

Mode plain_mode(const Mode& mode) {
  const RunConfig& c = mode.config;
  Mode plain{.name = "plain run of " + mode.name, .config = tiny_config(), .ranks = mode.ranks};
  RunConfig& p = plain.config;
  p.run.steps = c.run.steps;
  p.run.dtype = c.run.dtype;
  p.run.products = c.run.products;
  p.run.products_bf16 = c.run.products_bf16;
  p.model = c.model;
  p.adapter = c.adapter;
  p.data = c.data;
  // Sub-batches of several ranks take turns in the rows: their number says who gets which.
  const bool joins = mode.ranks == 1 && c.run.products != Products::kFp8All;
  p.schedule.sub_batches = joins ? 1 : c.schedule.sub_batches;
  p.schedule.rows = c.schedule.rows * c.schedule.sub_batches / p.schedule.sub_batches;
  p.schedule.passes = c.schedule.passes;
  p.schedule.activations = KeepLevel::kRecompute;
  p.schedule.spill = KeepLevel::kRecompute;
  p.schedule.spill_dtype = c.schedule.spill_dtype;
  if (c.schedule.spill_dtype == BoundaryForm::kInt8) {
    p.schedule.activations = std::max(c.schedule.activations, c.schedule.spill);
  }
  p.optimizer.kind = c.optimizer.kind;
  p.optimizer.momentum = c.optimizer.momentum;
  p.optimizer.nesterov = c.optimizer.nesterov;
  p.optimizer.master = c.optimizer.master;
  p.optimizer.lr_factors = c.optimizer.lr_factors;
  p.optimizer.gradient_dtype = c.optimizer.gradient_dtype;
  p.optimizer.moment_dtype = c.optimizer.moment_dtype;
  p.optimizer.grad_clip = c.optimizer.grad_clip;
  p.optimizer.interleave = 0;
  // One thread for all lanes would wait for other ranks in two places.
  p.debug.execution = mode.ranks == 1 ? Execution::kEager : Execution::kThreads;
  return plain;
}

}  // namespace strata::test
