// Puts together, for `strata models` and its test, what the tables of families say of each: the
// tables by which configs are read, refused and exported, so that the list cannot be another one.

#include "strata/model/family_list.h"

#include "family_keys.h"
#include "fixed_keys.h"
#include "gguf_architectures.h"
#include "model_classes.h"

namespace strata {

std::vector<FamilySummary> list_families() {
  std::vector<FamilySummary> families;
  for (const auto& [type, name] : kModelTypeNames) {
    const ModelClass& own = model_class_of(type);
    FamilySummary family{.type = name,
                         .class_name = own.name,
                         .models = own.models,
                         .own_keys = {},
                         .refused = {},
                         .gguf = {}};
    for (const FamilyKey& key : kFamilyKeys) {
      if (has_key(type, key.key)) family.own_keys.push_back(key.key);
    }
    for (const FixedKey& fixed : kFixedKeys) {
      if (is_fixed(fixed.key, type)) {
        family.refused.push_back({fixed.key, fixed.value, fixed.why});
      }
    }
    if (const GgufArchitecture* const found = gguf_architecture_of(type)) {
      family.gguf = found->name;
    }
    families.push_back(family);
  }
  return families;
}

}  // namespace strata
