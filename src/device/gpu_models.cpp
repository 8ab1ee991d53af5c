// The table of GPUs. docs/prediction.md says where its figures come from.

#include "strata/device/gpu_models.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <vector>

#include "strata/base/bytes.h"
#include "strata/base/error.h"
#include "strata/base/suggestion.h"

namespace strata {

namespace {

/// What two copies at once, one each way, leave to each: 16 or 8 lanes of PCIe, or NVLink to Grace.
constexpr double kPcie4 = 24, kPcie5 = 50, kPcie5Of8 = 25, kC2c = 300;
/// AdamW's rate on the host: of a server's many memory channels, measured with 16 cores, of a
/// desktop's two (DDR4, DDR5), and of Grace.
constexpr double kServer = 155, kDesktop4 = 40, kDesktop5 = 60, kGrace = 300;
/// The share of the memory's datasheet bandwidth that kernels reach, measured on the H200.
constexpr double kBandwidthShare = 0.77;
constexpr double gbs(double datasheet_tbs) { return 1000 * kBandwidthShare * datasheet_tbs; }

/// Collectives over NVLink 4 were measured on four and eight H200 without multicast; those of other
/// generations are taken to reach the same share of it. Over PCIe they reach 0.8 of a link, and
/// half of that where cards can only meet in host memory. NICs are what hosts of such GPUs usually
/// have: 400 or 200 Gbit/s for each GPU, 100 in a server of cards, 10 in a desktop. Estimates but
/// for the first.
constexpr double kNicOf400 = 50, kNicOf200 = 25, kNicOf100 = 12.5, kNicOf10 = 1.25;
constexpr PeerLink kNvlink4{338, false, kNicOf400}, kNvlink3{225, false, kNicOf200},
    kNvlink5{676, false, kNicOf400};
constexpr PeerLink kCards4{20, true, kNicOf100}, kCards5{40, true, kNicOf100};
constexpr PeerLink kDesktopCards4{10, true, kNicOf10}, kDesktopCards5{20, true, kNicOf10},
    kDesktopCards5Of8{10, true, kNicOf10};

/// MFU in bf16 of the best published program. llm.q: a 7B of which nothing stays on an RTX 4090,
/// 2,780 tokens/s, and with everything on the card 3,900 on an L40S, 8,000 on an RTX PRO 6000 and
/// 14,000 on an H100. llm-foundry: 4,641 on each of eight A100. docs/gpus.md has the sources.
constexpr double kGeForce = 0.724, kAdaServer = 0.464, kBlackwellCard = 0.683, kHopper = 0.609,
                 kA100 = 0.62;

constexpr std::string_view kRtx3090[]{"NVIDIA GeForce RTX 3090"};
constexpr std::string_view kRtx4090[]{"NVIDIA GeForce RTX 4090"};
constexpr std::string_view kRtx5090[]{"NVIDIA GeForce RTX 5090"};
constexpr std::string_view kRtx5060Ti[]{"NVIDIA GeForce RTX 5060 Ti"};
constexpr std::string_view kRtx6000Ada[]{"NVIDIA RTX 6000 Ada Generation"};
constexpr std::string_view kRtxPro6000[]{"NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
                                         "NVIDIA RTX PRO 6000 Blackwell Server Edition"};
constexpr std::string_view kL40S[]{"NVIDIA L40S"};
constexpr std::string_view kA100Of40[]{"NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB"};
constexpr std::string_view kA100Of80[]{"NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe"};
constexpr std::string_view kH100Pcie[]{"NVIDIA H100 PCIe"};
constexpr std::string_view kH100Sxm[]{"NVIDIA H100 80GB HBM3"};
constexpr std::string_view kH200[]{"NVIDIA H200"};
constexpr std::string_view kGh200Of96[]{"NVIDIA GH200 480GB"};
constexpr std::string_view kGh200Of144[]{"NVIDIA GH200 144G HBM3e"};
constexpr std::string_view kB200[]{"NVIDIA B200"};

// Attention of the portable kernels is taken to reach 0.75 (forward) and 0.55 (backward) of what
// products sustain; on compute capability 9.0 what the H200's reach of its products; on the B200,
// whose products have instructions that the portable kernels lack, what they reach on the H200,
// times the multiprocessors and their clock.
constexpr GpuModel kModels[] = {
    // name, short name, names of CUDA, capability, multiprocessors, GiB, peak, products, attention
    // forward, backward, device, PCIe, link, host, peers, measured, best MFU
    {"RTX 3090", "3090", kRtx3090, 86, 82, 23.6, 71, 66, 50, 36, gbs(0.94), 4, kPcie4, kDesktop4,
     kDesktopCards4, false, kGeForce},
    {"RTX 4090", "4090", kRtx4090, 89, 128, 23.5, 165.2, 150, 112, 82, gbs(1.01), 4, kPcie4,
     kDesktop5, kDesktopCards4, false, kGeForce},
    {"RTX 5090", "5090", kRtx5090, 120, 170, 31.4, 209.5, 190, 142, 104, gbs(1.79), 5, kPcie5,
     kDesktop5, kDesktopCards5, false, kGeForce},
    {"RTX 5060 Ti 16GB", "5060 Ti", kRtx5060Ti, 120, 36, 15.5, 47.4, 43, 32, 24, gbs(0.448), 5,
     kPcie5Of8, kDesktop5, kDesktopCards5Of8, false, kGeForce},
    {"RTX 6000 Ada", "6000 Ada", kRtx6000Ada, 89, 142, 47.4, 364, 240, 180, 132, gbs(0.96), 4,
     kPcie4, kServer, kCards4, false, kAdaServer},
    {"RTX PRO 6000 Blackwell", "RTX PRO 6000", kRtxPro6000, 120, 188, 94.9, 504, 420, 315, 231,
     gbs(1.79), 5, kPcie5, kServer, kCards5, false, kBlackwellCard},
    {"L40S", "", kL40S, 89, 142, 44.4, 362, 225, 169, 124, gbs(0.86), 4, kPcie4, kServer, kCards4,
     false, kAdaServer},
    {"A100 40GB", "", kA100Of40, 80, 108, 39.4, 312, 255, 191, 140, gbs(1.555), 4, kPcie4, kServer,
     kNvlink3, false, kA100},
    {"A100 80GB", "A100", kA100Of80, 80, 108, 79.1, 312, 255, 191, 140, gbs(2.04), 4, kPcie4,
     kServer, kNvlink3, false, kA100},
    {"H100 PCIe", "", kH100Pcie, 90, 114, 79.1, 756, 430, 381, 242, gbs(2.0), 5, kPcie5, kServer,
     kCards5, false, kHopper},
    {"H100 SXM", "H100", kH100Sxm, 90, 132, 79.1, 989.4, 670, 593, 376, gbs(3.35), 5, kPcie5,
     kServer, kNvlink4, false, kHopper},
    {"H200", "", kH200, 90, 132, 139.8, 989.4, 687, 608, 386, 3700, 5, kPcie5, kServer, kNvlink4,
     true},
    {"GH200 96GB", "GH200", kGh200Of96, 90, 132, 94.5, 989.4, 670, 593, 376, gbs(4.0), 0, kC2c,
     kGrace, kNvlink4, false, kHopper},
    {"GH200 144GB", "", kGh200Of144, 90, 132, 140.0, 989.4, 670, 593, 376, gbs(4.9), 0, kC2c,
     kGrace, kNvlink4, false, kHopper},
    {"B200", "", kB200, 100, 148, 178.3, 2250, 1600, 400, 290, gbs(8.0), 5, kPcie5, kServer,
     kNvlink5, false, kHopper},
};

/// Returns a name without what does not count in it.
std::string plain(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_') {
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return text;
}

/// Returns the name of the model whose name or short name is near to what is wanted, if one is.
std::optional<std::string> nearest_model(const std::string& wanted) {
  std::vector<std::string> names;
  for (const GpuModel& model : kModels) {
    names.push_back(plain(model.name));
    if (!model.short_name.empty()) names.push_back(plain(model.short_name));
  }
  const std::optional<std::string> near = nearest_path(wanted, names);
  if (!near) return std::nullopt;
  return std::string(gpu_named(*near).name);
}

bool is_named(const GpuModel& model, const std::string& wanted) {
  if (wanted == plain(model.name) || wanted == plain(model.short_name)) return true;
  return std::ranges::any_of(model.cuda_names, [&](std::string_view cuda_name) {
    const std::string reported = plain(cuda_name);
    constexpr std::size_t kVendor = 6;  // "nvidia"
    return wanted == reported || wanted == reported.substr(kVendor);
  });
}

}  // namespace

std::size_t GpuModel::memory_bytes() const {
  return static_cast<std::size_t>(memory_gib * static_cast<double>(kGiB));
}

std::span<const GpuModel> gpu_models() { return kModels; }

const GpuModel* gpu_of_device(std::string_view cuda_name) {
  const auto at = std::ranges::find_if(kModels, [&](const GpuModel& model) {
    return std::ranges::find(model.cuda_names, cuda_name) != model.cuda_names.end();
  });
  return at == std::end(kModels) ? nullptr : &*at;
}

const GpuModel& gpu_named(std::string_view name) {
  const std::string wanted = plain(name);
  const auto at = std::ranges::find_if(
      kModels, [&](const GpuModel& model) { return !wanted.empty() && is_named(model, wanted); });
  if (at != std::end(kModels)) return *at;
  std::string advice = "it";
  if (const auto near = nearest_model(wanted)) advice = "did you mean " + *near + "? It";
  throw ConfigError("--gpu: strata does not know \"" + std::string(name) + "\"; " + advice +
                    " knows " + gpu_names() +
                    "; for another one set memory.device_limit and the rates of hardware");
}

double link_gbs_of_device(std::string_view cuda_name) {
  const GpuModel* model = gpu_of_device(cuda_name);
  return model == nullptr ? kPcie5 : model->link_gbs;
}

std::string gpu_names() {
  std::string names;
  for (const GpuModel& model : kModels) {
    names += (names.empty() ? "" : ", ") + std::string(model.name);
  }
  return names;
}

}  // namespace strata
