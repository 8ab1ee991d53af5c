// `models` prints the families that strata reads and writes, or what it takes and refuses of one.

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "strata/base/error.h"
#include "strata/base/text.h"
#include "strata/commands/commands.h"
#include "strata/model/family_list.h"

namespace strata {
namespace {

std::string joined(const std::vector<std::string_view>& words, std::string_view quote) {
  std::string text;
  for (const std::string_view word : words) {
    text +=
        (text.empty() ? "" : ", ") + std::string(quote) + std::string(word) + std::string(quote);
  }
  return text;
}

void print_head(const FamilySummary& family) {
  constexpr std::size_t kTypeColumns = 12;
  std::string type(family.type);
  type.resize(std::max(type.size(), kTypeColumns), ' ');
  const std::string indent(kTypeColumns + 1, ' ');
  std::cout << type << ' ' << family.class_name << '\n' << indent << family.models << '\n';
  if (!family.own_keys.empty()) {
    std::cout << indent << "keys that not all families have: " << joined(family.own_keys, "")
              << '\n';
  }
  if (!family.gguf.empty()) std::cout << indent << "in llama.cpp: " << family.gguf << '\n';
}

void print_markdown(const std::vector<FamilySummary>& families) {
  std::cout << "| `model_type` | class | which models are read | keys that not all have | in "
               "llama.cpp |\n|---|---|---|---|---|\n";
  for (const FamilySummary& family : families) {
    const std::string gguf =
        family.gguf.empty() ? std::string() : '`' + std::string(family.gguf) + '`';
    std::cout << "| `" << family.type << "` | `" << family.class_name << "` | " << family.models
              << " | " << joined(family.own_keys, "`") << " | " << gguf << " |\n";
  }
}

void print_refused(const FamilySummary& family) {
  std::cout << "\nTaken: the keys of `strata config-help model`, but for those that the family "
               "lacks.\nRefused where they have another value than this, because it would change "
               "what is computed:\n";
  for (const RefusedKey& key : family.refused) {
    std::cout << "  " << key.key << ": " << key.taken << "; " << key.why << '\n';
  }
}

}  // namespace

int models_command(const ModelsOptions& options) {
  const std::vector<FamilySummary> families = list_families();
  if (options.markdown) {
    print_markdown(families);
    return 0;
  }
  if (options.family.empty()) {
    for (const FamilySummary& family : families) print_head(family);
    return 0;
  }
  const auto found = std::ranges::find_if(families, [&](const FamilySummary& family) {
    return family.type == options.family || family.class_name == options.family;
  });
  if (found == families.end()) {
    throw ConfigError("models: strata does not read the family " +
                      printable_name(shortened(options.family)) +
                      "; strata models lists those that it reads");
  }
  print_head(*found);
  print_refused(*found);
  return 0;
}

}  // namespace strata
