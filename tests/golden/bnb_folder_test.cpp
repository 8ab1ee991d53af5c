// Tests matrices that files hold in 4 bits against what bitsandbytes makes of them, bit by bit, and
// that packed blocks have the codes and scales of the files. Training over such files is compared
// in adapter_test.cpp.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "golden/golden_file.h"
#include "strata/engine/state_choices.h"
#include "strata/model/adapters.h"
#include "strata/model/families.h"
#include "strata/model/safetensors.h"
#include "strata/store/packed_block.h"
#include "strata/store/training_state.h"
#include "support/catch.h"
#include "support/lane_machine.h"

namespace strata::test {
namespace {

/// Reads a tensor of bnb_matrices.safetensors, or of a folder, from an element on.
std::vector<double> read_from(const StoredNf4& matrix, std::int64_t first, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  matrix.read(first, std::span(values));
  return values;
}

/// Returns a matrix of a file that is in 4 bits.
StoredNf4 matrix_of(const SafetensorsFile& file, const std::string& name) {
  StoredNf4::Parts parts;
  for (const std::string_view part : StoredNf4::kParts) {
    const std::string of_part = name + "." + std::string(part);
    if (file.contains(of_part)) parts.emplace(part, FileTensor{.file = &file, .name = of_part});
  }
  return {FileTensor{.file = &file, .name = name}, parts};
}

/// The bytes of a tensor, as its file has them.
std::vector<std::byte> raw(const SafetensorsFile& file, const std::string& name) {
  std::vector<std::byte> bytes(file.entry(name).bytes);
  file.read_bytes(name, 0, bytes);
  return bytes;
}

/// Returns whether the bytes from `at` on are these.
bool has_at(const std::vector<std::byte>& all, std::size_t at,
            const std::vector<std::byte>& expected) {
  return at + expected.size() <= all.size() &&
         std::equal(expected.begin(), expected.end(),
                    all.begin() + static_cast<std::ptrdiff_t>(at));
}

/// Returns the shards of a packed block of all ranks, one after the other.
std::vector<std::byte> packed_block(const ModelLayout& layout, BlockId block,
                                    const SafetensorsDirectory& files, int ranks) {
  std::vector<std::byte> joined;
  for (int rank = 0; rank < ranks; ++rank) {
    LaneMachine machine;
    const StatePlan plan = plan_state(
        layout, {.compute = DType::kBF16, .base_form = Form::kNf4, .rank = rank, .ranks = ranks});
    TrainingState state(layout, plan, machine.arenas());
    state.load(files, machine.pool());
    const TensorView& weight = state.block(block).weight;
    const auto* first = static_cast<const std::byte*>(weight.data);
    joined.insert(joined.end(), first, first + weight.bytes().bytes);
  }
  return joined;
}

}  // namespace

TEST_CASE("matrices in 4 bits have the numbers that bitsandbytes makes of them") {
  const SafetensorsFile file(golden_data() / "bnb_matrices.safetensors");
  const GoldenFile golden(golden_data() / "bnb_matrices.safetensors");
  for (const std::string name : {"groups", "half", "single"}) {
    INFO(name);
    const StoredNf4 matrix = matrix_of(file, name + ".weight");
    const std::vector<double> expected = golden.values(name + ".decoded");
    CHECK(matrix.dtype() == file.info(name + ".decoded").dtype);
    CHECK(matrix.shape() == file.info(name + ".decoded").shape);
    CHECK(read_from(matrix, 0, matrix.elements()) == expected);
    CHECK_FALSE(matrix.has_parts());
    for (const std::int64_t first : {1, 62, 127}) {
      const std::vector<double> slice = read_from(matrix, first, 101);
      CHECK(std::equal(slice.begin(), slice.end(), expected.begin() + first));
    }
    std::vector<double> beyond(2);
    CHECK_THROWS_WITH(matrix.read(matrix.elements() - 1, std::span(beyond)),
                      ContainsSubstring(name + ".weight"));
  }
}

TEST_CASE("a folder in 4 bits has the weights that bitsandbytes makes of it") {
  const SafetensorsDirectory files(golden_data() / "bnb_phi3");
  const GoldenFile golden(golden_data() / "bnb_phi3/expected.safetensors");
  std::size_t matrices = 0;
  for (const std::string& name : golden.tensors()) {
    if (!name.starts_with("decoded/")) continue;
    const std::string tensor = name.substr(name.find('/') + 1);
    INFO(tensor);
    ++matrices;
    REQUIRE(files.in_4_bits(tensor) != nullptr);
    CHECK(files.info(tensor).dtype == StoredType::kBF16);
    std::vector<double> values(static_cast<std::size_t>(files.info(tensor).elements));
    files.read(tensor, 0, std::span(values));
    CHECK(values == golden.values(name));
  }
  CHECK(matrices == 4);
  CHECK(files.in_4_bits("lm_head.weight") == nullptr);
  CHECK(files.tensors().size() == matrices + 5);
}

TEST_CASE("packed blocks have the codes and scales of a folder in 4 bits, whatever the ranks") {
  for (const std::string name : {"bnb_mha", "bnb_phi3"}) {
    const std::filesystem::path folder = golden_data() / name;
    ModelSpec spec = spec_of(load_llama_config(folder / "config.json"));
    add_adapters(spec, {});
    const ModelLayout layout = make_layout(spec);
    const SafetensorsDirectory files(folder);
    const SafetensorsFile file(folder / "model.safetensors");
    const BlockId id = layout.block_of_layer(0);
    const PackedBlock packed(layout.blocks[id], Form::kNf4, DType::kBF16);
    for (const int ranks : {1, 2, 3}) {
      const std::vector<std::byte> bytes = packed_block(layout, id, files, ranks);
      for (const PackedMatrix& m : packed.matrices) {
        const SourceRun run = source_runs(layout.blocks[id], m.begin, m.begin + 1, 1).at(0);
        const std::string& tensor = run.source->name;
        INFO(tensor << ", " << ranks << " ranks");
        CHECK(has_at(bytes, m.codes, raw(file, tensor)));
        CHECK(has_at(bytes, m.scales, raw(file, tensor + ".absmax")));
        CHECK(has_at(bytes, m.groups, raw(file, tensor + ".nested_absmax")));
        CHECK(has_at(bytes, m.tables + 4, raw(file, tensor + ".quant_map")));
        CHECK(has_at(bytes, m.tables + 4 + 64, raw(file, tensor + ".nested_quant_map")));
      }
    }
  }
}

}  // namespace strata::test
