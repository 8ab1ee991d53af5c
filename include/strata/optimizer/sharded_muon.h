// Updates the matrices of layers by Muon where several ranks share the state, by the formula of
// MuonUpdater. Each rank makes its part of the directions of a block; they are gathered, each
// matrix is orthogonalised by one rank, and what comes of it is gathered again, so that each rank
// can step with its part of the state. BlockUpdates makes the updater.

#pragma once

#include <memory>

#include "strata/optimizer/muon_passes.h"
#include "strata/optimizer/newton_schulz.h"
#include "strata/optimizer/updater.h"

namespace strata {

/// This is memory for the largest block of the rows whose `updated_by` is kMuon. n is the elements
/// of its shards, w room for what a rank orthogonalises of it, R the ranks.
struct ShardedMuonMemory {
  ShardedMuonMemory(const ModelLayout& layout, const StatePlan& plan, Allocator& memory);

  MuonPasses::Memory passes;         ///< for the largest part of a matrix
  TensorView norms, gathered_norms;  ///< pinned and device, f64: of MatrixNorms
  TensorView known_norms;            ///< pageable, f64: likewise
  TensorView at_home;                ///< pinned, [n] X: x, then o
  TensorView directions;             ///< device, [R n] X: x of the whole block
  TensorView results;                ///< device, [R w] X: o of all its matrices
  NewtonSchulzScratch scratch;       ///< device
};

/// Makes the updater, which answers before_load(). `pool` has the threads of the host lane's tasks.
/// It and the owner of the memory outlive the updater.
[[nodiscard]] std::unique_ptr<Updater> make_sharded_muon_updater(const UpdaterParts& parts,
                                                                 const ShardedMuonMemory& memory,
                                                                 double momentum, ThreadPool& pool);

}  // namespace strata
