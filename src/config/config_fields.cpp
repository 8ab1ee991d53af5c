// Lists the keys of a run config: name, member and help of each, by which it is read, written and
// described. `strata config-help` prints the help texts, docs/config.md is made of them, so each
// says in sentences what the key does, in which unit, and when one would change it. Limits that
// hold whatever other keys say stand here as well; rules between keys are in *_rules.cpp.
//
// This file has the sections that say what is run, on what, and what it leaves. Those of how a step
// is made are in step_fields.cpp, those of the machine in machine_fields.cpp.

#include "config/foreign_names.h"
#include "strata/config/config.h"

namespace strata {

void RunSection::fields(FieldList& f) {
  f.add("seed", seed,
        "Seeds the initial weights, the sample order and the rounding of moments. Change it "
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
  f.choice("products", products, kProductsNames,
           "Says what the matrix products of layers multiply: numbers in bf16; in e4m3, with a "
           "scale for each token and for each row of weights, for outputs and gradients of inputs "
           "(fp8); or for gradients of weights as well (fp8_all). Set it to train faster at some "
           "cost in precision, on GPUs of compute capability 9.0 and on the CPU backend; "
           "run.dtype is bf16 then.");
  f.add("products_bf16", products_bf16,
        "Names what run.products leaves in bf16: linears of all layers (qkv, attention_out, "
        "gate_up, down) and whole layers (layers.0, layers.31). Set it to [\"down\"] for runs of "
        "hundreds of billions of tokens, in which outliers grow before the down projection, or "
        "to the first and the last layer where the loss is not as good as in bf16.");
  f.add("fp8_metrics_every", fp8_metrics_every,
        "Says how many steps pass between those that count what rounding to e4m3 loses, for the "
        "metrics and a warning; 0 never counts. Such a step reads what it rounds once more. Lower "
        "it to see outliers grow, where products are in e4m3.")
      .from(0);
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
        "disk, 8 with bf16 moments, 6 with those in 8 bits.")
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

void RunConfig::fields(FieldList& f) {
  add_foreign_names(f);
  f.add("run", run, "What is run, where, for how long, and what it writes.");
  f.add("model", model,
        "The architecture, in the field names of a Hugging Face `config.json`, and where weights "
        "come from.");
  f.add("adapter", adapter,
        "Low-rank adapters (LoRA): with this section they are trained, and the weights of `model` "
        "stay as they are, but for adapter.modules_to_save ([adapters](adapters.md)). Names are "
        "those of PEFT.");
  f.add("data", data, "Token files, and how rows are cut out of them.");
  f.add("train", train,
        "What the loss is: that of tokens, or of pairs of a chosen and a rejected answer "
        "([preferences](preferences.md)).");
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
