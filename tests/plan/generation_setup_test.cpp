// Tests what generation keeps on the device as memory shrinks, and what it says when nothing fits.

#include "strata/plan/generation_setup.h"

#include <algorithm>
#include <string>

#include "strata/base/bytes.h"
#include "support/catch.h"

namespace strata::test {
namespace {

LlamaConfig small_llama() {
  LlamaConfig m;
  m.vocab_size = 1000;
  m.hidden_size = 256;
  m.intermediate_size = 512;
  m.num_hidden_layers = 8;
  m.num_attention_heads = 4;
  m.num_key_value_heads = 2;
  m.max_position_embeddings = 4096;
  return m;
}

const GenerationNeeds kNeeds{.compute = DType::kBF16, .sequences = 8, .context = 1024};

GenerationSetup within(std::size_t device_bytes) {
  Budget budget;
  budget.device_limit = device_bytes;
  return make_generation_setup(small_llama(), kNeeds, budget);
}

}  // namespace

TEST_CASE("without a limit all of a model is resident, and has weights alone") {
  const GenerationSetup s = make_generation_setup(small_llama(), kNeeds, {});
  CHECK(s.resident_units == 10);
  CHECK(s.kv.slots == 0);
  CHECK(s.plan.bytes(Space::kDevice, "kv") == std::size_t{8} * 8 * 1024 * 2 * 2 * 64 * 2);
  CHECK(s.plan.bytes(Space::kDevice, "state.weight") >=
        2 * static_cast<std::size_t>(small_llama().parameter_count()));
  CHECK(s.plan.bytes(Space::kPinned, "state.m") == 0);
  CHECK(s.plan.bytes(Space::kDevice, "weights.layers") == 0);
  CHECK_THAT(s.to_string(), ContainsSubstring("10 of 10 units resident") &&
                                ContainsSubstring("keys and values on the device"));
}

TEST_CASE("int8 keys and values take half of the memory, and scratch for a layer of a group") {
  GenerationNeeds needs = kNeeds;
  needs.kv_dtype = KvDType::kInt8;
  const GenerationSetup s = make_generation_setup(small_llama(), needs, {});
  const std::size_t rows = 8 * 1024;
  CHECK(s.plan.bytes(Space::kDevice, "kv") == 8 * rows * 2 * 2 * (64 + 4));
  CHECK(s.plan.bytes(Space::kDevice, "scratch.keys") == rows * 2 * 64 * 2);
  CHECK(s.plan.bytes(Space::kDevice, "scratch.values") == rows * 2 * 64 * 2);
  CHECK_THAT(s.to_string(), ContainsSubstring("keys and values as int8 on the device"));
  const GenerationSetup exact = make_generation_setup(small_llama(), kNeeds, {});
  CHECK(exact.plan.bytes(Space::kDevice, "scratch.keys") == 0);
  CHECK(s.device_bytes() < exact.device_bytes());
}

TEST_CASE("weights leave the device before keys and values do, and those last") {
  const std::size_t all = make_generation_setup(small_llama(), kNeeds, {}).device_bytes();
  int resident = 10;
  std::size_t limit = all;
  bool streamed = false;
  for (; resident > 0 || !streamed; limit -= 256 * kKiB) {
    const GenerationSetup s = within(limit);
    CHECK(s.device_bytes() <= limit);
    if (s.kv.slots > 0) break;
    CHECK(s.resident_units <= resident);
    resident = s.resident_units;
    streamed |= s.plan.bytes(Space::kDevice, "weights.layers") > 0;
  }
  CHECK(streamed);
  const GenerationSetup fetched = within(limit);
  REQUIRE(fetched.kv.slots > 0);
  CHECK(fetched.kv.groups > 1);
  CHECK(fetched.plan.bytes(Space::kPinned, "kv") >= std::size_t{8} * 8 * 1024 * 2 * 2 * 64 * 2);
  CHECK(fetched.plan.bytes(Space::kDevice, "kv") == 0);
}

TEST_CASE(
    "resident layers are spread over the model, the head comes first and the embedding last") {
  GenerationNeeds needs = kNeeds;
  const auto homes_of = [&](int resident, bool tied) {
    needs.resident_units = resident;
    LlamaConfig model = small_llama();
    model.tie_word_embeddings = tied;
    const GenerationSetup s = make_generation_setup(model, needs, {});
    CHECK(s.travelling_units() == std::max(0, 9 - resident));
    std::string homes;
    for (const BlockPlan& row : s.state.blocks) homes += row.weight == Home::kDevice ? 'd' : 'p';
    return homes;
  };
  CHECK(homes_of(0, false) == "pppppppppp");
  CHECK(homes_of(1, false) == "pppppppppd");
  CHECK(homes_of(5, false) == "ppdpdpdpdd");
  CHECK(homes_of(9, false) == "pddddddddd");
  CHECK(homes_of(10, false) == "dddddddddd");
  CHECK(homes_of(0, true) == "pppppppppp");
  CHECK(homes_of(1, true) == "dppppppppd");
  CHECK(homes_of(9, true) == "dddddddddd");
}

TEST_CASE("an embedding that is not resident takes no memory of the device") {
  GenerationNeeds needs = kNeeds;
  const auto device_bytes = [&](int resident) {
    needs.resident_units = resident;
    const GenerationSetup s = make_generation_setup(small_llama(), needs, {});
    CHECK(s.plan.bytes(Space::kDevice, "weights.embedding") == 0);
    return s.device_bytes();
  };
  const std::size_t table = std::size_t{1000} * 256 * 2;
  CHECK(device_bytes(10) - device_bytes(9) == table);
  needs.resident_units = 9;
  CHECK_THAT(make_generation_setup(small_llama(), needs, {}).to_string(),
             ContainsSubstring("9 of 10 units resident, rows of the embedding read on the host"));
}

TEST_CASE("what fits nowhere is refused with what would help") {
  CHECK_THROWS_WITH(within(kMiB), ContainsSubstring("on the device at least; the limit is 1 MiB") &&
                                      ContainsSubstring("8 sequences of 1,024 tokens") &&
                                      ContainsSubstring("lower --batch or --context"));
  Budget host;
  host.device_is_host = true;
  host.host_limit = kMiB;
  CHECK_THROWS_WITH(make_generation_setup(small_llama(), kNeeds, host),
                    ContainsSubstring("on the host at least"));
}

}  // namespace strata::test
