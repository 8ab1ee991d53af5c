// Lists the keys of a run config: name, member and help of each, by which it is read, written and
// described. `strata config-help` prints the help texts, docs/config.md is made of them, so each
// says in sentences what the key does, in which unit, and when one would change it. Limits that
// hold whatever other keys say stand here as well; rules between keys are in config_rules.cpp.

#include <string_view>

#include "config/foreign_names.h"
#include "strata/config/config.h"

namespace strata {
namespace {

/// What a rate is that a config does not give.
constexpr std::string_view kMeasured = "null: as measured on the device";

}  // namespace

void RunSection::fields(FieldList& f) {
  f.add("seed", seed,
        "Seeds the initial weights, the sample order and the rounding of bf16 moments. Change it "
        "to repeat a run with other random numbers.")
      .at_least(0);
  f.add("steps", steps,
        "Says how many optimizer steps the run has; the learning rate's schedule ends with the "
        "last one. Raise it to train on more tokens.")
      .from(1);
  f.add("epochs", epochs,
        "Says how often the run reads its training set, in place of steps, which are worked out of "
        "it and rounded up: rows of all sources, by those of a step. Set it where the set says how "
        "long to train, as in fine-tuning; 3 is usual there.")
      .above(0, "null goes by run.steps");
  f.choice("backend", backend, kBackendChoiceNames,
           "Says where the run computes. auto takes cuda if a GPU is usable, else cpu; name one to "
           "get an error where it is missing, or to stay on the CPU beside a GPU.");
  f.choice("dtype", dtype, kComputeDTypeNames,
           "Says which type weights and activations have in compute. bf16 is the fast one; take "
           "f32 to tell rounding from a fault, and f64, on the cpu backend alone, as a reference.");
  f.add("output", output,
        "Names the run folder, which takes the resolved config, metrics, log and the plans of "
        "matrix products. Give every run its own.");
  f.add("trace_step", trace_step,
        "Names the step, counted from 1, that is traced into trace.json of the run folder, with "
        "the one after it, or with earlier ones if a validation or samples come between; null "
        "traces none. Set it to see what each lane does when.")
      .from(1);
  f.add("eval_every", eval_every,
        "Says how many steps pass between validations on data.validation; 0 never validates. Set "
        "it to see whether the loss also falls on text that is not trained on.")
      .from(0);
  f.add("patience", patience,
        "Says how many validations in a row without a new lowest loss end the run, with exit code "
        "0; 0 never does. Set it, to 5 say, where the run is to end when it learns no more, with "
        "checkpoint.keep_best to keep the best state.")
      .from(0);
  f.add("eval_batches", eval_batches,
        "Says how many passes a validation has; 0 takes the whole validation set. Set it where "
        "that takes long.")
      .from(0);
  f.add("sample_every", sample_every,
        "Says how many steps pass between samples: texts with which the model, as it is then, "
        "continues run.sample_prompts, in samples.jsonl of the run folder; 0 never samples. Set it "
        "to read what the model has learnt. Samples change no bit of the training and take memory "
        "that is idle between steps.")
      .from(0);
  f.add(
      "sample_prompts", sample_prompts,
      "Gives the texts that samples continue, and conversations that they answer, written as "
      "{\"messages\": [...]}; an empty list takes one sample that begins as a text does. The chat "
      "template is that of the token files, else the model's. Set it to see the model go on from "
      "what you know.");
  f.add("sample_tokens", sample_tokens,
        "Says how many tokens a sample has at most; one that ends a text or an answer ends it "
        "earlier. Raise it "
        "for longer samples, which take longer, and more memory for keys and values.")
      .from(1);
  f.add("log_every", log_every,
        "Says how many steps pass between progress lines; the first and the last step have one in "
        "any case. Raise it where steps are short; metrics.jsonl has every step.")
      .from(1);
  f.add("tensorboard", tensorboard,
        "Writes losses, learning rate, gradient norm and speed to event files in the run folder as "
        "well, beside metrics.jsonl. Set it to see runs in TensorBoard.");
  f.add("threads", threads,
        "Says how many CPU threads a rank has; 0 takes one for each core that the rank may use, "
        "divided by the ranks that may use the same ones. "
        "Lower it to leave cores to other programs.")
      .from(0);
  f.choice("bind", bind, kThreadBindingNames,
           "Says where a rank's CPU threads run. share gives ranks of one machine that may use the "
           "same cores equal parts of them, near their GPUs, if each gets 4 or more; a rank that "
           "is alone on a machine runs where it may. off leaves it to the launcher. auto "
           "(experimental) also gives each thread a core of its own, which gained nothing with one "
           "rank a machine.");
  f.choice(
      "shard_group", shard_group, kShardGroupNames,
      "Says which ranks hold a copy of the training state together: all, which takes the least "
      "memory, or the ranks of a node. With node every host holds a whole copy, weights are "
      "gathered within hosts, and only sums of gradients go from host to host, once a step; "
      "set it where hosts have the memory and the network between them is slow.");
  f.choice("on_nonfinite", on_nonfinite, kOnBadStepNames,
           "Says what happens at a bad step, whose loss or gradient norm is not finite or an "
           "outlier: skip leaves out its update, stop ends the run, rollback goes back to the last "
           "good checkpoint and leaves out the data since then. auto skips, and stops with "
           "optimizer.timing on_arrival, which cannot skip. Set rollback for long runs that nobody "
           "watches.");
  f.add("max_nonfinite_steps", max_nonfinite_steps,
        "Ends the run, with exit code 4, after this many bad steps in a row that are skipped, or "
        "rollbacks that did not get past the step they began at. Raise it for a run that recovers "
        "from more.")
      .from(0);
  f.add("loss_outlier_z", outliers.loss,
        "Says how many standard deviations above its mean of late makes the loss an outlier and so "
        "the step bad; null: none is. Set it, to 6 say, where single batches have thrown the run "
        "off.")
      .above(0, "null finds no outliers");
  f.add("norm_outlier_z", outliers.grad_norm, "Says the same of the gradient norm before clipping.")
      .above(0, "null finds no outliers");
  f.add("wall_limit", wall_limit,
        "Says after how many minutes the run ends by itself, early enough to save a checkpoint; "
        "null is only limited by SLURM's end of the job, which counts in any case. Set it where "
        "another batch system gives the job a time.")
      .above(0, "null sets no limit");
  f.add("watchdog_s", watchdog_s,
        "Says after how many seconds without progress of a rank the job is ended, with exit code 5 "
        "and the rank's name; loads and saves do not count. null or 0 watches nothing. Raise it "
        "where one operation, or the transfer of one layer, may take longer; lower it to lose less "
        "time to a rank that hangs.");
}

void ModelSection::fields(FieldList& f) {
  f.add("path", path,
        "Names a Hugging Face folder to read architecture and weights from; without it weights are "
        "random and the keys below say the architecture. Set it to train a model further.");
  f.add(
      "tokenizer", tokenizer,
      "Names a tokenizer file, or a folder with one, for the texts of run.sample_every and for the "
      "model in checkpoints and exports; without it that of model.path is taken, and a model with "
      "a vocabulary of 257 without one is one of bytes. Set it where the model has no folder, or "
      "other tokens than those of its folder.");
  llama.fields(f);
}

void DataSection::fields(FieldList& f) {
  f.add("train", train,
        "Names the token files of the training set: a path or pattern, a list of them, which is "
        "read as one set, or a list of {\"path\", \"weight\"}, whose sources are mixed by their "
        "weights. Required unless synthetic is set.");
  f.add("validation", validation,
        "Names the token files of the validation set, a path, pattern or list without weights; "
        "empty if there is none. Set it for run.eval_every, which needs it.");
  f.add("sequence_length", sequence_length,
        "Says how many tokens a row has, and so how far a token can look back. Required. Raise it "
        "for texts that hang together over longer distances; activations take more memory, and "
        "attention more time per token.")
      .require()
      .from(1);
  f.choice("dtype", dtype, kTokenFormatNames,
           "Says which type ids have in token files without a header; auto expects the header that "
           "strata tokenize writes. Set it to read the plain files of other programs.");
  f.add("eos_token", eos_token,
        "Names the id between documents in token files that do not list their documents: those "
        "without a header, and llm.c's. Set it for document_mask, which needs it there.")
      .at_least(0);
  f.add("document_begins", document_begins,
        "Says where that id stands: true at the beginning of each document, false at its end. null "
        "takes the beginning in llm.c's files, where it is the only token that sees nothing, and "
        "the end in those without a header. Set it where another program wrote the file.");
  f.add("document_mask", document_mask,
        "Hides documents that share a row from each other, and lets none predict the first token "
        "of the next. Set it where rows hold many short texts; false lets every token see all of "
        "its row before it.");
  f.add("packing", packing,
        "Fills rows with whole documents that fit together, and with padding without loss where "
        "none fits, in training and validation sets; needs document_mask. Set it for "
        "conversations and other documents that should not be cut at the ends of rows.");
  f.choice("overlong", overlong, kOverlongNames,
           "Says what packing does with documents of more than sequence_length tokens: cut makes "
           "several of one, drop leaves them out. Set it to drop where a part of a document is "
           "worse than none.");
  f.add("shuffle", shuffle,
        "Shuffles the samples of a source anew in every epoch; false takes them as they stand in "
        "the files. Set it to false to compare a run with one of another program.");
  f.add("synthetic", synthetic,
        "Trains on random tokens instead of a file. Set it to try a config without data; plan and "
        "bench do so by themselves.");
}

void ScheduleSection::fields(FieldList& f) {
  f.add("rows", rows,
        "Says how many rows a sub-batch has, which is what an operator sees at once. Lower it, and "
        "raise sub_batches, to need less device memory; raise it if products of rows * "
        "data.sequence_length tokens are too small to fill the GPU.")
      .from(1);
  f.add("sub_batches", sub_batches,
        "Says how many sub-batches a pass has, all of which go through a layer while its weights "
        "are on the device. Raise it until the transfers hide under compute; activations grow with "
        "it.")
      .from(1);
  f.add("passes", passes,
        "Says how many times a step runs forward and backward, adding gradients. Raise it for "
        "steps of more tokens than activations have memory for.")
      .from(1, 1 << 16);  // each pass of two steps has a buffer for its tokens
  f.add("step_rows", step_rows,
        "Says how many rows a step trains on, of all ranks together; null takes all that there is "
        "room for, rows * sub_batches * passes for each rank. Set it to keep the batch when the "
        "number of ranks changes; places that are left over compute on empty rows.")
      .from(1);
  f.add("weight_slots", weight_slots,
        "Says how many layers have their weights on the device at once; null takes 3, of which one "
        "computes and two load. Lower it to save device memory, raise it if compute waits for "
        "weights_in.")
      .from(1);
  f.add("activation_slots", activation_slots,
        "Says how many boundary activations (inputs of a layer, each of one sub-batch) are on the "
        "device at once; the others are spilled to the host. null takes all of them, or "
        "sub_batches + 1 where the memory does more for what cells keep; lower it to save device "
        "memory.")
      .from(2);
  f.choice("activations", activations, kKeepLevelNames,
           "Says what forward keeps on the device for backward beside boundaries, of every cell (a "
           "layer and a sub-batch); the rest is spilled or computed again. auto keeps what fits in "
           "memory.device_limit; name a level for the same choice on every machine.");
  f.choice("spill", spill, kSpillNames,
           "Says up to which level forward sends to the host, and backward brings back, what the "
           "device does not keep. auto, with activations auto, spills what host memory and an idle "
           "link take; compare with off where bench shows exposed time of the host lane.");
  f.choice("spill_dtype", spill_dtype, kBoundaryFormNames,
           "Says in which form boundaries are in host memory. int8 takes a byte an element and an "
           "f32 scale a row, half of bf16; it wins where host memory is short (8.5 GiB less for a "
           "7B at 0.2 to 0.6 % of the speed) and puts an error into the gradients.");
  f.add("spill_slots", spill_slots,
        "Says how many cells are on their way to the host or back at once, each with device memory "
        "for what it spills. Raise it if compute waits for spills, lower it to save device "
        "memory.")
      .from(1);
  f.add("gradient_slots", gradient_slots,
        "Says how many layers have their f32 gradients on the device at once, at 4 bytes per "
        "parameter. Lower it to 1 to save memory, where a layer may wait until the gradients of "
        "the one before have left.")
      .from(1);
  f.add("resident_units", resident_units,
        "Says how many units, counted from the first (embedding, layers, head), keep their weights "
        "and optimizer state on the device. null takes what the host cannot hold, then those for "
        "which the device has room; set 0 to keep all state on the host.")
      .at_least(0);
  f.choice("gradient_sums", gradient_sums, kGradientSumsNames,
           "Says where the gradients of several passes are added. device takes 4 bytes per "
           "parameter there and sends one gradient home, host sends that of every pass; auto takes "
           "the device for as many units as there is room. Name device to have the sums come "
           "before what cells keep, as optimizer.gradient_ring needs it.");
  f.add("head_chunk_tokens", head_chunk_tokens,
        "Says of how many tokens the head has logits at once; null takes what 128 MiB hold in "
        "bf16, and at least 1,024. Lower it to save device memory, above all with a large "
        "vocabulary, where a step then takes longer.")
      .from(1);
  f.retire("direction",
           "sub-batches go through every unit in ascending order, as alternating them was not "
           "faster (docs/decisions/0015); leave it out");
  f.retire("layers_per_visit",
           "a pass goes through one layer at a time, as more of them were slower "
           "(docs/decisions/0015); leave it out");
}

void OptimizerSection::fields(FieldList& f) {
  f.add("lr", lr,
        "Sets the peak learning rate, reached at the end of the warm-up. Lower it if the loss "
        "jumps or stops being finite.")
      .at_least(0);
  f.add("betas", betas,
        "Sets AdamW's decay rates of the first and the second moment, in [0, 1). Lower the second "
        "if the loss jumps after unusual batches.");
  f.add("eps", eps,
        "Sets AdamW's epsilon, which is added to the root of the second moment. Raise it to take "
        "smaller steps where gradients are tiny.")
      .above(0);
  f.add("weight_decay", weight_decay,
        "Sets AdamW's decoupled weight decay, which a step multiplies by its learning rate; 0 "
        "turns it off. Raise it if the validation loss rises while the training loss falls.")
      .at_least(0);
  f.add("decay_norms", decay_norms,
        "Lets norm weights and biases decay as well. Set it to repeat a recipe that does not tell "
        "them "
        "apart.");
  f.add("grad_clip", grad_clip,
        "Sets the largest global norm of the gradients, above which all are scaled down to it; "
        "null turns clipping off. 1 is usual; leave it out for the fastest updates, which need not "
        "wait for the norm.")
      .above(0, "null turns clipping off");
  f.choice("timing", timing, kUpdateTimingNames,
           "Says when parameters are updated. before_use does it in the next forward, once the "
           "norm is known; on_arrival in backward, which is faster and allows no grad_clip; "
           "speculative in backward as if grad_clip did not clip, and again if it does: faster "
           "where few steps clip.");
  f.add("deferred_units", deferred_units,
        "Says how many units are updated in the next forward instead of in backward, with timing "
        "on_arrival and speculative. null takes what predictions find, else a third or a half of "
        "them; raise it if the host is still updating when backward ends.")
      .from(0);
  f.add("undo_log", undo_log,
        "Sets the host memory for the state that units had before their early update, with timing "
        "speculative. null takes what all but the deferred units need, as far as memory.host_limit "
        "allows; set it to leave host memory to other programs.");
  f.choice("gradient_dtype", gradient_dtype, kGradientDTypeNames,
           "Says which type gradients have on the host: bf16 takes 2 bytes per parameter, f32 4; "
           "f32 is f64 in f64 runs. auto takes bf16 where run.dtype is bf16, else f32. Take f32 to "
           "have them not rounded on their way to the optimizer.");
  f.choice("moment_dtype", moment_dtype, kStateDTypeNames,
           "Says which type AdamW's two moments have: bf16 takes 4 bytes per parameter for both "
           "and is rounded stochastically, f32 takes 8 and is f64 in f64 runs. Take bf16 where "
           "host memory, or its bandwidth, is short.");
  f.add("gradient_ring", gradient_ring,
        "Says how many layers have their gradients on the host at once, with timing on_arrival: at "
        "least deferred_units + 2; null keeps all. Set it where host memory is short: it saves up "
        "to what gradient_dtype takes.");
  f.add("interleave", interleave,
        "Sets the share, from 0 to 1, of the layers with state on the host that the device "
        "updates, for which their state crosses the link. null takes what predictions find, 0 "
        "without them; raise it where a step waits for the host's updates while the link has "
        "time.")
      .from(0, 1);
  f.choice("lr_schedule", lr_schedule, kLrScheduleNames,
           "Says what the learning rate does after the warm-up: it stays constant, falls linearly "
           "or along half a cosine until the last step, or (wsd) stays until it decays at the end. "
           "Take wsd where the last step is not settled at the start.");
  f.add("warmup_steps", warmup_steps,
        "Says in how many steps the learning rate rises linearly to lr at the start, at most "
        "run.steps. Raise it if the loss jumps at the start.")
      .from(0);
  f.add("min_lr_ratio", min_lr_ratio,
        "Sets to what share of lr, from 0 to 1, the learning rate falls with linear, cosine and "
        "wsd. It is reached at the first step that is not run; the last step's is above it. "
        "Raise it, 0.1 is usual, to learn until the end.")
      .from(0, 1);
  f.add("wsd_decay_steps", wsd_decay_steps,
        "Says in how many steps the learning rate decays at the end, with wsd. Required there; a "
        "tenth of run.steps is usual.")
      .from(0);
}

void CheckpointSection::fields(FieldList& f) {
  f.add("every_steps", every_steps,
        "Says how many steps pass between checkpoints; null saves none in between. Set it so that "
        "what a crash costs is no more than you can spare.")
      .from(1);
  f.add("every_minutes", every_minutes,
        "Says how many minutes pass between checkpoints, beside every_steps; null goes by steps "
        "alone. Set it where the length of steps is not known.")
      .above(0, "null saves none by time");
  f.add(
      "at_end", at_end,
      "Saves a checkpoint of the last step, and one when a signal or a limit of time ends the run "
      "before it. Set false for runs whose model nobody needs.");
  f.add("keep", keep,
        "Says how many checkpoints stay, the newest ones; the newest whose loss is finite always "
        "does. Raise it to be able to go further back; each takes 12 bytes per parameter on the "
        "disk, 8 with bf16 moments.")
      .from(1);
  f.add("keep_best", keep_best,
        "Says how many of the checkpoints with the lowest validation loss stay, be they among the "
        "newest or not; of those count that a validation of the same step came with, so make "
        "every_steps a multiple of run.eval_every. Set it, to 1 say, to have the best state of a "
        "run that begins to overfit; each takes the disk that one of keep does.")
      .from(0);
  f.add("milestone_steps", milestone_steps,
        "Says how many steps pass between checkpoints that stay for good, beside those of keep; "
        "one is saved at each multiple, whatever every_steps is. null has none. Set it to compare "
        "or branch off later; nothing but you removes them from the disk.")
      .from(1);
  f.add("weights_every_steps", weights_every_steps,
        "Says how many steps pass between saves of the weights alone, as Hugging Face folders in "
        "the run's folder weights; null saves none. Set it to evaluate or publish a model while it "
        "is trained: each takes 2 bytes per parameter, and no run can go on from it.")
      .from(1);
  f.add("weights_keep", weights_keep,
        "Says how many saves of weights alone stay, the newest ones; null keeps all of them.")
      .from(1);
  f.add("staging", staging,
        "Says how much host memory may hold copies of state that waits to be written. State that "
        "is not copied holds up its next update until it is on the disk. null takes what "
        "memory.host_limit leaves; lower it to leave memory to others.");
  f.add("writers", writers,
        "Says how many threads hash and write a checkpoint, each with a buffer of 16 MiB. Raise it "
        "where a fast disk is not busy while a checkpoint is saved.")
      .from(1, 256);
}

void MemorySection::fields(FieldList& f) {
  f.add("device_limit", device_limit,
        "Limits the device memory of a rank, everything included; null takes nearly all that is "
        "free at the start. Set it to plan for another GPU or to share this one.")
      .above(0, "null: what is free");
  f.add("host_limit", host_limit,
        "Limits the host memory of a rank, everything included; null takes what the machine can "
        "give: what control groups leave, and nearly all that the system says is available. Set it "
        "to leave memory to others, or where memory grows on demand: it is believed above what is "
        "available, with a warning, but not above a control group's limit.")
      .above(0, "null: what is free");
  f.add("spill_limit", spill_limit,
        "Limits the pinned memory that schedule.spill auto takes; null allows what host_limit "
        "leaves. Set it to spill where no host limit is known, or to spill less.");
}

void HardwareSection::fields(FieldList& f) {
  f.add("peak_tflops", peak_tflops,
        "Sets the dense bf16 peak of the device in TFLOP/s, for MFU; null takes the datasheet of a "
        "known GPU. Set it for a GPU that strata does not know.")
      .above(0, "null: the device's datasheet");
  f.add("link_gbs", link_gbs,
        "Sets the rate of the link between host and device in GB/s each way, with copies both ways "
        "at once, for schedule.spill auto and for predictions; null takes that of a known GPU's "
        "PCIe, and 50 for others. Set it to what host_bench measures for one GPU; ranks of a host "
        "are taken to share what its memory allows.")
      .above(0, "null: that of the device's generation of PCIe");
  f.add("product_tflops", product_tflops,
        "Sets the rate of large bf16 matrix products in TFLOP/s, for predictions; null takes what "
        "is known of the GPU. Set it to what bench prints on this one.")
      .above(0, kMeasured);
  f.add("attention_forward_tflops", attention_forward_tflops,
        "Sets the rate of attention's forward in TFLOP/s for endless rows and a head dim of 128, "
        "for predictions; null takes what is known of the GPU. Set it to what bench prints on "
        "this one.")
      .above(0, kMeasured);
  f.add("attention_backward_tflops", attention_backward_tflops,
        "Sets the rate of attention's backward in TFLOP/s for a head dim of 128, as bench works it "
        "out from rows of any length, for predictions; null takes what is known of the GPU. Set it "
        "to what bench prints on this one.")
      .above(0, kMeasured);
  f.add("device_gbs", device_gbs,
        "Sets the rate in GB/s of operators that do little but move device memory, for "
        "predictions; null takes what is known of the GPU. Set it to what bench prints on this "
        "one.")
      .above(0, kMeasured);
  f.add("host_gbs", host_gbs,
        "Sets the rate in GB/s at which AdamW on all threads reads and writes host memory, for "
        "predictions; null takes what such a GPU's host usually has. Set it to what bench prints "
        "on this machine for one rank; several ranks of a host are taken to share it.")
      .above(0, kMeasured);
  f.add("disk_gbs", disk_gbs,
        "Sets the rate in GB/s at which the disk takes checkpoints of all ranks, fsync included, "
        "for predictions of saves; null predicts none in plan, and takes what a run measures at "
        "its start. Set it to what train says of the disk, or to bytes by seconds of a save.")
      .above(0, "null: as measured at the start of a run");
  f.add("collective_gbs", collective_gbs,
        "Sets the rate in GB/s of collectives between the GPUs of a host, the bus bandwidth of "
        "nccl-tests, for predictions for several ranks; null takes what is known of the GPU. Set "
        "it to what all_gather_perf measures on 256 MiB with four GPUs or more.")
      .above(0, "null: what is known of the GPU");
  f.add("nic_gbs", nic_gbs,
        "Sets the rate in GB/s each way of all NICs of a host together, for predictions for ranks "
        "on several hosts (a NIC of 400 Gbit/s has 50); null takes what hosts of such GPUs "
        "usually have. Set it to what your hosts have.")
      .above(0, "null: what hosts of such GPUs usually have");
  f.add("stored_rates", stored_rates,
        "Lets predictions use the rates that strata tune --measure stored for the device, where no "
        "key here gives them. Set it to false to predict by what is known of the GPU alone.");
}

void KernelsSection::fields(FieldList& f) {
  f.choice("matmul_tuning", matmul_tuning, kMatmulTuningNames,
           "Says how algorithms of matrix products are found on a GPU. auto measures them at the "
           "start unless that was done before; take off, the library's first proposals, for a "
           "start without measuring.");
  f.add("plan_cache", plan_cache,
        "Names the folder that keeps what was measured for later runs; null takes the user's cache "
        "folder, an empty text keeps nothing. Set it where home folders are slow or not there.");
  f.choice("attention", attention, kAttentionKernelsNames,
           "Says who computes attention on a GPU. auto takes the fastest of strata's own kernels "
           "for it; portable, its kernels for every GPU, and cudnn, the library's, are there to "
           "compare with.");
  f.choice("attention_backward", attention_backward, kAttentionBackwardModeNames,
           "Says in which order attention's backward adds dq. deterministic gives the same bits in "
           "every run; fast adds in no fixed order, where the GPU has kernels for it, and takes 4 "
           "bytes per token and query column. fast wins for long rows: 1.8 % of a 7B's speed at "
           "16,384 tokens a row.");
}

void DebugSection::fields(FieldList& f) {
  f.choice("execution", execution, kExecutionNames,
           "Says how the lanes of the cpu backend run: each in a thread, eager, inside of the "
           "submitting call, or shuffled, in a random order. Take eager for a stack trace that "
           "leads to who asked, shuffled to find missing waits.");
  f.add("shuffle_seed", shuffle_seed,
        "Seeds the order of execution shuffled. Change it to try other orders.")
      .at_least(0);
  f.add("poison_slots", poison_slots,
        "Fills a slot with NaN before it is filled anew. Set it to find reads of what was not "
        "written.");
  f.add("synchronize_each", synchronize_each,
        "Waits after every submission. Set it to find out which one fails, or whether overlap has "
        "to do with a fault.");
  f.add("disk_gbs", disk_gbs,
        "Holds the writing of checkpoints below so many GB/s on each rank; null does not. Set it "
        "to see what saves cost on a slower disk.")
      .above(0, "null: as fast as the disk is");
}

void RunConfig::fields(FieldList& f) {
  add_foreign_names(f);
  f.add("run", run, "What is run, where, for how long, and what it writes.");
  f.add("model", model,
        "The architecture, in the field names of a Hugging Face `config.json`, and where weights "
        "come from.");
  f.add("data", data, "Token files, and how rows are cut out of them.");
  f.add("schedule", schedule,
        "How a step is divided into passes and sub-batches, and what of it is where. Only `rows`, "
        "`sub_batches` and `passes` change how many tokens a step has; the others trade memory for "
        "time ([schedule](schedule.md)).");
  f.add("optimizer", optimizer,
        "AdamW, its learning rate, and when and where it runs ([schedule](schedule.md)).");
  f.add("checkpoint", checkpoint,
        "When `train` saves the state of the run, and how many checkpoints stay "
        "([checkpoints](checkpoints.md)).");
  f.add("memory", memory, "Limits that the memory plan stays within ([fitting](fitting.md)).");
  f.add("hardware", hardware,
        "Rates of the machine, for a device that strata does not know "
        "([prediction](prediction.md)).");
  f.add("kernels", kernels, "Which kernels compute on a GPU ([numerics](numerics.md)).");
  f.add("debug", debug, "Switches to look for faults with ([debugging](debugging.md)).");
}

}  // namespace strata
