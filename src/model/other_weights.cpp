// Finds weights in other formats, by names alone: a pickle is a program, and is not opened.

#include "strata/model/other_weights.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <vector>

#include "strata/base/shell_word.h"
#include "strata/base/text.h"

namespace strata {

namespace fs = std::filesystem;

namespace {

/// Returns the names of what is in a folder, sorted; of one that cannot be read none.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

bool is_pickle(std::string_view name) {
  const bool of_transformers = name.starts_with("pytorch_model") && name.ends_with(".bin");
  const bool of_its_author = name.starts_with("consolidated") && name.ends_with(".pth");
  return of_transformers || of_its_author;
}

}  // namespace

std::string other_weights(const fs::path& folder) {
  const std::vector<std::string> names = names_in(folder);
  const auto pickle = std::ranges::find_if(names, is_pickle);
  if (pickle != names.end()) {
    const fs::path safe = fs::path(folder.string() + "-safetensors");
    return "has " + printable_name(shortened(*pickle)) +
           ", which only Python reads; make safetensors of it: python3 -c \"import sys, "
           "transformers as t; a, b = sys.argv[1:]; t.AutoModelForCausalLM.from_pretrained(a, "
           "torch_dtype='auto').save_pretrained(b); "
           "t.AutoTokenizer.from_pretrained(a).save_pretrained(b)\" " +
           shell_word(folder) + ' ' + shell_word(safe);
  }
  const auto gguf =
      std::ranges::find_if(names, [](const std::string& name) { return name.ends_with(".gguf"); });
  if (gguf == names.end()) return {};
  return "has " + printable_name(shortened(*gguf)) +
         ", whose weights are often rounded; name the folder of the model that it was made of";
}

std::string snapshots_of(const fs::path& folder) {
  std::string text;
  for (const std::string& name : names_in(folder / "snapshots")) {
    text += (text.empty() ? "" : " or ") + shell_word(folder / "snapshots" / name);
  }
  return text.empty() ? text : "is a model in a hub's cache; name its snapshot, " + text;
}

}  // namespace strata
