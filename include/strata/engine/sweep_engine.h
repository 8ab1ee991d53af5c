// A sweep engine has what sweeps over some weights need beside these: the model's forward, keys and
// values, tokens and the order of the work, in memory that somebody gives. The generator and the
// scorer work with one.

#pragma once

#include <memory>
#include <stdexcept>

#include "strata/engine/sweep_layout.h"
#include "strata/ops/kernels.h"
#include "strata/schedule/sweep.h"
#include "strata/store/weight_store.h"

namespace strata {

class SweepEngine {
 public:
  /// Takes what SweepLayout::list_memory() lists. The arguments outlive the engine; host kernels
  /// may be null where nothing attends on the host. Waits for the RoPE tables to be on the device.
  /// Throws OutOfMemory.
  SweepEngine(const SweepLayout& setup, Kernels& kernels, Kernels* host_kernels,
              WeightStore& weights, Arenas& arenas)
      : setup_(setup),
        model_(setup.spec, setup.sizes, kernels, arenas),
        kv_(setup.kv, arenas),
        host_attention_(make_host_attention(kernels, host_kernels, arenas)),
        tokens_(setup.sweep, kernels, arenas),
        sweep_({model_, weights, kv_, tokens_, host_attention_.get()}, setup.kv.layers,
               arenas.device().stream(Lane::kCompute), take_residual_stream(setup, arenas)) {}
  SweepEngine(const SweepEngine&) = delete;
  SweepEngine& operator=(const SweepEngine&) = delete;

  [[nodiscard]] const SweepLayout& setup() const { return setup_; }
  [[nodiscard]] TokenStore& tokens() { return tokens_; }
  [[nodiscard]] const KvStore& kv() const { return kv_; }
  [[nodiscard]] const LlamaForward& model() const { return model_; }
  [[nodiscard]] Sweep& sweep() { return sweep_; }

 private:
  /// Returns null where nothing attends on the host.
  [[nodiscard]] std::unique_ptr<HostAttention> make_host_attention(Kernels& kernels,
                                                                   Kernels* host_kernels,
                                                                   Arenas& arenas) {
    if (!setup_.kv.attended_at_home()) return nullptr;
    if (host_kernels == nullptr) throw std::logic_error("nobody attends on the host");
    return std::make_unique<HostAttention>(setup_.host_attention(), kv_, kernels, *host_kernels,
                                           arenas);
  }

  const SweepLayout& setup_;
  LlamaForward model_;
  KvStore kv_;
  std::unique_ptr<HostAttention> host_attention_;
  TokenStore tokens_;
  Sweep sweep_;
};

}  // namespace strata
