// The table of GPUs: how names are found, and what its figures must obey.

#include "strata/device/gpu_models.h"

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "support/catch.h"

namespace strata::test {

TEST_CASE("a GPU is found however its name is written") {
  for (const char* name :
       {"RTX 4090", "rtx4090", "4090", "RTX-4090", "GeForce RTX 4090", "NVIDIA GeForce RTX 4090"}) {
    INFO(name);
    CHECK(gpu_named(name).name == "RTX 4090");
  }
  CHECK(gpu_named("5060 Ti").name == "RTX 5060 Ti 16GB");
  CHECK(gpu_named("h100").name == "H100 SXM");
  CHECK(gpu_named("h100-pcie").name == "H100 PCIe");
  CHECK(gpu_named("A100").name == "A100 80GB");
  CHECK(gpu_named("a100_40gb").name == "A100 40GB");
}

TEST_CASE(
    "a GPU that is not in the table is refused with all that are, and never taken for another") {
  for (const char* name : {"A10", "L40", "RTX", "NVIDIA", "", "4090 Ti"}) {
    INFO(name);
    CHECK_THROWS_AS(gpu_named(name), ConfigError);
  }
  CHECK_THROWS_WITH(gpu_named("RTX 409"), ContainsSubstring("--gpu") &&
                                              ContainsSubstring("RTX 409\"") &&
                                              ContainsSubstring("did you mean RTX 4090?") &&
                                              ContainsSubstring("H100 PCIe, H100 SXM, H200"));
}

TEST_CASE("a device has the row with the driver's exact name, or none") {
  REQUIRE(gpu_of_device("NVIDIA A100-SXM4-80GB") != nullptr);
  CHECK(gpu_of_device("NVIDIA A100-SXM4-80GB")->name == "A100 80GB");
  CHECK(gpu_of_device("NVIDIA GeForce RTX 4090 D") == nullptr);
  CHECK(gpu_of_device("") == nullptr);
  CHECK(link_gbs_of_device("NVIDIA GeForce RTX 3090") < link_gbs_of_device("NVIDIA H200"));
  CHECK(link_gbs_of_device("a device of the future") == 50);
}

TEST_CASE(
    "no rate of the table is above what the datasheet allows, and only the H200 is measured") {
  for (const GpuModel& gpu : gpu_models()) {
    INFO(gpu.name);
    CHECK(gpu_of_device(gpu.cuda_names.front()) == &gpu);
    CHECK(&gpu_named(gpu.name) == &gpu);
    CHECK(gpu.product_tflops < gpu.peak_tflops);
    CHECK(gpu.attention_forward_tflops < gpu.product_tflops);
    CHECK(gpu.attention_backward_tflops < gpu.attention_forward_tflops);
    CHECK(gpu.attention_backward_tflops > 0);
    CHECK(gpu.memory_bytes() > 15 * kGiB);
    CHECK(gpu.multiprocessors > 0);
    CHECK(gpu.capability >= 80);
    if (gpu.pcie > 0) CHECK(gpu.link_gbs < (gpu.pcie == 4 ? 32 : 63));
    CHECK(gpu.host_gbs > 0);
    CHECK(gpu.peers.nic_gbs > 0);
    if (gpu.peers.over_pcie) CHECK(gpu.peers.collective_gbs < gpu.link_gbs);
    if (!gpu.peers.over_pcie) CHECK(gpu.peers.collective_gbs < 900);
    CHECK(gpu.measured == (gpu.name == "H200"));
  }
}

}  // namespace strata::test
