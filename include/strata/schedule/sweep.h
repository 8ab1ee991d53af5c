// A sweep: tokens of many sequences go through all layers once, in layer-major order, and the next
// token of some is drawn. It is the forward half of the schedule, for generation and scoring; what
// waits for what is the business of the stores.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "strata/model/llama_forward.h"
#include "strata/store/host_attention.h"
#include "strata/store/kv_store.h"
#include "strata/store/token_store.h"
#include "strata/store/weight_store.h"

namespace strata {

/// Tokens that go through a layer together. All of a cell are of one group.
struct SweepCell {
  std::size_t visit = 0;   ///< of SweepPlan::visits
  std::int64_t begin = 0;  ///< first token
  std::int64_t tokens = 0;
  bool on_host = false;             ///< all are singles, and attend on the host in some layers
  std::int64_t first_single = 0;    ///< how many singles come before it in the sweep
  KvPiece whole{};                  ///< all of it, in layers that keep all
  std::vector<KvPiece> windowed{};  ///< all of it, in layers that keep a window
};

/// What a sweep does; the tokens themselves are in the buffers of the token store.
struct SweepPlan {
  std::vector<KvVisit> visits;
  std::vector<SweepCell> cells;  ///< in the order of tokens and of visits, which each have some
  std::int64_t tokens = 0;
  std::int64_t sampled = 0;  ///< tokens that are drawn, or scored
  std::int64_t seen = 0;
  bool score = false;  ///< targets are scored, and nothing is drawn
};

/// What a sweep works with; all of it outlives the sweep.
struct SweepParts {
  LlamaForward& model;
  WeightStore& weights;
  KvStore& kv;
  TokenStore& tokens;
  HostAttention* host_attention = nullptr;  ///< null: all tokens attend on the device
};

/// The residual stream of all tokens of a sweep, on the device.
struct SweepStream {
  TensorView x;     ///< [T, C] X
  TensorView adds;  ///< [T, C] X: what a layer adds to it, until the norm of the next one does
};

/// Units go one after the other, and through each unit all cells while its weights are there
/// (SpeedLoader, NeurIPS 2024, section 3). Where the host attends, a cell goes through the second
/// half of a layer when the others of the layer have gone to the host: together with the first half
/// of the next layer, so that host and device work at the same time on different cells. Where it
/// attends on the device in between, it goes to the host for the layer after at once, so that the
/// host need not wait for the others either.
class Sweep {
 public:
  Sweep(const SweepParts& parts, int layers, Stream& compute, const SweepStream& stream)
      : parts_(parts), layers_(layers), compute_(compute), stream_(stream) {}

  /// Submits a sweep over the tokens that were filled in, and returns without waiting for it. Its
  /// results are the token store's.
  void run(const SweepPlan& plan);

 private:
  [[nodiscard]] UnitLease acquire(UnitId unit);
  void embedding(const SweepPlan& plan, const TokenLease& tokens);
  void layers(const SweepPlan& plan, const TokenLease& tokens);
  /// What cells that attend on the host have to do with a layer's neighbours.
  struct HostWork {
    const UnitLease* before;  ///< they attended there in the layer before, and end it with these
    bool sent;                ///< they went to the host for this layer already
  };
  /// Takes a visit's cells through a layer.
  void visit(int layer, const UnitLease& weights, const HostWork& host, std::size_t visit,
             const SweepPlan& plan, const TokenLease& tokens);
  void on_device(int layer, const UnitLease& weights, const SweepCell& cell, const KvViews& kv,
                 const SweepPlan& plan, const TokenLease& tokens);
  void to_host(int layer, const UnitLease& weights, const SweepCell& cell, const SweepPlan& plan,
               const TokenLease& tokens);
  void from_host(int layer, const UnitLease& weights, const SweepCell& cell, const SweepPlan& plan,
                 const TokenLease& tokens);
  void head(const SweepPlan& plan, const TokenLease& tokens);

  /// Returns a cell's tables on the device, for a layer.
  [[nodiscard]] ForwardCell forward_cell(int layer, const SweepCell& cell,
                                         const TokenLease& tokens) const;
  /// Returns a cell's tables on the host, for a layer.
  [[nodiscard]] HostCell host_cell(int layer, const SweepCell& cell, const SweepPlan& plan,
                                   const TokenLease& tokens) const;
  /// Returns the pieces of a cell in which a layer takes it.
  [[nodiscard]] std::span<const KvPiece> pieces(int layer, const SweepCell& cell) const;
  /// Returns the tables of a layer.
  [[nodiscard]] const KvTables& tables(int layer, const TokenLease& tokens) const;
  /// Returns a cell's part of the residual stream, as it goes through a layer.
  [[nodiscard]] ResidualStream stream_of(int layer, const SweepCell& cell) const;

  SweepParts parts_;
  int layers_;
  Stream& compute_;
  SweepStream stream_;
};

}  // namespace strata
