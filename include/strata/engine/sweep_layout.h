// The sizes of sweeps, and where keys and values live, wherever the weights come from: generation
// has weights of its own, and samples of a run take those that are trained.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strata/model/llama_forward.h"
#include "strata/model/products.h"
#include "strata/schedule/sweep.h"
#include "strata/store/host_attention.h"
#include "strata/store/kv_store.h"
#include "strata/store/memory_plan.h"
#include "strata/store/token_store.h"

namespace strata {

/// Slots for keys and values where they travel: one computes while two load.
inline constexpr int kKvSlots = 3;
/// Slots where the host attends: prompts alone need them, and seldom a fetch.
inline constexpr int kKvSlotsOfPrompts = 2;
/// Slots where the host attends in most layers: all groups of the next other layer travel
/// meanwhile.
inline constexpr int kKvSlotsOfSomeLayers = 4;

/// What generation has to hold. What is absent is decided by the memory that there is.
struct GenerationNeeds {
  DType compute = DType::kBF16;
  KvDType kv_dtype = KvDType::kAuto;
  std::int64_t sequences = 16;  ///< that are continued at once
  std::int64_t context = 2048;  ///< tokens of a sequence, prompt included
  /// Tokens that go through a layer at once; by default 512, or 2048 on a GPU.
  std::optional<std::int64_t> cell_tokens{};
  /// Tokens that go through all layers in a sweep; by default 2048, or 4096 on a GPU.
  std::optional<std::int64_t> sweep_tokens{};
  bool penalties = false;  ///< some sequence has a repeat penalty
  bool scores = false;     ///< tokens are scored, any of a sweep
  std::optional<int> resident_units{};
  std::optional<int> kv_slots{};  ///< 0: keys and values stay on the device
  /// With slots: tokens past their prompts attend on the host, where keys and values are.
  bool host_attention = false;
  int fetched_layers = 0;       ///< with it: layers in which they attend on the device nevertheless
  std::optional<int> groups{};  ///< of sequences; one where keys and values stay
  /// Keys that layers with a window release at once.
  std::int64_t window_step = KvWindow::kStep;
  /// What products of layers multiply, and what is left out of that; see with_products().
  Products products = Products::kPlain;
  std::vector<std::string> plain_products{};
};

/// Returns how many tokens a sweep has room for where nothing else is said.
[[nodiscard]] constexpr std::int64_t usual_sweep_tokens(bool device_is_host) {
  return device_is_host ? 2048 : 4096;
}
/// Returns how many tokens a cell has room for where nothing else is said.
[[nodiscard]] constexpr std::int64_t usual_cell_tokens(bool device_is_host) {
  return device_is_host ? 512 : 2048;
}
/// Returns the sizes of forward for these needs, wherever keys and values live.
[[nodiscard]] ForwardSizes forward_sizes(const GenerationNeeds& needs, bool device_is_host);

/// The sizes of sweeps, and where keys and values live.
struct SweepLayout {
  ModelSpec spec;
  ForwardSizes sizes;
  KvShape kv;
  SweepShape sweep;
  std::int64_t sequences = 0;

  /// Returns what goes to the host, where it attends.
  [[nodiscard]] HostAttentionShape host_attention() const {
    const LayerSpec& layer = spec.common();
    HostAttentionShape shape{.tokens = sweep.tokens,
                             .singles = sequences,
                             .heads = layer.attention.heads,
                             .qkv_width = layer.linear(LinearId::kQkv).out,
                             .scale = layer.attention.scale,
                             .score_cap = layer.attention.score_cap};
    for (int i = 0; i < spec.layers(); ++i) {
      shape.windows.push_back(spec.layer(i).attention.window);
    }
    return shape;
  }
  /// Sets all of them for the spec that is there; keys and values have so many slots, see KvShape.
  void describe_sweeps(const GenerationNeeds& needs, bool device_is_host, int kv_slots);
  /// Lists what a SweepEngine takes, by the constructors that will take it.
  void list_memory(MemoryPlan& plan) const;

 private:
  /// Has layers with a window keep what it sees, if a sequence may be longer.
  void keep_windows(const GenerationNeeds& needs, std::int64_t sequences_of_group);
};

/// Takes the residual stream of a sweep.
[[nodiscard]] SweepStream take_residual_stream(const SweepLayout& setup, Allocator& memory);

}  // namespace strata
