// Checks the rules of a run config that concern more than one key: keys that need or exclude each
// other, and what a backend cannot run. What a key may be by itself, the list of fields says. Every
// broken rule is reported by key and remedy, all of them at once. Those about how a step is made
// are in step_rules.cpp.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "config/product_rules.h"
#include "config/rules.h"
#include "strata/base/bytes.h"
#include "strata/base/fields.h"
#include "strata/config/config.h"
#include "strata/config/size_rules.h"
#include "strata/data/mixture.h"
#include "strata/model/families.h"
#include "strata/model/layout.h"
#include "strata/model/products.h"
#include "strata/ops/attention_kernels.h"
#include "strata/optimizer/parameter_groups.h"

namespace strata {
namespace {

void check_samples(const RunConfig& c, Rules& r) {
  const RunSection& run = c.run;
  if (run.sample_every == 0) return;
  constexpr std::size_t kMostPrompts = 1024;
  r.refuse_if(run.sample_prompts.size() > kMostPrompts, "sample_prompts",
              "are at most " + std::to_string(kMostPrompts) + "; give fewer");
  r.refuse_if(std::ranges::find(run.sample_prompts, std::string()) != run.sample_prompts.end(),
              "sample_prompts",
              "has a text without a character; leave it out (an empty list takes one sample from "
              "the beginning of a text)");
  const std::int64_t positions = c.model.llama.context_limit();
  r.refuse_if(run.sample_tokens >= positions, "sample_tokens",
              "and a prompt must be at most model.max_position_embeddings, or with longrope "
              "model.rope_scaling.original_max_position_embeddings (" +
                  std::to_string(positions) + "); lower it");
}

void check_run(const RunConfig& c, Rules r) {
  const RunSection& run = c.run;
  check_samples(c, r);
  r.refuse_if(
      run.on_nonfinite == OnBadStep::kSkip && c.optimizer.timing == UpdateTiming::kOnArrival,
      "on_nonfinite",
      "cannot be \"skip\" with optimizer.timing \"on_arrival\", which updates before it "
      "knows the norm; set it to \"stop\" or \"rollback\", or the timing to "
      "\"before_use\"");
  r.refuse_if(run.on_nonfinite == OnBadStep::kRollback && !c.checkpoint.every_steps &&
                  !c.checkpoint.every_minutes && !c.checkpoint.milestone_steps,
              "on_nonfinite",
              "\"rollback\" needs checkpoints to go back to; set checkpoint.every_steps, "
              "every_minutes or milestone_steps");
  const double watchdog_s = run.watchdog_s.value_or(0);
  r.refuse_if(watchdog_s != 0 && !(watchdog_s >= 1), "watchdog_s",
              "must be at least 1 s; null or 0 watches nothing");
  r.refuse_if(run.output.empty(), "output", "names the run folder and must not be empty");
  r.refuse_if(run.trace_step && *run.trace_step >= run.steps, "trace_step",
              "and the step after it are traced, but run.steps is " + std::to_string(run.steps));
  r.refuse_if(run.trace_step && run.eval_every == 1, "trace_step",
              "needs two steps without a validation between them; raise run.eval_every, or set it "
              "to 0");
  r.refuse_if(run.trace_step && run.sample_every == 1, "trace_step",
              "needs two steps without samples between them; raise run.sample_every, or set it to "
              "0");
  r.refuse_if(run.eval_every > 0 && c.data.validation.empty(), "eval_every",
              "needs data.validation; give a token file or set run.eval_every to 0");
  r.refuse_if(run.patience > 0 && run.eval_every == 0, "patience",
              "counts validations, and there are none; set run.eval_every, and data.validation, or "
              "this to 0");
}

void check_checkpoints(const RunConfig& c, Rules r) {
  const CheckpointSection& s = c.checkpoint;
  if (s.keep_best == 0) return;
  const std::int64_t eval_every = c.run.eval_every;
  if (eval_every < 1) {
    return r.refuse_if(true, "keep_best",
                       "goes by validation losses, and there are none; set run.eval_every, and "
                       "data.validation, or this to 0");
  }
  const auto meets = [&](const std::optional<std::int64_t>& every) {
    return every && *every > 0 && *every / std::gcd(*every, eval_every) <= c.run.steps / eval_every;
  };
  r.refuse_if(!meets(s.every_steps) && !meets(s.milestone_steps), "keep_best",
              "finds no checkpoint before the last with a validation of the same step; set "
              "checkpoint.every_steps, or milestone_steps, to run.eval_every (" +
                  std::to_string(eval_every) + ") or a multiple of it");
}

/// The library's attention is there to compare with, and takes fewer cases.
void check_cudnn(const RunConfig& c, Rules r) {
  if (c.kernels.attention != AttentionKernels::kCudnn) return;
  r.refuse_if(c.run.dtype != DType::kBF16, "attention",
              "\"cudnn\" computes in bf16 only; set run.dtype to \"bf16\" or this to \"auto\"");
  r.refuse_if(
      c.data.document_mask, "attention",
      "\"cudnn\" has no document masks; set data.document_mask to false or this to \"auto\"");
}

/// What a backend cannot run.
void check_backend(const RunConfig& c, BackendChoice backend, ConfigProblems& problems) {
  if (backend == BackendChoice::kCpu) {
    Rules(problems, "kernels")
        .refuse_if(c.kernels.attention == AttentionKernels::kCudnn, "attention",
                   "\"cudnn\" needs a GPU; set it to \"auto\"");
  }
  if (backend != BackendChoice::kCuda) return;
  Rules(problems, "run")
      .refuse_if(c.run.dtype == DType::kF64, "dtype",
                 "f64 runs on the cpu only; set run.backend to \"cpu\" or run.dtype to \"bf16\"");
  check_cudnn(c, Rules(problems, "kernels"));
  check_cuda_products(c, problems);
  constexpr std::int64_t kLargestHeadDim = 256;  // of its attention kernels
  const LlamaConfig& m = c.model.llama;
  if (m.num_attention_heads < 1) return;  // refused elsewhere
  Rules(problems, "model")
      .refuse_if(m.head_size() > kLargestHeadDim, "head_dim",
                 "is at most " + std::to_string(kLargestHeadDim) + " on the cuda backend, not " +
                     std::to_string(m.head_size()) + "; set run.backend to \"cpu\"");
}

/// Sources that are mixed have weights, of which none is next to nothing, and no file twice.
void check_sources(const FileSources& sources, Rules& r) {
  double sum = 0;
  for (const FileSource& source : sources.list) sum += source.weight.value_or(1);
  const double least = sum / static_cast<double>(Mixture::kMostSlots);
  const auto has_share = [&](const FileSource& source) {
    return source.weight.value_or(1) > 0 && source.weight.value_or(1) >= least;
  };
  r.refuse_if(!std::ranges::all_of(sources.list, has_share), "train",
              "needs weights above 0, each of at least 1/" + std::to_string(Mixture::kMostSlots) +
                  " of their sum; leave sources with less out");
  r.refuse_if(sources.list.size() > Mixture::kMostSources, "train",
              "mixes at most " + std::to_string(Mixture::kMostSources) +
                  " sources; give some of them as the files of one");
  std::vector<std::string> files = sources.files();
  std::ranges::sort(files);
  const auto twice = std::ranges::adjacent_find(files);
  r.refuse_if(twice != files.end(), "train",
              "names " + (twice != files.end() ? *twice : std::string()) +
                  " twice; give a source more weight to see it more often");
}

void check_data(const RunConfig& c, Rules r) {
  const DataSection& data = c.data;
  r.refuse_if(data.train.empty() && !data.synthetic, "train",
              "is required; name a token file (strata tokenize makes one) or set data.synthetic");
  r.refuse_if(c.run.epochs && data.synthetic, "synthetic",
              "has no end, and so run.epochs none; set run.steps instead");
  r.refuse_if(data.synthetic && !(data.train.empty() && data.validation.empty()), "synthetic",
              "excludes data.train and data.validation; set it to false or leave them out");
  check_sources(data.train, r);
  r.refuse_if(data.validation.list.size() > 1, "validation",
              "is one set without weights; give a list of paths");
  const LlamaConfig& model = c.model.llama;
  r.refuse_if(data.sequence_length > model.max_position_embeddings, "sequence_length",
              "is above model.max_position_embeddings (" +
                  std::to_string(model.max_position_embeddings) + ")");
  r.refuse_if(data.sequence_length <= model.max_position_embeddings &&
                  data.sequence_length > model.row_limit(),
              "sequence_length",
              "is above model.rope_scaling.original_max_position_embeddings (" +
                  std::to_string(model.row_limit()) +
                  "), after which model.llama_4_scaling_beta scales queries, which strata does not "
                  "compute; lower it");
  r.refuse_if(data.document_mask && data.sequence_length <= model.row_limit() &&
                  data.sequence_length > model.context_limit(),
              "document_mask",
              "cannot be true with longrope and rows of more than "
              "model.rope_scaling.original_max_position_embeddings (" +
                  std::to_string(model.context_limit()) +
                  ") tokens, since the factors would depend on the longest document of a batch; "
                  "lower data.sequence_length or set it to false");
  r.refuse_if(data.document_mask && data.dtype != TokenFormat::kAuto && !data.eos_token,
              "eos_token", "is required where data.document_mask meets a file without header");
  r.refuse_if(data.document_begins && !data.eos_token, "document_begins",
              "says where data.eos_token stands, which is not given; give it, or leave this out");
  r.refuse_if(data.packing && !data.document_mask, "packing",
              "needs documents that do not see each other; set data.document_mask to true");
  r.refuse_if(data.packing && data.synthetic, "packing",
              "needs documents, which data.synthetic has none of; set one of them to false");
  r.refuse_if(data.eos_token && *data.eos_token >= c.model.llama.vocab_size, "eos_token",
              "must be from 0 to below model.vocab_size");
}

/// Refuses sizes that only lack their unit. Checkpoints may hold them, so reading does not.
void check_sizes(const FieldList& fields, const std::string& prefix, ConfigProblems& problems) {
  for (const Field& field : fields.all()) {
    const FieldValue value = field.get();
    const auto* const size = std::get_if<ByteSize>(&value);
    const std::string problem = size == nullptr ? "" : size_problem(size->bytes);
    if (!problem.empty()) problems.add(prefix + field.key, problem);
  }
}

/// Checks the adapters of a config that has some. Their names are looked for in a model without
/// problems only.
void check_adapter(const RunConfig& c, ConfigProblems& problems) {
  Rules checkpoint(problems, "checkpoint");
  checkpoint.refuse_if(
      c.checkpoint.weights_every_steps.has_value(), "weights_every_steps",
      "saves weights of a whole model, and checkpoints of a run with adapters hold "
      "what it trains alone; leave it out");
  Rules(problems, "adapter")
      .refuse_if(
          !c.adapter->path.empty() && c.model.path.empty(), "path",
          "names adapters for the weights of a model; set model.path to its folder, or leave "
          "it out");
  if (!problems.empty()) return;
  const ModelSpec spec = spec_of(c.model.llama);
  check_adapters(*c.adapter, spec, problems);
  check_base_format(*c.adapter, spec, problems);
}

/// Looks for the tensors that lists of the optimizer name, in a model without problems only.
void check_groups(const RunConfig& c, ConfigProblems& problems) {
  const OptimizerSection& o = c.optimizer;
  if (!problems.empty() || (o.lr_factors.empty() && o.weight_decays.empty())) return;
  OptimizerOptions options;
  options.lr_factors = o.lr_factors;
  options.weight_decays = o.weight_decays;
  check_parameter_groups(make_layout(c.spec()), options, o.moment_dtype, problems);
}

/// Checks what the list of fields says of each key alone. That of the model, the model does.
void check_each(RunConfig c, ConfigProblems& problems) {
  const FieldList sections = fields_of(c);
  for (const Field& section : sections.all()) {
    if (section.key == "model") continue;
    check_limits(section.section(), section.key + '.', problems);
    check_sizes(section.section(), section.key + '.', problems);
  }
}

}  // namespace

std::string size_problem(std::size_t bytes) {
  if (bytes == 0 || bytes >= kKiB) return {};
  return "is " + std::to_string(bytes) + " bytes; write the unit, like \"24GiB\"";
}

std::int64_t RunConfig::step_rows(int ranks) const {
  const std::int64_t pass = schedule.rows * schedule.sub_batches * ranks;
  const std::int64_t room = pass * schedule.passes;
  const std::int64_t rows = schedule.step_rows.value_or(room);
  if (rows <= room) return rows;
  throw ConfigError("schedule.step_rows: " + std::to_string(rows) + " rows are more than the " +
                    std::to_string(room) + " that " + std::to_string(ranks) +
                    (ranks == 1 ? " rank takes" : " ranks take") +
                    " (rows * sub_batches * passes each); lower it, or raise schedule.passes to " +
                    std::to_string((rows + pass - 1) / pass));
}

void RunConfig::validate(std::string_view source) const {
  ConfigProblems problems;
  check_each(*this, problems);
  // Epochs are so many steps only where the data are: rules about steps wait until then.
  RunConfig counted = *this;
  if (run.epochs) counted.run.steps = static_cast<std::int64_t>(kMostCount);
  check_run(counted, Rules(problems, "run"));
  check_products(*this, problems);
  check_checkpoints(counted, Rules(problems, "checkpoint"));
  model.llama.validate(problems, "model.");
  check_backend(*this, run.backend, problems);
  check_data(*this, Rules(problems, "data"));
  check_train(*this, problems);
  check_schedule(*this, Rules(problems, "schedule"));
  check_optimizer(counted, problems);
  check_gradient_ring(*this, Rules(problems, "optimizer"));
  Rules memory_rules(problems, "memory");
  memory_rules.refuse_if(memory.spill_limit && schedule.spill, "spill_limit",
                         "belongs to schedule.spill \"auto\"; leave it out");
  if (adapter) check_adapter(*this, problems);
  check_groups(*this, problems);
  problems.throw_if_any(source);
}

ModelSpec RunConfig::spec() const {
  ModelSpec spec = spec_of(model.llama);
  if (adapter) add_adapters(spec, *adapter);
  return with_products(std::move(spec), run.products, run.products_bf16);
}

void RunConfig::validate_for(BackendChoice backend, std::string_view source) const {
  ConfigProblems problems;
  check_backend(*this, backend, problems);
  problems.throw_if_any(source);
}

}  // namespace strata
