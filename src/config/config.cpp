#include "strata/config/config.h"

#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "strata/base/error.h"
#include "strata/base/random.h"

namespace strata {

void RunSection::fields(FieldList& f) {
  f.add("seed", seed, "of initial weights, sample order and the rounding of bf16 moments");
  f.add("steps", steps, "optimizer steps of the run");
  f.choice("backend", backend, kBackendChoiceNames, "auto: cuda if a device is usable, else cpu");
  f.choice("dtype", dtype, kComputeDTypeNames, "of weights and activations in compute; f64: cpu");
  f.add("output", output, "run folder");
  f.add("trace_step", trace_step, "step, counted from 0, whose trace goes to trace.json; -1: none");
  f.add("eval_every", eval_every, "steps between validations; 0: never");
  f.add("eval_batches", eval_batches, "passes of a validation; 0: the whole validation set");
  f.add("log_every", log_every, "steps between progress lines");
  f.add("threads", threads, "CPU threads of a rank; 0: one per usable core");
  f.choice("bind", bind, kThreadBindingNames,
           "auto: each of these threads to a core of its own, if the rank has 4 or more");
  f.add("max_nonfinite_steps", max_nonfinite_steps,
        "consecutive steps with a non-finite loss or norm that are skipped before the run stops");
}

void ModelSection::fields(FieldList& f) {
  f.add("path", path, "Hugging Face directory to read architecture and weights from");
  llama.fields(f);
}

void DataSection::fields(FieldList& f) {
  f.add("train", train, "token file of the training set");
  f.add("validation", validation, "token file of the validation set; empty: none");
  f.add("sequence_length", sequence_length, "tokens of a row");
  f.choice("dtype", dtype, kTokenFormatNames, "ids of files without header; auto: has a header");
  f.add("eos_token", eos_token, "id that ends a document in files without header");
  f.add("document_mask", document_mask, "documents in a row do not see each other");
  f.add("synthetic", synthetic, "train on random tokens instead of a file");
}

void ScheduleSection::fields(FieldList& f) {
  f.add("rows", rows, "rows of a sub-batch");
  f.add("sub_batches", sub_batches, "sub-batches that pass a layer while its weights are there");
  f.add("passes", passes, "forward and backward passes of an optimizer step");
  f.add("layers_per_visit", layers_per_visit, "layers that a sub-batch passes before the next one");
  f.choice("direction", direction, kDirectionNames, "order of sub-batches from visit to visit");
  f.add("weight_slots", weight_slots, "layers whose weights are on the device at once; null: auto");
  f.add("activation_slots", activation_slots,
        "boundary activations on the device at once; null: all of them if they fit");
  f.choice("activations", activations, kKeepLevelNames,
           "what forward keeps for backward on the device, beside boundaries; auto: what fits in "
           "memory.device_limit");
  f.choice("spill", spill, kSpillNames,
           "what of it forward sends to the host and backward brings back, where the device does "
           "not keep it; auto: with activations auto, what host memory and an idle link take");
  f.choice("spill_dtype", spill_dtype, kBoundaryFormNames,
           "of boundaries in host memory; int8: a byte and a scale per row, with an error in the "
           "gradients");
  f.add("spill_slots", spill_slots, "cells on their way to the host or back, on the device");
  f.add("gradient_slots", gradient_slots, "gradient accumulators on the device");
  f.add("resident_units", resident_units,
        "first units (embedding, layers, head) whose weights and optimizer state stay on the "
        "device; null: as many as the host cannot hold, and those for which there is room");
  f.choice("gradient_sums", gradient_sums, kGradientSumsNames,
           "where the gradients of several passes are added; auto: on the device as far as there "
           "is room");
  f.add("head_chunk_tokens", head_chunk_tokens, "tokens whose logits exist at once; null: auto");
}

void OptimizerSection::fields(FieldList& f) {
  f.add("lr", lr, "peak learning rate");
  f.add("betas", betas, "AdamW decay rates of the two moments");
  f.add("eps", eps, "AdamW epsilon");
  f.add("weight_decay", weight_decay, "decoupled weight decay");
  f.add("decay_norms", decay_norms, "weight decay also for norm weights");
  f.add("grad_clip", grad_clip, "clip the global gradient norm to this; null: off");
  f.choice("timing", timing, kUpdateTimingNames,
           "before_use: ahead of the next forward, allows grad_clip; on_arrival: in backward; "
           "speculative: in backward as if grad_clip did not clip, and again if it does");
  f.add(
      "deferred_units", deferred_units,
      "on_arrival, speculative: units updated in the next forward instead; null: what predictions "
      "find, a third or half without them");
  f.add("undo_log", undo_log,
        "speculative: host memory for the state that units had before their early update; null: "
        "what all but the deferred units need, as far as host_limit allows");
  f.choice("gradient_dtype", gradient_dtype, kStateDTypeNames,
           "of the gradients on the host: 2 or 4 bytes per parameter; f32 is f64 in f64 runs");
  f.choice("moment_dtype", moment_dtype, kStateDTypeNames,
           "of AdamW's two moments: bf16 takes 4 bytes per parameter for both and is rounded "
           "stochastically, f32 takes 8; f32 is f64 in f64 runs");
  f.add("gradient_ring", gradient_ring,
        "on_arrival: layers whose gradients are on the host at once, deferred_units + 2 or more; "
        "null: all");
  f.add("interleave", interleave,
        "share, from 0 to 1, of the layers with state on the host that the device updates: their "
        "state crosses the link for it, their gradients stay there; null: what predictions find, 0 "
        "without them");
  f.choice("lr_schedule", lr_schedule, kLrScheduleNames, "shape behind the warm-up");
  f.add("warmup_steps", warmup_steps, "steps of linear warm-up");
  f.add("min_lr_ratio", min_lr_ratio, "last learning rate of linear, cosine and wsd over lr");
  f.add("wsd_decay_steps", wsd_decay_steps, "last steps of the run in which wsd decays");
}

void MemorySection::fields(FieldList& f) {
  f.add("device_limit", device_limit,
        "hard limit of device memory of a rank; null: nearly all that is free at start");
  f.add("host_limit", host_limit,
        "hard limit of host memory of a rank; null: what its control group leaves, if that limits");
  f.add("spill_limit", spill_limit,
        "pinned memory that schedule.spill auto takes at most; null: what host_limit leaves");
}

void HardwareSection::fields(FieldList& f) {
  f.add("peak_tflops", peak_tflops, "dense bf16 peak for MFU; null: the device's datasheet");
  f.add("link_gbs", link_gbs,
        "GB/s of the link each way, both at once, for schedule.spill auto and for predictions");
  f.add("product_tflops", product_tflops,
        "rate of large bf16 matrix products, for predictions; null: as measured on the device");
  f.add("attention_forward_tflops", attention_forward_tflops,
        "likewise of attention's forward, for endless rows and a head dim of 128");
  f.add("attention_backward_tflops", attention_backward_tflops, "likewise of its backward");
  f.add("device_gbs", device_gbs, "GB/s of operators that move device memory, likewise");
  f.add("host_gbs", host_gbs, "GB/s of host memory that AdamW on all threads moves, likewise");
}

void KernelsSection::fields(FieldList& f) {
  f.choice("matmul_tuning", matmul_tuning, kMatmulTuningNames,
           "auto: cuda measures algorithms of matrix products at the start, unless that was done "
           "before; off: the library's first proposals");
  f.add("plan_cache", plan_cache,
        "folder that keeps what was measured for later runs; null: the user's cache folder; "
        "empty: none");
  f.choice("attention", attention, kAttentionKernelsNames,
           "auto: the fastest kernels for the GPU; portable: those for every GPU; cudnn: the "
           "library's, to compare with");
  f.choice("attention_backward", attention_backward, kAttentionBackwardModeNames,
           "deterministic: the same bits in every run; fast: adds to dq in no fixed order, where "
           "the GPU has kernels for that, and takes 4 bytes per token and query column for it");
}

void DebugSection::fields(FieldList& f) {
  f.choice("execution", execution, kExecutionNames, "how the lanes of the cpu backend run");
  f.add("shuffle_seed", shuffle_seed, "order of execution shuffled");
  f.add("poison_slots", poison_slots, "fill a slot with NaN before it is filled again");
  f.add("synchronize_each", synchronize_each, "wait after every submission");
}

void RunConfig::fields(FieldList& f) {
  f.add("run", run, "");
  f.add("model", model, "");
  f.add("data", data, "");
  f.add("schedule", schedule, "");
  f.add("optimizer", optimizer, "");
  f.add("memory", memory, "");
  f.add("hardware", hardware, "");
  f.add("kernels", kernels, "");
  f.add("debug", debug, "");
}

namespace {

std::string read_text(const std::filesystem::path& file) {
  if (std::filesystem::is_directory(file)) throw IoError(file.string() + ": is a folder");
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw IoError(file.string() + ": cannot be read");
  return text;
}

/// The same text read on top of the architecture of `model.path`, so that the keys it does not give
/// come from there. Keys that it does give must say the same.
RunConfig read_with_path(const std::filesystem::path& model_path, std::string_view text,
                         std::string_view source, std::span<const std::string> sets) {
  const std::filesystem::path file = model_path / "config.json";
  const LlamaConfig loaded = load_llama_config(file);
  RunConfig config;
  config.model.llama = loaded;
  read_fields(config, text, source, sets);
  ConfigProblems problems;
  for (const std::string& key : differing_fields(loaded, config.model.llama)) {
    problems.add("model." + key, "differs from " + file.string() + "; leave it out");
  }
  problems.throw_if_any(source);
  return config;
}

}  // namespace

RunConfig load_run_config(const std::filesystem::path& file, std::span<const std::string> sets,
                          TrainingData training_data) {
  const std::string text = read_text(file);
  const std::string source = file.string();
  RunConfig config;
  read_fields(config, text, source, sets);
  if (!config.model.path.empty()) config = read_with_path(config.model.path, text, source, sets);
  if (training_data == TrainingData::kOptional && config.data.train.empty()) {
    config.data.synthetic = true;
    config.data.validation.clear();
    config.run.eval_every = 0;
  }
  config.validate(source);
  return config;
}

void save_run_config(const RunConfig& config, const std::filesystem::path& file) {
  std::ofstream out(file, std::ios::binary);
  out << write_fields(config);
  out.close();
  if (!out) throw IoError(file.string() + ": cannot be written");
}

std::string config_hash(const RunConfig& config) {
  std::uint64_t hash = 0;
  for (const char c : write_fields(config)) hash = mix64(hash ^ static_cast<unsigned char>(c));
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016" PRIx64, hash);
  return digits.data();
}

}  // namespace strata
