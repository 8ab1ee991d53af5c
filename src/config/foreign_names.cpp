// Lists the names that other trainers give to keys, one row a name. Names that differ from the key
// by a slip alone are found without one (strata/base/suggestion.h); a remark says where the value
// is not the same number.

#include "config/foreign_names.h"

#include <string_view>

namespace strata {

namespace {

/// Has a name answered, for which there is no key, with where else it is set, or that it is not.
void absent(FieldList& f, std::string_view name, std::string_view instead) {
  f.also_called(name, {}, instead);
}

/// Adds the names of what a config does not set.
void add_absent_names(FieldList& f) {
  for (const char* name :
       {"lora_r", "lora_alpha", "lora_dropout", "lora_rank", "lora_target_modules",
        "lora_modules_to_save", "use_lora", "use_peft", "peft", "adapter", "qlora"}) {
    absent(f, name, "adapters are not trained, all weights are");
  }
  for (const char* name : {"load_in_4bit", "load_in_8bit", "quantization", "fp8"}) {
    absent(f, name, "weights are computed in what run.dtype says");
  }
  for (const char* name : {"deepspeed", "fsdp", "fsdp_config", "zero_stage", "zero_optimization"}) {
    absent(f, name,
           "state is on the host and sharded over the ranks of mpirun without a key; strata plan "
           "shows what goes where");
  }
  for (const char* name : {"optim", "optimizer_type"}) {
    absent(f, name, "AdamW is the optimizer; its keys are those of optimizer");
  }
  for (const char* name : {"chat_template", "train_on_inputs", "train_on_prompt",
                           "dataset_text_field", "assistant_only_loss", "completion_only_loss"}) {
    absent(f, name, "strata tokenize has options for it: --chat-template, --loss and --text-field");
  }
  for (const char* name : {"architectures", "model_type"}) {
    absent(f, name, "it is a model's; a run config names the model's folder by model.path");
  }
}

}  // namespace

void add_foreign_names(FieldList& f) {
  for (const char* name : {"learning_rate", "max_lr", "peak_lr"})
    f.also_called(name, "optimizer.lr");
  for (const char* name : {"num_train_epochs", "num_epochs", "n_epochs", "epoch"}) {
    f.also_called(name, "run.epochs");
  }
  for (const char* name : {"max_steps", "max_iters", "num_steps", "train_steps",
                           "max_steps_per_epoch", "total_steps"}) {
    f.also_called(name, "run.steps", "optimizer steps of the whole run");
  }
  for (const char* name : {"per_device_train_batch_size", "train_batch_size", "micro_batch_size",
                           "batch_size", "train_micro_batch_size_per_gpu", "device_batch_size"}) {
    f.also_called(
        name, "schedule.rows",
        "rows that a GPU computes at once; a step has rows * sub_batches * passes of them "
        "on each rank");
  }
  for (const char* name : {"gradient_accumulation_steps", "grad_accum_steps", "grad_accum",
                           "accumulate_grad_batches"}) {
    f.also_called(name, "schedule.sub_batches",
                  "or schedule.passes, where a step is larger than activations have memory for");
  }
  for (const char* name : {"global_batch_size", "total_batch_size", "effective_batch_size"}) {
    f.also_called(name, "schedule.step_rows", "in rows, of all ranks together");
  }
  for (const char* name : {"warmup_ratio", "warmup", "warmup_iters", "lr_warmup_iters",
                           "num_warmup_steps", "warmup_fraction"}) {
    f.also_called(name, "optimizer.warmup_steps", "a number of steps");
  }
  for (const char* name :
       {"max_grad_norm", "gradient_clip_val", "clip_grad", "gradient_clipping", "clip_grad_norm"}) {
    f.also_called(name, "optimizer.grad_clip");
  }
  for (const char* name : {"lr_scheduler_type", "lr_scheduler", "lr_decay_style"}) {
    f.also_called(name, "optimizer.lr_schedule", "constant, linear, cosine or wsd");
  }
  for (const char* name : {"min_lr", "min_lr_rate", "lr_min"}) {
    f.also_called(name, "optimizer.min_lr_ratio", "a share of optimizer.lr");
  }
  for (const char* name : {"beta1", "beta2", "adam_beta1", "adam_beta2"}) {
    f.also_called(name, "optimizer.betas", "a list of both");
  }
  for (const char* name : {"adam_epsilon", "adam_eps", "epsilon"})
    f.also_called(name, "optimizer.eps");
  f.also_called("wd", "optimizer.weight_decay");
  for (const char* name : {"save_steps", "save_interval", "checkpoint_interval", "save_every"}) {
    f.also_called(name, "checkpoint.every_steps");
  }
  for (const char* name : {"save_total_limit", "max_checkpoints"}) {
    f.also_called(name, "checkpoint.keep");
  }
  f.also_called("load_best_model_at_end", "checkpoint.keep_best",
                "how many of the best checkpoints stay");
  for (const char* name : {"max_seq_length", "max_seq_len", "max_length", "sequence_len", "seq_len",
                           "seq_length", "block_size", "context_length", "cutoff_len"}) {
    f.also_called(name, "data.sequence_length");
  }
  for (const char* name : {"sample_packing", "pack", "pack_sequences"}) {
    f.also_called(name, "data.packing", "with data.document_mask");
  }
  for (const char* name : {"train_file", "train_files", "train_data", "train_dataset", "dataset",
                           "datasets", "dataset_name", "train_data_path"}) {
    f.also_called(name, "data.train", "token files, which strata tokenize makes");
  }
  for (const char* name : {"validation_file", "eval_dataset", "val_data", "eval_file",
                           "validation_dataset", "val_set_size"}) {
    f.also_called(name, "data.validation", "token files, which strata tokenize makes");
  }
  for (const char* name :
       {"eval_steps", "eval_interval", "evaluation_steps", "val_check_interval"}) {
    f.also_called(name, "run.eval_every");
  }
  for (const char* name : {"logging_steps", "log_interval", "log_every_n_steps"}) {
    f.also_called(name, "run.log_every");
  }
  for (const char* name : {"output_dir", "out_dir", "save_dir"}) f.also_called(name, "run.output");
  for (const char* name : {"model_name_or_path", "base_model", "pretrained_model_name_or_path",
                           "model_name", "model_path"}) {
    f.also_called(name, "model.path", "the folder of a Hugging Face model");
  }
  for (const char* name : {"tokenizer_name", "tokenizer_path", "tokenizer_name_or_path"}) {
    f.also_called(name, "model.tokenizer", "a tokenizer file, or a folder with one");
  }
  for (const char* name : {"bf16", "fp16", "fp32", "precision", "torch_dtype", "mixed_precision"}) {
    f.also_called(name, "run.dtype", "bf16, f32 or f64");
  }
  for (const char* name : {"gradient_checkpointing", "activation_checkpointing", "recompute"}) {
    f.also_called(name, "schedule.activations", "auto keeps what there is memory for");
  }
  for (const char* name : {"report_to", "use_wandb", "wandb"}) {
    f.also_called(name, "run.tensorboard", "true or false; metrics.jsonl is written in any case");
  }
  for (const char* name : {"early_stopping_patience", "early_stopping"}) {
    f.also_called(name, "run.patience");
  }
  f.also_called("resume_from_checkpoint", "--resume", "an option of strata train");
  f.also_called("overwrite_output_dir", "--overwrite", "an option of strata train");
  for (const char* name : {"n_layer", "n_layers", "num_layers"}) {
    f.also_called(name, "model.num_hidden_layers");
  }
  for (const char* name : {"n_head", "n_heads", "num_heads"}) {
    f.also_called(name, "model.num_attention_heads");
  }
  for (const char* name : {"n_kv_heads", "n_kv_head", "num_kv_heads"}) {
    f.also_called(name, "model.num_key_value_heads");
  }
  for (const char* name : {"n_embd", "d_model", "dim", "n_embed"}) {
    f.also_called(name, "model.hidden_size");
  }
  for (const char* name : {"ffn_hidden_size", "n_inner", "d_ff"}) {
    f.also_called(name, "model.intermediate_size");
  }
  for (const char* name : {"save_strategy", "save_freq"}) {
    f.also_called(name, "checkpoint.every_steps", "and checkpoint.at_end");
  }
  for (const char* name : {"eval_strategy", "evaluation_strategy"}) {
    f.also_called(name, "run.eval_every", "in steps");
  }
  add_absent_names(f);
}

}  // namespace strata
