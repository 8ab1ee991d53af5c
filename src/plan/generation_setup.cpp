// Makes the setup of generation: tries layouts from the one that keeps everything on the device to
// the one that keeps nothing there, and takes the first that fits.

#include "strata/plan/generation_setup.h"

#include <algorithm>
#include <utility>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/narrow.h"
#include "strata/base/spread.h"
#include "strata/base/text.h"
#include "strata/model/families.h"

namespace strata {

namespace {

constexpr int kWeightSlots = 3;  // one computes while two load
// Where the host attends, the layer before has its second half to come while one computes.
constexpr int kWeightSlotsOfTwo = 4;

/// Returns the rows of blocks that nobody trains. The first resident unit is the head, with the
/// embedding if it is tied; resident layers are spread evenly, so that loads of the others have the
/// compute of many to hide under. The last one is an embedding of its own, of which a few rows are
/// read wherever it is.
StatePlan weights_alone(const ModelLayout& layout, DType compute, int resident_units) {
  StatePlan plan;
  plan.compute = compute;
  plan.gradient = compute;
  plan.moment = accumulator_of(compute);
  const int layers = layout.layers();
  plan.embedding_at_home = true;
  const int resident_layers = std::clamp(resident_units - 1, 0, layers);
  const bool tied = layout.units[layout.head()].blocks.size() > 1;
  const int least_for_embedding = tied ? 1 : layers + 2;
  for (const BlockId b : layout.blocks.ids()) {
    const int layer = b.value() - 1;  // -1: the embedding
    const bool resident = layer < 0         ? resident_units >= least_for_embedding
                          : layer >= layers ? resident_units >= 1
                                            : is_among(layer, resident_layers, layers);
    plan.blocks.push_back({.weight = resident ? Home::kDevice : Home::kPinned,
                           .moments = Home::kNone,
                           .gradient = Home::kNone,
                           .gradient_dtype = compute,
                           .contributions = 0,
                           .sums = SumPlace::kNone,
                           .updated_by = UpdatedBy::kNobody,
                           .updated = UpdateTime::kNever});
  }
  return plan;
}

GenerationSetup describe_generation(const LlamaConfig& model, const GenerationNeeds& needs,
                                    const Budget& budget) {
  GenerationSetup s;
  s.spec = with_products(spec_of(model), needs.products, needs.plain_products);
  s.model = std::make_shared<const ModelLayout>(make_layout(s.spec));
  s.budget = budget;
  s.weight_slots =
      std::min(s.spec.layers(), needs.host_attention ? kWeightSlotsOfTwo : kWeightSlots);
  return s;
}

/// Sets where keys, values and weights live.
void place(GenerationSetup& s, const GenerationNeeds& needs, int kv_slots, int resident_units) {
  s.describe_sweeps(needs, s.budget.device_is_host, kv_slots);
  s.resident_units = resident_units;
  s.state = weights_alone(*s.model, needs.compute, resident_units);
  s.list_all_memory();
}

std::string shortage(const GenerationSetup& s) {
  const bool device = s.budget.device_limit && s.device_bytes() > *s.budget.device_limit;
  return "generation needs " + format_bytes(device ? s.device_bytes() : s.host_bytes()) +
         (device ? " on the device" : " on the host") + " at least; the limit is " +
         format_bytes(device ? *s.budget.device_limit : *s.budget.host_limit) + " (" +
         (device ? s.budget.device_limit_origin : s.budget.host_limit_origin) + "). Of it " +
         format_bytes(s.kv.bytes()) + " are keys and values of " + format_count(s.sequences) +
         " sequences of " + format_count(s.sizes.positions) + " tokens: lower --batch or --context";
}

}  // namespace

bool GenerationSetup::fits() const {
  return (!budget.device_limit || device_bytes() <= *budget.device_limit) &&
         (!budget.host_limit || host_bytes() <= *budget.host_limit);
}

std::string GenerationSetup::who_attends() const {
  if (!kv.attended_at_home()) return {};
  if (kv.fetched_layers() == 0) return ", attended to there";
  return ", attended to there in " + std::to_string(kv.attended_layers) + " of " +
         std::to_string(kv.layers) + " layers";
}

std::string GenerationSetup::to_string() const {
  const bool from_host = state.blocks[BlockId(0)].weight != Home::kDevice;
  return std::to_string(resident_units) + " of " + std::to_string(model->units.size()) +
         " units resident" + (from_host ? ", rows of the embedding read on the host" : "") +
         ", sequences at once " + format_count(sequences) + ", each up to " +
         format_count(sizes.positions) + " tokens, keys and values " +
         (kv.kept == KvDType::kInt8 ? "as int8 " : "") +
         (kv.slots == 0
              ? "on the device"
              : "on the host in " + std::to_string(kv.groups) + " groups" + who_attends()) +
         (kv.windowed.empty() ? ""
                              : ", of " + format_count(kv.window.rows()) + " tokens at most in " +
                                    std::to_string(std::ranges::count(kv.windowed, true)) +
                                    " layers with a window") +
         (spec.multiplies_codes() ? ", operands of products rounded to e4m3" : "");
}

GenerationSetup make_generation_setup(const LlamaConfig& model, const GenerationNeeds& needs,
                                      const Budget& budget) {
  GenerationSetup s = describe_generation(model, needs, budget);
  const int units = static_cast<int>(s.model->units.size());
  const int most = std::min(units, needs.resident_units.value_or(units));
  const int least = budget.device_is_host ? most : needs.resident_units.value_or(0);
  std::vector<int> kv_slots{0, kKvSlots};
  if (needs.kv_slots) {
    kv_slots = {*needs.kv_slots};
  } else if (budget.device_is_host) {
    kv_slots = {0};
  }
  for (const int slots : kv_slots) {
    for (int resident = most; resident >= std::min(least, most); --resident) {
      place(s, needs, slots, resident);
      if (s.fits()) return s;
    }
  }
  throw OutOfMemory(shortage(s));
}

}  // namespace strata
