// Which GPUs a build serves, by its list of architectures. The expectations are the rules of
// NVIDIA's compiler manual ("GPU compilation"), written out case by case.

#include "device/cuda/architectures.h"

#include <string>

#include "support/catch.h"

namespace strata::test {

using cuda::code_for;
using cuda::refusal;

namespace {

/// Returns "89", "ptx 100" or "none".
std::string found(const char* architectures, int capability) {
  const auto code = code_for(architectures, capability);
  if (!code) return "none";
  return (code->ptx ? "ptx " : "") + std::to_string(code->architecture);
}

constexpr const char* kAll = "80-real 86-real 89-real 90a-real 100 120-real";

}  // namespace

TEST_CASE("a release has code for every generation since 8.0, and PTX for what comes later") {
  const std::pair<int, const char*> expected[] = {
      {80, "80"},   {86, "86"},       {87, "86"},   {89, "89"},   {90, "90"},       {100, "100"},
      {103, "100"}, {110, "ptx 100"}, {120, "120"}, {121, "120"}, {130, "ptx 100"}, {75, "none"}};
  for (const auto& [capability, code] : expected) {
    INFO(capability);
    CHECK(found(kAll, capability) == code);
  }
}

TEST_CASE("code runs within its generation, PTX on all later ones, and 90a on 9.0 alone") {
  CHECK(found("80-real", 86) == "80");
  CHECK(found("86-real", 80) == "none");
  CHECK(found("80-real", 90) == "none");
  CHECK(found("80-virtual", 80) == "ptx 80");
  CHECK(found("80", 80) == "80");
  CHECK(found("80;90a-real", 90) == "90");
  CHECK(found("80;90a-real", 120) == "ptx 80");
  CHECK(found("90a", 100) == "none");
  CHECK(found("100-virtual", 90) == "none");
  CHECK(found("80-virtual;90-virtual", 100) == "ptx 90");
  CHECK(found("", 90) == "none");
}

TEST_CASE("a GPU without code is named with its capability, the build and the remedy") {
  const std::string text = refusal("NVIDIA H200", 90, "80-real");
  for (const char* part :
       {"NVIDIA H200", "compute capability 9.0", "built for 80-real",
        "cmake --preset cuda-release -DSTRATA_CUDA_ARCHITECTURES=90a-real", "cuda-all"}) {
    CHECK_THAT(text, ContainsSubstring(part));
  }
  CHECK_THAT(refusal("Tesla T4", 75, "80"), ContainsSubstring("needs 8.0 or later"));
  CHECK_THAT(refusal("Tesla T4", 75, "80"), !ContainsSubstring("cmake"));
}

}  // namespace strata::test
