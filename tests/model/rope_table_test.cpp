// Tests the angles of rotary embeddings against powers computed by hand, llama3's scaling against
// its bounds, and all scalings against transformers. PyTorch's tables are compared in tests/golden.

#include "strata/model/rope_table.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "strata/model/families.h"
#include "support/catch.h"
#include "support/json.h"
#include "support/places.h"

namespace strata {

TEST_CASE("angles grow with the position and fall with the dimension") {
  LlamaConfig m;
  m.hidden_size = 8;
  m.num_attention_heads = 1;
  m.rope_theta = 16.0;
  const RopeTable table = make_rope_table(spec_of(m).common().attention.rope, 3, 3);
  REQUIRE(table.cos.size() == 12);
  CHECK(table.cos[0] == 1.0);
  // theta^(-2i/8) for i = 0..3: 1, 1/2, 1/4, 1/8.
  for (int i = 0; i < 4; ++i) {
    const double angle = 2.0 / std::pow(2.0, i);
    CHECK(std::abs(table.cos[static_cast<std::size_t>(8 + i)] - std::cos(angle)) < 1e-15);
    CHECK(std::abs(table.sin[static_cast<std::size_t>(8 + i)] - std::sin(angle)) < 1e-15);
  }
}

TEST_CASE("llama3 scaling keeps short waves and slows long ones by the factor") {
  LlamaConfig m;
  m.hidden_size = 128;
  m.num_attention_heads = 1;
  m.rope_theta = 500000.0;
  const RopeTable plain = make_rope_table(spec_of(m).common().attention.rope, 2, 2);
  m.rope_scaling = RopeScaling{.rope_type = RopeType::kLlama3,
                               .factor = 8.0,
                               .low_freq_factor = 1.0,
                               .high_freq_factor = 4.0,
                               .original_max_position_embeddings = 8192};
  const RopeTable scaled = make_rope_table(spec_of(m).common().attention.rope, 2, 2);
  const auto angle = [](const RopeTable& t, std::size_t i) {
    return std::atan2(t.sin[64 + i], t.cos[64 + i]);
  };
  CHECK(angle(scaled, 0) == angle(plain, 0));  // wavelength 2 pi
  CHECK(std::abs(angle(scaled, 63) * 8.0 / angle(plain, 63) - 1.0) < 1e-9);
  for (std::size_t i = 0; i + 1 < 64; ++i) {
    CHECK(angle(scaled, i + 1) < angle(scaled, i));
    CHECK(angle(scaled, i) <= angle(plain, i));
    CHECK(angle(scaled, i) >= angle(plain, i) / 8.0 * (1 - 1e-12));
  }
}

TEST_CASE("scalings have the frequencies and magnitudes of transformers") {
  const auto golden = test::read_json(test::goldens_folder() + "/rope_scaling.json");
  REQUIRE(golden.at("cases").size() == 15);
  for (const auto& expected : golden.at("cases")) {
    CAPTURE(expected.at("name").get<std::string>());
    const nlohmann::json config{{"architectures", {"LlamaForCausalLM"}},
                                {"model_type", "llama"},
                                {"vocab_size", 10},
                                {"hidden_size", 2 * expected.at("head_dim").get<int>()},
                                {"intermediate_size", 10},
                                {"num_hidden_layers", 1},
                                {"num_attention_heads", 2},
                                {"head_dim", expected.at("head_dim")},
                                {"max_position_embeddings", expected.at("max_position_embeddings")},
                                {"rope_parameters", expected.at("rope_parameters")}};
    const LlamaConfig read = parse_llama_config(json_text(config), "config.json");
    const RopeTable table = make_rope_table(spec_of(read).common().attention.rope, 2,
                                            expected.at("row_tokens").get<std::int64_t>());
    const double magnitude = expected.at("magnitude").get<double>();
    const auto& frequencies = expected.at("frequencies");
    const std::size_t half = frequencies.size();
    REQUIRE(table.cos.size() == 2 * half);
    for (std::size_t i = 0; i < half; ++i) {
      CAPTURE(i);
      CHECK(std::abs(table.cos[i] - magnitude) < 1e-12 * magnitude);  // position 0
      const double cos = table.cos[half + i], sin = table.sin[half + i];
      CHECK(std::abs(std::hypot(cos, sin) - magnitude) < 1e-12 * magnitude);
      const auto frequency = frequencies[i].get<double>();  // of f32
      CHECK(std::abs(std::atan2(sin, cos) - frequency) < 2e-6 * frequency);
    }
  }
}

}  // namespace strata
