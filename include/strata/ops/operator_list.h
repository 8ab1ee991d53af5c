// This file lists all operators, once. The launch functions of Kernels, the declarations of both
// backends, the dry backend and the tests are made from the list, so that a struct that is added
// here is asked for wherever it has to be added. docs/adding.md, "Adding an operator", names all
// places.

#pragma once

#include "strata/ops/attention.h"
#include "strata/ops/bias.h"
#include "strata/ops/cross_entropy.h"
#include "strata/ops/dropout.h"
#include "strata/ops/elementwise.h"
#include "strata/ops/embedding.h"
#include "strata/ops/fp8.h"
#include "strata/ops/fused_append.h"
#include "strata/ops/fused_attend.h"
#include "strata/ops/fused_linear.h"
#include "strata/ops/head_norm.h"
#include "strata/ops/kv_cache.h"
#include "strata/ops/matmul.h"
#include "strata/ops/nf4.h"
#include "strata/ops/norm.h"
#include "strata/ops/optimizer.h"
#include "strata/ops/preference.h"
#include "strata/ops/quantize.h"
#include "strata/ops/rope.h"
#include "strata/ops/sampling.h"
#include "strata/ops/soft_cap.h"
#include "strata/ops/swiglu.h"

/// Expands to apply(Operator) for every operator's struct, in no particular order.
#define STRATA_FOR_EACH_OPERATOR(apply)                                                           \
  apply(EmbeddingForward) apply(EmbeddingBackward) apply(RmsNormForward) apply(RmsNormBackward)   \
      apply(Rope) apply(AttentionForward) apply(AttentionBackward) apply(SwigluForward)           \
          apply(SwigluBackward) apply(ResidualAdd) apply(Accumulate) apply(Cast) apply(Fill)      \
              apply(CrossEntropy) apply(Matmul) apply(SquaredNorm) apply(CastSquaredNorm)         \
                  apply(AdamW) apply(Momentum) apply(QuantizeRows) apply(DequantizeRows)          \
                      apply(AppendKv) apply(AppendInt8Kv) apply(DequantizeKv) apply(AttendInt8Kv) \
                          apply(SampleTokens) apply(FusedLinear) apply(FusedAppend)               \
                              apply(FusedAttend) apply(BiasAdd) apply(BiasBackward)               \
                                  apply(HeadNormForward) apply(HeadNormBackward)                  \
                                      apply(SoftCapForward) apply(SoftCapBackward)                \
                                          apply(QuantizeFp8Rows) apply(QuantizeFp8Columns)        \
                                              apply(TransposeFp8) apply(Dropout) apply(CountFp8)  \
                                                  apply(DequantizeNf4) apply(PreferenceLoss)
