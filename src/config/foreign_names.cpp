// Lists the names that other trainers give to keys. Names that differ from the key by a slip alone
// are found without a row (strata/base/suggestion.h); a remark says where the value is not the same
// number.

#include "config/foreign_names.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace strata {

namespace {

struct ForeignNames {
  std::string_view names;  ///< with a space between two
  std::string_view key;    ///< which they are here; empty: a config does not set it
  /// What the value is; without a key where else it is set, if anywhere.
  std::string_view remark = {};
};

constexpr ForeignNames kForeignNames[] = {
    {"learning_rate max_lr peak_lr", "optimizer.lr"},
    {"num_train_epochs num_epochs n_epochs epoch", "run.epochs"},
    {"max_steps max_iters num_steps train_steps max_steps_per_epoch total_steps", "run.steps",
     "optimizer steps of the whole run"},
    {"per_device_train_batch_size train_batch_size micro_batch_size batch_size "
     "train_micro_batch_size_per_gpu device_batch_size",
     "schedule.rows",
     "rows that a GPU computes at once; a step has rows * sub_batches * passes of them on each "
     "rank"},
    {"gradient_accumulation_steps grad_accum_steps grad_accum accumulate_grad_batches",
     "schedule.sub_batches",
     "or schedule.passes, where a step is larger than activations have memory for"},
    {"global_batch_size total_batch_size effective_batch_size", "schedule.step_rows",
     "in rows, of all ranks together"},
    {"warmup_ratio warmup warmup_iters lr_warmup_iters num_warmup_steps warmup_fraction",
     "optimizer.warmup_steps", "a number of steps"},
    {"max_grad_norm gradient_clip_val clip_grad gradient_clipping clip_grad_norm",
     "optimizer.grad_clip"},
    {"lr_scheduler_type lr_scheduler lr_decay_style", "optimizer.lr_schedule",
     "constant, linear, cosine or wsd"},
    {"min_lr min_lr_rate lr_min", "optimizer.min_lr_ratio", "a share of optimizer.lr"},
    {"beta1 beta2 adam_beta1 adam_beta2", "optimizer.betas", "a list of both"},
    {"adam_epsilon adam_eps epsilon", "optimizer.eps"},
    {"wd", "optimizer.weight_decay"},
    {"save_steps save_interval checkpoint_interval save_every", "checkpoint.every_steps"},
    {"save_total_limit max_checkpoints", "checkpoint.keep"},
    {"load_best_model_at_end", "checkpoint.keep_best", "how many of the best checkpoints stay"},
    {"max_seq_length max_seq_len max_length sequence_len seq_len seq_length block_size "
     "context_length cutoff_len",
     "data.sequence_length"},
    {"sample_packing pack pack_sequences", "data.packing", "with data.document_mask"},
    {"train_file train_files train_data train_dataset dataset datasets dataset_name "
     "train_data_path",
     "data.train", "token files, which strata tokenize makes"},
    {"validation_file eval_dataset val_data eval_file validation_dataset val_set_size",
     "data.validation", "token files, which strata tokenize makes"},
    {"eval_steps eval_interval evaluation_steps val_check_interval", "run.eval_every"},
    {"logging_steps log_interval log_every_n_steps", "run.log_every"},
    {"output_dir out_dir save_dir", "run.output"},
    {"model_name_or_path base_model pretrained_model_name_or_path model_name model_path",
     "model.path", "the folder of a Hugging Face model"},
    {"tokenizer_name tokenizer_path tokenizer_name_or_path", "model.tokenizer",
     "a tokenizer file, or a folder with one"},
    {"fp8", "run.products", "fp8 or fp8_all"},
    {"bf16 fp16 fp32 precision torch_dtype mixed_precision", "run.dtype", "bf16, f32 or f64"},
    {"gradient_checkpointing activation_checkpointing recompute", "schedule.activations",
     "auto keeps what there is memory for"},
    {"report_to use_wandb wandb", "run.tensorboard",
     "true or false; metrics.jsonl is written in any case"},
    {"early_stopping_patience early_stopping", "run.patience"},
    {"lora_r lora_rank", "adapter.rank"},
    {"lora_alpha", "adapter.alpha"},
    {"use_rslora", "adapter.rslora"},
    {"lora_target_modules target_modules", "adapter.targets",
     "a list of names, or [\"all-linear\"]"},
    {"layers_to_transform", "adapter.layers"},
    {"load_in_4bit bnb_4bit_quant_type bnb_4bit_use_double_quant", "adapter.base_format",
     "\"nf4\" is 4-bit NormalFloat with double quantisation"},
    {"load_in_8bit", "adapter.base_format", "\"int8\", or \"fp8\" for products in e4m3"},
    {"resume_from_checkpoint", "--resume", "an option of strata train"},
    {"overwrite_output_dir", "--overwrite", "an option of strata train"},
    {"n_layer n_layers num_layers", "model.num_hidden_layers"},
    {"n_head n_heads num_heads", "model.num_attention_heads"},
    {"n_kv_heads n_kv_head num_kv_heads", "model.num_key_value_heads"},
    {"n_embd d_model dim n_embed", "model.hidden_size"},
    {"ffn_hidden_size n_inner d_ff", "model.intermediate_size"},
    {"save_strategy save_freq", "checkpoint.every_steps", "and checkpoint.at_end"},
    {"eval_strategy evaluation_strategy", "run.eval_every", "in steps"},
    {"lora_modules_to_save modules_to_save", "adapter.modules_to_save"},
    {"lora_dropout", "adapter.dropout"},
    {"use_dora", {}, "adapters are trained without it; the section adapter has what there is"},
    {"use_lora use_peft peft peft_config lora qlora",
     {},
     "a section adapter has adapters trained in place of all weights"},
    {"quantization", {}, "weights are computed in what run.dtype says"},
    {"deepspeed fsdp fsdp_config zero_stage zero_optimization",
     {},
     "state is on the host and sharded over the ranks of mpirun without a key; strata plan shows "
     "what goes where"},
    {"optim optimizer_type", "optimizer.kind", "adamw, lion, sgd or muon"},
    {"chat_template train_on_inputs train_on_prompt dataset_text_field assistant_only_loss "
     "completion_only_loss",
     {},
     "strata tokenize has options for it: --chat-template, --loss and --text-field"},
    {"architectures model_type",
     {},
     "it is a model's; a run config names the model's folder by model.path"},
};

}  // namespace

void add_foreign_names(FieldList& f) {
  for (const auto& [names, key, remark] : kForeignNames) {
    for (std::size_t begin = 0; begin < names.size();) {
      const std::size_t end = std::min(names.find(' ', begin), names.size());
      f.also_called(names.substr(begin, end - begin), key, remark);
      begin = end + 1;
    }
  }
}

}  // namespace strata
