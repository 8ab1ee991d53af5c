// What keys of a run config may be set to where a name says it: the kinds, and how each is written.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "strata/base/dtype.h"
#include "strata/base/field_types.h"
#include "strata/comm/shard_group.h"
#include "strata/data/overlong.h"
#include "strata/device/execution.h"
#include "strata/model/kept_activations.h"
#include "strata/ops/attention_kernels.h"
#include "strata/ops/preference_rule.h"
#include "strata/optimizer/bad_steps.h"
#include "strata/optimizer/optimizer_kind.h"
#include "strata/optimizer/timing.h"
#include "strata/store/boundary_form.h"

namespace strata {

enum class BackendChoice : std::uint8_t { kAuto, kCpu, kCuda };
inline constexpr EnumName<BackendChoice> kBackendChoiceNames[] = {
    {BackendChoice::kAuto, "auto"}, {BackendChoice::kCpu, "cpu"}, {BackendChoice::kCuda, "cuda"}};

enum class TokenFormat : std::uint8_t { kAuto, kU16, kU32 };
inline constexpr EnumName<TokenFormat> kTokenFormatNames[] = {
    {TokenFormat::kAuto, "auto"}, {TokenFormat::kU16, "u16"}, {TokenFormat::kU32, "u32"}};

inline constexpr EnumName<Overlong> kOverlongNames[] = {{Overlong::kCut, "cut"},
                                                        {Overlong::kDrop, "drop"}};

/// Absent: the planner chooses, cell by cell.
inline constexpr EnumName<std::optional<KeepLevel>> kKeepLevelNames[] = {
    {std::nullopt, "auto"},
    {KeepLevel::kRecompute, "recompute"},
    {KeepLevel::kAttention, "attention"},
    {KeepLevel::kAttentionOut, "attention_out"},
    {KeepLevel::kSelective, "selective"},
    {KeepLevel::kFull, "full"}};
/// schedule.spill: "off" is a cell that spills nothing.
inline constexpr EnumName<std::optional<KeepLevel>> kSpillNames[] = {
    {std::nullopt, "auto"},
    {KeepLevel::kRecompute, "off"},
    {KeepLevel::kAttention, "attention"},
    {KeepLevel::kAttentionOut, "attention_out"},
    {KeepLevel::kSelective, "selective"},
    {KeepLevel::kFull, "full"}};
inline constexpr EnumName<BoundaryForm> kBoundaryFormNames[] = {{BoundaryForm::kExact, "exact"},
                                                                {BoundaryForm::kInt8, "int8"}};
[[nodiscard]] constexpr std::string_view name_of(KeepLevel level) {
  return enum_name(kKeepLevelNames, std::optional<KeepLevel>(level));
}

inline constexpr EnumName<OptimizerKind> kOptimizerKindNames[] = {{OptimizerKind::kAdamW, "adamw"},
                                                                  {OptimizerKind::kLion, "lion"},
                                                                  {OptimizerKind::kSgd, "sgd"},
                                                                  {OptimizerKind::kMuon, "muon"}};
/// What there is of bf16 weights beside them.
enum class MasterWeights : std::uint8_t {
  kSplit,  ///< the low half of an f32 master, whose high half they are
  kNone,   ///< nothing: updates round them stochastically
};
inline constexpr EnumName<MasterWeights> kMasterWeightsNames[] = {{MasterWeights::kSplit, "split"},
                                                                  {MasterWeights::kNone, "none"}};
inline constexpr EnumName<UpdateTiming> kUpdateTimingNames[] = {
    {UpdateTiming::kBeforeUse, "before_use"},
    {UpdateTiming::kOnArrival, "on_arrival"},
    {UpdateTiming::kSpeculative, "speculative"}};

/// Absent: skip, where that can be, else stop.
inline constexpr EnumName<std::optional<OnBadStep>> kOnBadStepNames[] = {
    {std::nullopt, "auto"},
    {OnBadStep::kStop, "stop"},
    {OnBadStep::kSkip, "skip"},
    {OnBadStep::kRollback, "rollback"}};

/// train.objective: "sft" is none of preferences.
inline constexpr EnumName<std::optional<Preference>> kObjectiveNames[] = {
    {std::nullopt, "sft"},
    {Preference::kDpo, "dpo"},
    {Preference::kIpo, "ipo"},
    {Preference::kSimpo, "simpo"},
    {Preference::kOrpo, "orpo"}};

/// Where the log-probabilities of a preference's reference come from.
enum class ReferenceFrom : std::uint8_t {
  kBase,    ///< the model without its adapters, beside the one that is trained
  kStored,  ///< files beside the token files
};
inline constexpr EnumName<ReferenceFrom> kReferenceNames[] = {{ReferenceFrom::kBase, "base"},
                                                              {ReferenceFrom::kStored, "stored"}};

enum class LrSchedule : std::uint8_t { kConstant, kLinear, kCosine, kWsd };
inline constexpr EnumName<LrSchedule> kLrScheduleNames[] = {{LrSchedule::kConstant, "constant"},
                                                            {LrSchedule::kLinear, "linear"},
                                                            {LrSchedule::kCosine, "cosine"},
                                                            {LrSchedule::kWsd, "wsd"}};

enum class MatmulTuning : std::uint8_t { kAuto, kOff };
inline constexpr EnumName<MatmulTuning> kMatmulTuningNames[] = {{MatmulTuning::kAuto, "auto"},
                                                                {MatmulTuning::kOff, "off"}};

inline constexpr EnumName<AttentionKernels> kAttentionKernelsNames[] = {
    {AttentionKernels::kAuto, "auto"},
    {AttentionKernels::kPortable, "portable"},
    {AttentionKernels::kCudnn, "cudnn"}};

enum class AttentionBackwardMode : std::uint8_t { kDeterministic, kFast };
inline constexpr EnumName<AttentionBackwardMode> kAttentionBackwardModeNames[] = {
    {AttentionBackwardMode::kDeterministic, "deterministic"},
    {AttentionBackwardMode::kFast, "fast"}};

inline constexpr EnumName<DType> kComputeDTypeNames[] = {
    {DType::kBF16, "bf16"}, {DType::kF32, "f32"}, {DType::kF64, "f64"}};
/// u8 stands for the codes of strata/ops/moment_codes.h.
inline constexpr EnumName<DType> kMomentDTypeNames[] = {
    {DType::kU8, "8bit"}, {DType::kBF16, "bf16"}, {DType::kF32, "f32"}};
/// Absent: what run.dtype does not round.
inline constexpr EnumName<std::optional<DType>> kGradientDTypeNames[] = {
    {std::nullopt, "auto"}, {DType::kBF16, "bf16"}, {DType::kF32, "f32"}};
inline constexpr EnumName<Execution> kExecutionNames[] = {{Execution::kThreads, "threads"},
                                                          {Execution::kEager, "eager"},
                                                          {Execution::kShuffled, "shuffled"}};

/// Where the gradients of several passes are added up.
enum class GradientSums : std::uint8_t { kAuto, kHost, kDevice };
inline constexpr EnumName<GradientSums> kGradientSumsNames[] = {{GradientSums::kAuto, "auto"},
                                                                {GradientSums::kHost, "host"},
                                                                {GradientSums::kDevice, "device"}};

enum class ThreadBinding : std::uint8_t { kShare, kAuto, kOff };
inline constexpr EnumName<ThreadBinding> kThreadBindingNames[] = {
    {ThreadBinding::kShare, "share"}, {ThreadBinding::kAuto, "auto"}, {ThreadBinding::kOff, "off"}};

inline constexpr EnumName<ShardGroup> kShardGroupNames[] = {{ShardGroup::kAll, "all"},
                                                            {ShardGroup::kNode, "node"}};

}  // namespace strata
