// Tests what a profiler is told. The tool that listens is linked into this program, as NVTX
// provides for, so only the last case needs a GPU.

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/device/cuda/profiler.h"
#include "strata/ops/backend.h"
#include "support/catch.h"

namespace {

/// What the tool heard: "push LANE NAME", "pop", "stream NAME", with the thread.
struct Heard {
  std::string text;
  std::thread::id thread;
  bool operator==(const Heard&) const = default;
};

struct Tool {
  std::mutex mutex;
  std::vector<Heard> heard;
  std::vector<std::string> categories{16};

  void hear(const std::string& text) {
    const std::lock_guard lock(mutex);
    heard.push_back({text, std::this_thread::get_id()});
  }
  std::vector<Heard> take() {
    const std::lock_guard lock(mutex);
    return std::exchange(heard, {});
  }
};

Tool& tool() {
  static Tool the_tool;
  return the_tool;
}

nvtxDomainHandle_t NVTX_API create_domain(const char*) {
  return reinterpret_cast<nvtxDomainHandle_t>(&tool());
}
void NVTX_API name_category(nvtxDomainHandle_t, std::uint32_t category, const char* name) {
  tool().categories.at(category) = name;
}
int NVTX_API push(nvtxDomainHandle_t, const nvtxEventAttributes_t* attributes) {
  tool().hear("push " + tool().categories.at(attributes->category) + " " +
              attributes->message.ascii);
  return 0;
}
int NVTX_API pop(nvtxDomainHandle_t) {
  tool().hear("pop");
  return 0;
}
void NVTX_API name_stream(nvtx_cudaStream_t, const char* name) {
  tool().hear(std::string("stream ") + name);
}

template <class Function>
NvtxFunctionPointer generic(Function* function) {
  return reinterpret_cast<NvtxFunctionPointer>(function);
}

int NVTX_API attach(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = generic(create_domain);
  *table[NVTX_CBID_CORE2_DomainNameCategoryA] = generic(name_category);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = generic(push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = generic(pop);
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CUDART, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CUDART_NameCudaStreamA] = generic(name_stream);
  return 1;
}

/// Where NVTX looks for a tool of the program itself, when it is first called.
const bool listening = (InitializeInjectionNvtx2_fnptr = attach, true);

}  // namespace

namespace strata {
namespace {

TEST_CASE("a profiler is told of a range by submission, phase, unit and cell") {
  REQUIRE(listening);
  const cuda::Profiler profiler;
  REQUIRE(profiler.attached());
  (void)tool().take();
  {
    const cuda::ProfilerRange outer(profiler, Lane::kCompute, "matmul",
                                    {.phase = "forward", .pass = 0, .unit = 3, .cell = 1});
    const cuda::ProfilerRange inner(profiler, Lane::kHost, "decide", {.phase = "finish"});
  }
  const auto self = std::this_thread::get_id();
  CHECK(tool().take() ==
        std::vector<Heard>{{"push compute matmul forward pass=0 unit=3 cell=1", self},
                           {"push host decide finish", self},
                           {"pop", self},
                           {"pop", self}});
}

TEST_CASE("a profiler sees every lane by name and host tasks where they run", "[cuda]") {
  if (!cuda_available()) {
    WARN("skipped: there is no CUDA device");
    return;
  }
  (void)tool().take();
  {
    const Backend backend = make_backend(BackendKind::kCuda, {.device = {}, .threads = 1});
    Device& device = *backend.device;
    device.stream(Lane::kHost).host_task("sum", {}, {.phase = "update", .unit = 2}, [] {});
    device.stream(Lane::kSave).host_task("write", {}, {.phase = "save"}, [] {});
    device.synchronize();
  }
  const std::vector<Heard> heard = tool().take();
  const auto said = [&](const std::string& text) {
    return std::count_if(heard.begin(), heard.end(),
                         [&](const Heard& h) { return h.text == text; });
  };
  for (const char* lane : {"compute", "weights_in", "activations_in", "out", "comm"}) {
    CHECK(said(std::string("stream ") + lane) == 1);
  }
  std::set<std::thread::id> threads{std::this_thread::get_id()};
  for (const char* text : {"push host sum update unit=2", "push save write save"}) {
    REQUIRE(said(text) == 1);
    const auto task =
        std::find_if(heard.begin(), heard.end(), [&](const Heard& h) { return h.text == text; });
    CHECK(threads.insert(task->thread).second);  // each lane has a thread of its own
    CHECK(std::count(heard.begin(), heard.end(), Heard{"pop", task->thread}) == 1);
  }
}

}  // namespace
}  // namespace strata
