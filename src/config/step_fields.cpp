// Lists the keys of a run config that say how a step is made: how it is divided, what of it is
// where, and how and when parameters are updated. config_fields.cpp says what each text is for.

#include "strata/base/fields.h"
#include "strata/config/config.h"

namespace strata {

void TrainSection::fields(FieldList& f) {
  f.choice("objective", objective, kObjectiveNames,
           "Says what is trained: sft lowers the loss of each token; the others learn from pairs "
           "to prefer chosen answers to rejected ones. dpo and ipo compare with "
           "train.reference, simpo and orpo with nothing. Set it for token files of pairs.");
  f.choice("reference", reference, kReferenceNames,
           "Says whose log-probabilities dpo and ipo compare with: base computes them by the model "
           "without adapters, so it needs the section adapter; stored reads what strata evaluate "
           "--reference has left of model.path beside each token file. Set stored to train all "
           "weights, or to save adapters the reference's forward.");
  f.add("beta", beta,
        "Scales how far answers may move from the reference: lower values let them move further. "
        "Of simpo it scales the margin, of orpo the loss of the odds ratio beside that of the "
        "chosen answer. null takes 0.1, for simpo 2.")
      .from(1e-6, 1e6);
  f.add("gamma", gamma,
        "Sets the margin by which simpo wants the reward of chosen answers to be above that of "
        "rejected ones; null takes 1. Raise it, to at most beta, to part them further.")
      .from(0, 1e6);
  f.add("label_smoothing", label_smoothing,
        "Says which share of the pairs is taken to have its answers the wrong way round, for dpo "
        "and simpo, up to 0.5. Raise it where the labels are noisy.")
      .from(0, 0.5);
}

std::optional<PreferenceRule> TrainSection::rule() const {
  if (!objective) return std::nullopt;
  const bool simpo = *objective == Preference::kSimpo;
  return PreferenceRule{.objective = *objective,
                        .beta = beta.value_or(simpo ? 2 : 0.1),
                        .gamma = simpo ? gamma.value_or(1) : 0,
                        .label_smoothing = label_smoothing};
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
  f.choice("kind", kind, kOptimizerKindNames,
           "Says which optimizer updates parameters: adamw has two moments, lion and sgd (with "
           "momentum) have one, which saves 4 bytes per parameter, or 2 in bf16. Take lion with a "
           "third to a tenth of AdamW's lr and three to ten times its weight_decay; all of them "
           "decay weights as AdamW does. muon orthogonalises the updates of the matrices of layers "
           "on the device, at AdamW's lr and weight_decay, and leaves the rest to AdamW; all "
           "state stays on the host. Take it to learn from fewer tokens.");
  f.add("lr", lr,
        "Sets the peak learning rate, reached at the end of the warm-up. Lower it if the loss "
        "jumps or stops being finite.")
      .at_least(0);
  f.add("betas", betas,
        "Sets AdamW's decay rates of the first and the second moment, in [0, 1). Lower the second "
        "if the loss jumps after unusual batches. Of lion the first mixes moment and gradient for "
        "the update, the second for the moment; [0.9, 0.99] is usual there.");
  f.add("momentum", momentum,
        "Sets the share of sgd's moment that stays in a step, in [0, 1): m = momentum * m + "
        "gradient. Raise it where gradients are noisy.")
      .from(0, 1);
  f.add("nesterov", nesterov,
        "Lets sgd update by gradient + momentum * m, Nesterov's look ahead, in place of m. Set it "
        "to repeat a recipe that has it.");
  f.add("muon_momentum", muon_momentum,
        "Sets the share of the moment of muon's matrices that stays in a step, in [0, 1). Raise it "
        "where gradients are noisy.")
      .from(0, 1);
  f.add("eps", eps,
        "Sets AdamW's epsilon, which is added to the root of the second moment. Raise it to take "
        "smaller steps where gradients are tiny.")
      .above(0);
  f.add("weight_decay", weight_decay,
        "Sets the decoupled weight decay, which a step multiplies by its learning rate; 0 "
        "turns it off. Raise it if the validation loss rises while the training loss falls.")
      .at_least(0);
  f.add("decay_norms", decay_norms,
        "Lets norm weights and biases decay as well. Set it to repeat a recipe that does not tell "
        "them apart.");
  f.add("lr_factors", lr_factors,
        "Lists tensors with a learning rate of their own: names as strata inspect shows them, in "
        "which * stands for any characters, with what lr is multiplied by, such as "
        "[\"lm_head.weight=0.5\"]. The first entry that matches a tensor counts. Set it to let "
        "some learn faster, as B of adapters ([\"*.lora_B.weight=16\"]), or not at all (0).");
  f.add("weight_decays", weight_decays,
        "Lists tensors with a weight decay of their own, in the form of optimizer.lr_factors; the "
        "others have weight_decay, or none by decay_norms. Set [\"model.embed_tokens.weight=0\"] "
        "for a recipe that does not let embeddings decay.");
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
  f.choice("moment_dtype", moment_dtype, kMomentDTypeNames,
           "Says which type moments have: f32 takes 8 bytes per parameter for AdamW's two and "
           "is f64 in f64 runs, bf16 takes 4, 8bit takes 2 and shares scales among 64 parameters. "
           "The latter two are rounded stochastically. Take bf16, then 8bit, where host memory, or "
           "its bandwidth, is short.");
  f.choice(
      "master", master, kMasterWeightsNames,
      "Says what of an f32 master bf16 weights have beside them: split its low half, with which "
      "nothing is lost; none nothing, which takes 2 bytes less per parameter, and updates round "
      "weights stochastically. Take none where memory is short and lr is not tiny.");
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

}  // namespace strata
