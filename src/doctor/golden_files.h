// The golden model that the program carries: a tiny LLaMA that PyTorch trained in f64 for five
// clipped AdamW steps. scripts/golden/make_goldens.py made it, cut_self_test.py there says what of
// it is taken, and the files are those of tests/golden/data/gqa_tied_llama3.
#pragma once

#include <array>
#include <string_view>

namespace strata {

/// A file of the model's folder.
struct GoldenFile {
  std::string_view name;
  std::string_view bytes;
};
extern const std::array<GoldenFile, 3> kGoldenFiles;

}  // namespace strata
