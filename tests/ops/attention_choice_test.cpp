// Tests which family of CUDA kernels computes attention: by what the config says, what the device
// has, and what the segments of the operator are. It needs no GPU.

#include "kernels/cuda/attention/attention_choice.h"

#include <initializer_list>

#include "support/catch.h"

namespace strata::test {
namespace {

using cuda::AttentionFamily;
using cuda::AttentionNeeds;
using cuda::family_of;

/// A table of so many entries; no data is looked at.
AttentionSegments table(std::int64_t entries) {
  AttentionSegments segments;
  segments.table = ConstTensorView(nullptr, DType::kI32, Shape{entries, 5});
  return segments;
}
AttentionSegments documents(std::int64_t entries) {
  AttentionSegments segments = table(entries);
  segments.self_attention = true;
  return segments;
}
AttentionSegments rows() {
  AttentionSegments segments = documents(4);
  segments.uniform_length = 128;
  return segments;
}

constexpr AttentionNeeds needs(AttentionKernels kernels) {
  return {.kernels = kernels, .hopper = true, .tensor_cores = true, .parts = false};
}

TEST_CASE("cuDNN computes whole rows alone, and what a run samples goes to other kernels") {
  AttentionNeeds cudnn = needs(AttentionKernels::kCudnn);
  CHECK(family_of(cudnn, rows()) == AttentionFamily::kCudnn);
  CHECK(family_of(cudnn, table(4)) == AttentionFamily::kPortable);  // prompts over a cache
  CHECK(family_of(cudnn, documents(4)) == AttentionFamily::kHopper);
  cudnn.parts = true;
  CHECK(family_of(cudnn, table(4)) == AttentionFamily::kDecode);
  cudnn.tensor_cores = false;
  CHECK(family_of(cudnn, table(4)) == AttentionFamily::kReference);
  CHECK(family_of(cudnn, rows()) == AttentionFamily::kCudnn);  // which says itself what it lacks
}

TEST_CASE("windows go past cuDNN, and caps past the kernels for 9.0 too") {
  AttentionNeeds cudnn = needs(AttentionKernels::kCudnn);
  cudnn.windowed = true;
  CHECK(family_of(cudnn, rows()) == AttentionFamily::kHopper);
  cudnn.capped = true;
  CHECK(family_of(cudnn, rows()) == AttentionFamily::kPortable);
  AttentionNeeds own = needs(AttentionKernels::kAuto);
  own.windowed = true;
  CHECK(family_of(own, documents(300)) == AttentionFamily::kHopper);
  own.capped = true;
  CHECK(family_of(own, documents(300)) == AttentionFamily::kPortable);
  own.parts = true;
  CHECK(family_of(own, table(4)) == AttentionFamily::kDecode);
}

TEST_CASE("the kernels for 9.0 take rows and documents that attend to themselves") {
  const AttentionNeeds own = needs(AttentionKernels::kAuto);
  CHECK(family_of(own, rows()) == AttentionFamily::kHopper);
  CHECK(family_of(own, documents(300)) == AttentionFamily::kHopper);
  CHECK(family_of(own, table(300)) == AttentionFamily::kPortable);
  for (const AttentionSegments& segments : {rows(), documents(300)}) {
    CHECK(family_of(needs(AttentionKernels::kPortable), segments) == AttentionFamily::kPortable);
    AttentionNeeds older = own;
    older.hopper = false;
    CHECK(family_of(older, segments) == AttentionFamily::kPortable);
    older.tensor_cores = false;
    CHECK(family_of(older, segments) == AttentionFamily::kReference);
  }
}

TEST_CASE("the kernels for 9.0 take as many documents as they find tiles by") {
  const AttentionNeeds own = needs(AttentionKernels::kAuto);
  const std::int64_t most = cuda::kMostHopperSegments;
  CHECK(family_of(own, documents(most)) == AttentionFamily::kHopper);
  CHECK(family_of(own, documents(most + 1)) == AttentionFamily::kPortable);
  CHECK(family_of(own, rows()) == AttentionFamily::kHopper);
  AttentionNeeds many = own;
  many.queries = cuda::kMostHopperTableRows;
  CHECK(family_of(many, documents(4)) == AttentionFamily::kHopper);
  ++many.queries;
  CHECK(family_of(many, documents(4)) == AttentionFamily::kPortable);
  CHECK(family_of(many, rows()) == AttentionFamily::kHopper);
}

TEST_CASE("what no tensor core takes goes to the reference") {
  AttentionNeeds plain = needs(AttentionKernels::kAuto);  // another head dim, or rows not aligned
  plain.hopper = plain.tensor_cores = false;
  CHECK(family_of(plain, documents(4)) == AttentionFamily::kReference);
  CHECK(family_of(plain, table(4)) == AttentionFamily::kReference);
  plain.parts = true;
  CHECK(family_of(plain, table(4)) == AttentionFamily::kReference);
}

}  // namespace
}  // namespace strata::test
