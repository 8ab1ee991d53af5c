// Tests weights in 4 bits against what bitsandbytes makes of the same matrix, bit by bit.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "golden/golden_file.h"
#include "strata/engine/state_choices.h"
#include "strata/model/adapters.h"
#include "strata/model/families.h"
#include "strata/ops/nf4.h"
#include "strata/store/packed_block.h"
#include "strata/store/training_state.h"
#include "support/catch.h"
#include "support/lane_machine.h"
#include "support/tiny_model.h"

namespace strata::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::vector<float> as_f32(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

std::vector<std::int32_t> as_integers(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

/// Returns a matrix from what a layer's packed block has of it, decoded element by element.
std::vector<float> decoded(const PackedMatrix& m, const std::byte* packed) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(packed + m.codes);
  const auto* scales = reinterpret_cast<const std::uint8_t*>(packed + m.scales);
  const auto* groups = reinterpret_cast<const float*>(packed + m.groups);
  const auto* tables = reinterpret_cast<const float*>(packed + m.tables);
  std::vector<float> values;
  for (std::int64_t i = 0; i < m.elements(); ++i) {
    const int code = i % 2 == 0 ? codes[i / 2] / 16 : codes[i / 2] % 16;
    const float product = tables[17 + scales[i / 64]] * groups[i / (64 * 256)];
    values.push_back(tables[1 + code] * (product + tables[0]));
  }
  return values;
}

}  // namespace

TEST_CASE("levels, scales and codes of 4 bits are those of bitsandbytes") {
  const GoldenFile golden(golden_data() / "nf4.safetensors");
  const Nf4Values nf4 = nf4_values();
  CHECK(std::ranges::equal(nf4.levels, as_f32(golden.values("levels"))));
  CHECK(std::ranges::equal(nf4.scale_values, as_f32(golden.values("scale_values"))));

  const std::vector<float> weight = as_f32(golden.values("weight"));
  Bytes codes(weight.size() / 2);
  std::vector<float> scales;
  for (std::size_t at = 0; at < weight.size(); at += 64) {
    scales.push_back(quantize_nf4_block(nf4, std::span(weight).subspan(at, 64),
                                        std::span(codes).subspan(at / 2, 32)));
  }
  CHECK(as_integers(codes) == golden.integers("codes"));

  const float offset = nf4_offset(scales);
  CHECK(offset == static_cast<float>(golden.scalar("offset")));
  Bytes scale_codes(scales.size());
  std::vector<float> groups;
  for (std::size_t at = 0; at < scales.size(); at += 256) {
    const std::size_t size = std::min<std::size_t>(256, scales.size() - at);
    groups.push_back(quantize_nf4_scales(nf4, offset, std::span(scales).subspan(at, size),
                                         std::span(scale_codes).subspan(at, size)));
  }
  CHECK(as_integers(scale_codes) == golden.integers("scales"));
  CHECK(groups == as_f32(golden.values("groups")));

  std::vector<float> back;
  for (std::size_t i = 0; i < weight.size(); ++i) {
    const int code = i % 2 == 0 ? codes[i / 2] / 16 : codes[i / 2] % 16;
    const float product = nf4.scale_values.at(scale_codes[i / 64]) * groups[i / (64 * 256)];
    back.push_back(nf4.levels.at(static_cast<std::size_t>(code)) * (product + offset));
  }
  CHECK(back == as_f32(golden.values("decoded")));
}

TEST_CASE("a block of zeros becomes zeros in 4 bits") {
  const Nf4Values nf4 = nf4_values();
  const std::vector<float> block(64, 0.0F);
  Bytes codes(32);
  CHECK(quantize_nf4_block(nf4, block, codes) == 0);
  for (const std::uint8_t pair : codes) {
    CHECK(nf4.levels.at(pair / 16) == 0);
    CHECK(nf4.levels.at(pair % 16) == 0);
  }
}

TEST_CASE("shards of packed blocks are parts of one, whatever the ranks, and near the weights") {
  LlamaConfig model = tiny_model();
  model.hidden_size = 64;
  model.intermediate_size = 80;
  model.head_dim = 16;
  ModelSpec spec = spec_of(model);
  add_adapters(spec, {});
  const ModelLayout layout = make_layout(spec);
  const auto plan = [&](int rank, int ranks, Form form) {
    return plan_state(layout,
                      {.compute = DType::kF32, .base_form = form, .rank = rank, .ranks = ranks});
  };
  const BlockId block = layout.block_of_layer(1);
  const auto bytes_of = [&](int rank, int ranks, Form form) {
    LaneMachine machine;
    TrainingState state(layout, plan(rank, ranks, form), machine.arenas());
    state.initialize(3, 0.5, machine.pool());
    const TensorView& weight = state.block(block).weight;
    const auto* first = static_cast<const std::byte*>(weight.data);
    return std::vector<std::byte>(first, first + weight.bytes().bytes);
  };
  for (const Form form : {Form::kNf4, Form::kFp8, Form::kInt8}) {
    INFO(std::string(name_of(form)));
    const std::vector<std::byte> whole = bytes_of(0, 1, form);
    for (const int ranks : {2, 3}) {
      std::vector<std::byte> joined;
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<std::byte> shard = bytes_of(rank, ranks, form);
        joined.insert(joined.end(), shard.begin(), shard.end());
      }
      REQUIRE(joined.size() >= whole.size());
      CHECK(std::equal(whole.begin(), whole.end(), joined.begin()));
    }
  }

  LaneMachine machine;
  TrainingState plain(layout, plan(0, 1, Form::kPlain), machine.arenas());
  plain.initialize(3, 0.5, machine.pool());
  const std::vector<double> weights = plain.master(block);
  const std::vector<std::byte> whole = bytes_of(0, 1, Form::kNf4);
  const PackedBlock packed(layout.blocks[block], Form::kNf4, DType::kF32);
  for (const PackedMatrix& m : packed.matrices) {
    const std::vector<float> back = decoded(m, whole.data());
    for (std::size_t begin = 0; begin < back.size(); begin += 64) {
      const auto* const first = &weights[static_cast<std::size_t>(m.begin) + begin];
      double largest = 0;
      for (int i = 0; i < 64; ++i) largest = std::max(largest, std::abs(first[i]));
      for (int i = 0; i < 64; ++i) {
        // Half of the widest step between levels, and what the scale is off by.
        const double off =
            static_cast<double>(back[begin + static_cast<std::size_t>(i)]) - first[i];
        REQUIRE(std::abs(off) <= (0.153 + 0.03) * largest);
      }
    }
  }
}

}  // namespace strata::test
