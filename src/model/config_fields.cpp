// Lists the fields of a LLaMA with the limits of its sizes.

#include "config_limits.h"
#include "strata/base/fields.h"
#include "strata/model/config.h"

namespace strata {

void RopeScaling::fields(FieldList& f) {
  f.choice(
      "rope_type", rope_type, kRopeTypeNames,
      "Says how wavelengths are scaled: default changes nothing, linear stretches all of them, "
      "yarn and llama3 stretch long ones, as Qwen2.5 and Llama 3.1 do for rows longer than they "
      "were first trained on, and longrope stretches each by its own factor, as Phi-3 does. "
      "dynamic stretches nothing in rows of up to "
      "max_position_embeddings, which no row exceeds.");
  f.add("factor", factor, "Sets what wavelengths are multiplied by. Raise it for longer rows.");
  f.add("low_freq_factor", low_freq_factor,
        "Sets which wavelengths are long for llama3: those above original_max_position_embeddings "
        "over this are stretched in full. It belongs to a model's weights.");
  f.add("high_freq_factor", high_freq_factor,
        "Sets which wavelengths are short for llama3: those below original_max_position_embeddings "
        "over this stay, and between the two the factor rises. It belongs to a model's weights.");
  f.add("original_max_position_embeddings", original_max_position_embeddings,
        "Says how many tokens the longest row had before the stretching. It belongs to a model's "
        "weights.");
  f.add("beta_fast", beta_fast,
        "Sets which wavelengths are short for yarn: those that turn more often than this in "
        "original_max_position_embeddings stay. It belongs to a model's weights.");
  f.add(
      "beta_slow", beta_slow,
      "Sets which wavelengths are long for yarn: those that turn less often than this are "
      "stretched in full, and between the two the factor rises. It belongs to a model's weights.");
  f.add("truncate", truncate,
        "Has yarn move both bounds outwards to whole dimensions. It belongs to a model's weights.");
  f.add(
      "attention_factor", attention_factor,
      "Sets what yarn and longrope multiply cosines and sines by. Absent, it follows from factor: "
      "0.1 ln(factor) + 1, and for longrope sqrt(1 + ln(factor) / "
      "ln(original_max_position_embeddings)). It belongs to a model's weights.");
  f.add(
      "mscale", mscale,
      "Sets, with mscale_all_dim, what attention_factor follows from where it is absent: "
      "(0.1 mscale ln(factor) + 1) / (0.1 mscale_all_dim ln(factor) + 1). It belongs to a model's "
      "weights.");
  f.add("mscale_all_dim", mscale_all_dim, "See mscale. It belongs to a model's weights.");
  f.add("short_factor", short_factor,
        "Sets what longrope multiplies each wavelength by in rows of up to "
        "original_max_position_embeddings tokens. It belongs to a model's weights.");
  f.add("long_factor", long_factor,
        "Sets what longrope multiplies each wavelength by in longer rows of training; generation "
        "has none. It belongs to a model's weights.");
}

namespace {

void add_sizes(LlamaConfig& c, FieldList& f) {
  f.add("vocab_size", c.vocab_size,
        "Says how many rows embedding and head have, one for each id of the tokenizer. Required. "
        "With model.path, set it above that model's to begin with rows for tokens that strata "
        "tokenizer add has added: each is the mean of the rows that are there.")
      .require()
      .from(1);
  f.add("hidden_size", c.hidden_size,
        "Sets the width of the residual stream in elements. Required.")
      .require()
      .from(1, kMostWidth);
  f.add("intermediate_size", c.intermediate_size,
        "Sets the width of the SwiGLU feed-forward in elements. Required; 8/3 of hidden_size is "
        "usual.")
      .require()
      .from(1, kMostWidth);
  f.add("num_hidden_layers", c.num_hidden_layers, "Says how many layers the model has. Required.")
      .require()
      .from(1, kMostLayers);
  f.add("num_attention_heads", c.num_attention_heads,
        "Says how many query heads attention has. Required; hidden_size over 128 is usual.")
      .require()
      .from(1, kMostHeads);
  f.add("num_key_value_heads", c.num_key_value_heads,
        "Says how many key and value heads attention has, a divisor of the query heads; null takes "
        "as many. Fewer, as in Llama 3, save parameters and activations.")
      .from(1, kMostHeads);
  f.add("head_dim", c.head_dim,
        "Sets the width of a head in elements; null takes hidden_size / num_attention_heads. Set "
        "it for models whose heads are not cut out of the residual stream's width.")
      .from(1, kMostHeadDim);
}

}  // namespace

void LlamaConfig::fields(FieldList& f) {
  f.choice(
      "model_type", model_type, kModelTypeNames,
      "Says of which family the model is, as its config.json does. Checkpoints and exports "
      "differ in the class that they name. Beside that, phi3 has q, k and v in one tensor and "
      "gate and up in another, qwen2 has biases on q, k and v, qwen3 normalises their heads of q "
      "and k, granite has multipliers, olmo2 has its norms after what they were before and norms "
      "of q and k, seed_oss has biases of its own, gemma has GELU and other norms, smollm3 has "
      "layers that do not rotate, and glm4 has norms before and after, and rotates neighbours. "
      "ministral, exaone4, olmo3, gemma2 and gemma3_text have layers with windows and others "
      "without, and ministral3 scales queries of late positions. Set it to have a new model in the "
      "files of a family.");
  add_sizes(*this, f);
  f.add("max_position_embeddings", max_position_embeddings,
        "Says how many tokens the longest row has that the model is made for. Raise it to train "
        "with a data.sequence_length above it, which is refused.")
      .from(1);
  f.add("rope_theta", rope_theta,
        "Sets the base of the rotary embedding's wavelengths. Raise it for a model of long rows.")
      .above(0);
  f.add(
       "rope_local_base_freq", rope_local_base_freq,
       "Sets the base of the wavelengths in layers with a window, which rope_scaling leaves alone. "
       "It belongs to a model's weights, and of the families only gemma3_text has it.")
      .above(0);
  f.add("rope_scaling", rope_scaling,
        "Scales the rotary embedding's wavelengths; null scales none. Set it for models that were "
        "stretched to longer rows, such as Llama 3.1.");
  f.add("partial_rotary_factor", partial_rotary_factor,
        "Sets the share of each head that is rotated, from its first element on. It belongs to a "
        "model's weights, and of the families only phi3 and glm4 have it.")
      .above(0);
  f.add("llama_4_scaling_beta", llama_4_scaling_beta,
        "Says by how much queries grow after the original_max_position_embeddings of a "
        "rope_scaling of yarn; rows that are longer are refused. It belongs to a model's weights, "
        "and of the families only ministral3 has it.")
      .at_least(0);
  f.add("no_rope_layers", no_rope_layers,
        "Says for each layer whether it rotates queries and keys, 1 or 0; null has every fourth "
        "layer of smollm3 not rotate. It belongs to a model's weights, and of the families only "
        "smollm3 has it.");
  f.add(
       "sliding_window", sliding_window,
       "Sets how many tokens attention sees, the own one and those before it; null has it see all. "
       "It belongs to a model's weights, and of the families only mistral, ministral, phi3, qwen2, "
       "qwen3, exaone4, olmo3, gemma2 and gemma3_text have it.")
      .from(1);
  f.add("layer_types", layer_types,
        "Says for each layer whether it has the sliding_window, sliding_attention or "
        "full_attention; null gives it to all, but of exaone4 and olmo3 not to every fourth layer, "
        "of gemma2 not to every second and of gemma3_text not to every sixth. It belongs to a "
        "model's weights, and of the families only those, ministral, qwen2 and qwen3 have it.");
  f.add("rms_norm_eps", rms_norm_eps,
        "Sets what RMSNorm adds to the mean square. It belongs to a model's weights.")
      .above(0);
  f.add("tie_word_embeddings", tie_word_embeddings,
        "Lets the head use the embedding's weights. Set it for small models, where it saves a "
        "large share of the parameters.");
  f.add("attention_bias", attention_bias,
        "Gives q, k, v and the projection after attention biases. It belongs to a model's weights, "
        "and of the families only llama, qwen3, olmo2, olmo3, seed_oss, gemma, gemma2, "
        "gemma3_text, smollm3 and glm4 have it; qwen2 has its biases without it, seed_oss has "
        "attention_out_bias for the projection, and glm4 has none there.");
  f.add("mlp_bias", mlp_bias,
        "Gives gate, up and down biases. It belongs to a model's weights, and of the families only "
        "llama, seed_oss and smollm3 have it.");
  f.add("initializer_range", initializer_range,
        "Sets the standard deviation of random initial weights. Lower it if the first steps of a "
        "large model are not stable.")
      .at_least(0);
  f.add("embedding_multiplier", embedding_multiplier,
        "Sets what rows of the embedding are multiplied by. It belongs to a model's weights, and "
        "of the families only granite has it.")
      .above(0);
  f.add("residual_multiplier", residual_multiplier,
        "Sets what attention and the feed-forward are multiplied by before they are added to the "
        "residual stream. It belongs to a model's weights, and of the families only granite has "
        "it.")
      .above(0);
  f.add("attention_multiplier", attention_multiplier,
        "Sets what scores of attention are multiplied by; null takes 1 / sqrt(head_dim). It "
        "belongs to a model's weights, and of the families only granite has it.")
      .above(0);
  f.add("logits_scaling", logits_scaling,
        "Sets what logits are divided by. It belongs to a model's weights, and of the families "
        "only granite has it.")
      .above(0);
  f.add("query_pre_attn_scalar", query_pre_attn_scalar,
        "Sets what scores of attention are divided by the square root of; null takes head_dim. It "
        "belongs to a model's weights, and of the families only gemma2 and gemma3_text have it.")
      .from(1);
  f.add("attn_logit_softcapping", attn_logit_softcapping,
        "Caps scores of attention: c becomes a smooth limit, c tanh(score / c). It belongs to a "
        "model's weights, and of the families only gemma2 has it.")
      .above(0);
  f.add("final_logit_softcapping", final_logit_softcapping,
        "Caps logits in the same way. It belongs to a model's weights, and of the families only "
        "gemma2 and gemma3_text have it.")
      .above(0);
  f.add("attention_out_bias", attention_out_bias,
        "Gives the projection after attention a bias. It belongs to a model's weights, and of the "
        "families only seed_oss has it.");
}

}  // namespace strata
