// Tests the counts of FLOPs and the utilisation against numbers worked out by hand.

#include "strata/predict/utilisation.h"

#include <cmath>

#include "strata/model/adapters.h"
#include "strata/model/families.h"
#include "support/catch.h"

namespace strata::test {

TEST_CASE("a token costs six FLOPs per matmul element and those of its causal attention") {
  LlamaConfig c;
  c.vocab_size = 32000;
  c.hidden_size = 4096;
  c.intermediate_size = 11008;
  c.num_hidden_layers = 32;
  c.num_attention_heads = 32;
  // 6738415616 parameters without the embedding and the 65 norms, and 6 * 32 * 4096 * 2048.
  const double matmul = 6.0 * (6738415616.0 - 32000.0 * 4096.0 - 65.0 * 4096.0);
  CHECK(flops_per_token(spec_of(c), 2048) == matmul + 1610612736.0);
  // Of 2048 tokens of a row 1536 see 512 keys: 2048^2 - 1536^2 instead of 2048^2.
  c.model_type = ModelType::kMistral;
  c.sliding_window = 512;
  CHECK(flops_per_token(spec_of(c), 2048) == matmul + 1610612736.0 * 7 / 16);
  CHECK(flops_per_token(spec_of(c), 2048, 0.25) == matmul + 1610612736.0 / 4);
}

TEST_CASE(
    "with adapters a token costs four FLOPs per element of the model, six per one of A and B") {
  LlamaConfig c;
  c.vocab_size = 32000;
  c.hidden_size = 4096;
  c.intermediate_size = 11008;
  c.num_hidden_layers = 32;
  c.num_attention_heads = 32;
  ModelSpec spec = spec_of(c);
  add_adapters(spec, {.rank = 16, .targets = {"q_proj", "down_proj"}, .layers = {0, 31}});
  const double products = 6738415616.0 - 32000.0 * 4096.0 - 65.0 * 4096.0;
  const double adapters = 2 * 16 * (4096.0 + 4096.0 + 11008.0 + 4096.0);
  CHECK(flops_per_token(spec, 2048) == 4 * products + 6 * adapters + 1610612736.0);
  spec.whole = {.embedding = true, .projection = true};  // of which the second one is a product
  CHECK(flops_per_token(spec, 2048) ==
        4 * products + 2 * 32000.0 * 4096.0 + 6 * adapters + 1610612736.0);
}

TEST_CASE("utilisation is the share of the peak of all ranks") {
  const auto mfu = model_flops_utilisation(4e10, 10000.0, 989.4, 2);
  REQUIRE(mfu.has_value());
  CHECK(std::abs(*mfu - 4e14 / (2 * 989.4e12)) < 1e-12);
  CHECK_FALSE(model_flops_utilisation(4e10, 10000.0, 0.0, 2).has_value());
}

}  // namespace strata::test
