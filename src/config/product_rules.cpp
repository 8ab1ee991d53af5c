// Checks which products may multiply codes in e4m3. A model that is refused elsewhere may have any
// number, so nothing here multiplies two of them.

#include "config/product_rules.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "strata/base/fields.h"
#include "strata/base/text.h"

namespace strata {

void check_products(const RunConfig& config, ConfigProblems& problems) {
  const RunSection& run = config.run;
  const bool plain = run.products == Products::kPlain;
  if (!plain && run.dtype != DType::kBF16) {
    problems.add("run.products",
                 "in e4m3 stand in for products in bf16; set run.dtype or this to \"bf16\"");
  }
  if (plain && !run.products_bf16.empty()) {
    problems.add("run.products_bf16",
                 "names what \"fp8\" and \"fp8_all\" leave out; set run.products to one of them, "
                 "or leave this out");
  }
  const std::int64_t layers = config.model.llama.num_hidden_layers;
  const std::string* const unknown = unknown_products(run.products_bf16, layers);
  if (unknown == nullptr) return;
  problems.add("run.products_bf16", "has \"" + shortened(printable_name(*unknown)) +
                                        "\"; name linears (qkv, attention_out, gate_up, down) or "
                                        "layers (layers.0 to layers." +
                                        std::to_string(layers - 1) + ")");
}

void check_cuda_products(const RunConfig& config, ConfigProblems& problems) {
  const LlamaConfig& m = config.model.llama;
  if (config.run.products == Products::kPlain || m.num_attention_heads < 1) return;
  constexpr std::int64_t kMultiple = 16;  // of what is summed over, and of columns
  const std::string multiple = "a multiple of " + std::to_string(kMultiple);
  const auto check = [&](std::int64_t rest, std::string_view what) {
    if (rest % kMultiple == 0) return;
    problems.add("run.products", "in e4m3 need " + std::string(what) + " to be " + multiple +
                                     " on the cuda backend; set this to \"bf16\"");
  };
  check(m.hidden_size, "model.hidden_size");
  check(m.intermediate_size, "model.intermediate_size");
  const std::int64_t head = m.head_size() % kMultiple;
  const std::int64_t heads = m.num_attention_heads % kMultiple;
  const std::int64_t all_heads = heads + 2 * (m.kv_heads() % kMultiple);
  check(head * heads, "the width of queries");
  check(head * all_heads, "the width of queries, keys and values together");
  const std::int64_t rows = config.schedule.rows % kMultiple;
  const std::int64_t tokens = rows * (config.data.sequence_length % kMultiple);
  const bool sums_over_tokens = config.run.products == Products::kFp8All && !config.adapter;
  if (!sums_over_tokens || tokens % kMultiple == 0) return;
  problems.add("run.products",
               "\"fp8_all\" sums over the tokens of a sub-batch, schedule.rows times "
               "data.sequence_length, which must be " +
                   multiple + " on the cuda backend; change them, or set this to \"fp8\"");
}

}  // namespace strata
