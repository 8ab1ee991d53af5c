// This file has the list of check_list.h: add a line here for every new operator. A line calls a
// check of checks.h, which compares with a naive reference.

#include "strata/op_checks/check_list.h"

#include <algorithm>
#include <utility>

#include "strata/op_checks/reference.h"

namespace strata {
namespace {

constexpr DType kF32 = DType::kF32;
constexpr DType kBF16 = DType::kBF16;

/// What a backend rounds intermediate results to. On cuda attention's tensor cores read them in
/// bf16, and cuBLASLt may round products to it before it adds such numbers, if that is the compute
/// dtype.
DType intermediate_of(DType dtype, BackendKind kind) {
  return kind == BackendKind::kCuda ? dtype : accumulator_of(dtype);
}

}  // namespace

CheckShapes smallest_shapes(BackendKind kind) {
  // On the cpu these run for their names alone: op_cases_test.cpp has them with all head dims.
  const HeadDims head_dims = kind == BackendKind::kCuda ? cuda_head_dims() : HeadDims{12};
  return {.rows = {{3, 1}, {5, 24}, {7, 33, 3, true}, {2, 2048}, {2, 5000, 8}},
          .vocabularies = {{3, 1}, {9, 63, 0, true}, {3, 4099, 5}, {2, 131073, 0, true}},
          .runs = {1, 37, 4097, 20011},
          .products = {{1, 1, 1}, {33, 40, 24}, {16, 24, 40, 8}},
          .fused = fused_cases(),
          .heads = {{5, 3, 8, 4}, {3, 2, 128, 256}},
          .attention = {causal_case(2, 130, 2, 1, 64), causal_case(2, 130, 2, 1, 128),
                        causal_case(1, 130, 2, 1, 256)},
          .decode = decode_cases(head_dims),
          .fused_attend = fused_attend_cases(head_dims)};
}

CheckShapes model_shapes() {
  return {.rows = {{257, 4096}, {130, 5120, 0, true}, {9, 14336, 8}, {67, 999, 1}},
          .vocabularies =
              {{300, 1}, {40, 32000}, {9, 50257, 0, true}, {4, 128256}, {3, 262144, 0, true}},
          .runs = {20011, std::int64_t{1} << 20},
          .products = {{256, 384, 512}, {160, 136, 1000}, {64, 128, 2048, 8}},
          .fused = {{1, 384, 4096, 0, FusedBefore::kResidualNorm, FusedAfter::kGate},
                    {4, 264, 2048, 8, FusedBefore::kNorm},
                    {1, 512, 11008, 0, FusedBefore::kNothing, FusedAfter::kResidual},
                    {2, 512, 5120}},
          .heads = {{500, 32, 128, 1024}},
          .attention = {causal_case(2, 333, 4, 2, 64), causal_case(2, 333, 4, 2, 128)},
          .decode = decode_cases(cuda_head_dims()),
          .fused_attend = fused_attend_cases(cuda_head_dims())};
}

std::vector<OpCheck> op_checks(const CheckShapes& shapes, BackendKind kind) {
  std::vector<OpCheck> all;
  const auto add = [&](const std::string& name, std::function<void(OpRunner&)> run) {
    all.push_back({name, std::move(run)});
  };
  for (const DType dtype : {kF32, kBF16}) {
    const std::string suffix = " " + std::string(name_of(dtype));
    for (const RowsCase& c : shapes.rows) {
      add("residual add" + suffix, [=](OpRunner& r) { check_residual_add(r, dtype, c); });
      add("bias" + suffix, [=](OpRunner& r) { check_bias(r, dtype, c); });
      add("soft cap" + suffix, [=](OpRunner& r) { check_soft_cap(r, dtype, c); });
      for (const bool adds : {false, true}) {
        add("dropout" + suffix, [=](OpRunner& r) { check_dropout(r, dtype, c, adds); });
      }
      add("swiglu" + suffix, [=](OpRunner& r) { check_swiglu(r, dtype, c); });
      add("embedding" + suffix, [=](OpRunner& r) { check_embedding(r, dtype, c); });
      add("rows as int8" + suffix, [=](OpRunner& r) { check_quantize(r, dtype, c); });
      add("rows as e4m3" + suffix, [=](OpRunner& r) { check_quantize_fp8(r, dtype, c); });
      add("counts of e4m3" + suffix, [=](OpRunner& r) { check_count_fp8(r, dtype, c); });
      add("y as e4m3" + suffix, [=](OpRunner& r) {
        check_rmsnorm_fp8(r, dtype, c, false);
        check_swiglu_fp8(r, dtype, c, false);
        check_rmsnorm_backward_fp8(r, dtype, c, true);
      });
      add("e4m3 transposed" + suffix, [=](OpRunner& r) { check_transpose_fp8(r, c, false); });
      for (const bool residual : {false, true}) {
        add("rmsnorm" + suffix, [=](OpRunner& r) {
          check_rmsnorm_forward(r, dtype, c, residual);
          check_rmsnorm_backward(r, dtype, c, residual);
        });
      }
    }
    for (const RowsCase& c : shapes.vocabularies) {
      for (const bool gradient : {false, true}) {
        add("cross entropy" + suffix,
            [=](OpRunner& r) { check_cross_entropy(r, dtype, c, gradient); });
      }
      add("cross entropy with scales" + suffix,
          [=](OpRunner& r) { check_scaled_cross_entropy(r, dtype, c); });
    }
    for (const PreferenceRule& rule : kPreferenceRules) {
      add("preference" + suffix, [=](OpRunner& r) { check_preference(r, dtype, rule); });
    }
    for (const RopeCase& c : shapes.heads) {
      add("rope" + suffix, [=](OpRunner& r) {
        for (const RopeForm& form : kRopeForms) {
          RopeCase some = c;  // as many elements, however long heads are
          some.tokens = (c.tokens + form.multiple - 1) / form.multiple;
          check_rope(r, dtype, some, form);
        }
      });
      for (const bool in_place : {false, true}) {
        add("head norm" + suffix, [=](OpRunner& r) {
          check_head_norm(r, dtype, c, in_place);
          check_turned_head_norm(r, dtype, c, in_place);
        });
      }
    }
    for (const RopeCase& c : shapes.heads) {
      RopeCase some = c;  // the cache is larger than what is added
      some.tokens = std::min<std::int64_t>(some.tokens, 100);
      add("append kv" + suffix, [=](OpRunner& r) { check_append_kv(r, dtype, some); });
      add("fused append" + suffix, [=](OpRunner& r) { check_fused_append(r, dtype, some); });
      add("int8 kv" + suffix, [=](OpRunner& r) { check_int8_kv(r, dtype, some); });
    }
    for (const RowsCase& c : shapes.vocabularies) {
      if (c.in_place) continue;
      add("sample tokens" + suffix, [=](OpRunner& r) { check_sample_tokens(r, dtype, c); });
    }
    for (const std::int64_t n : shapes.runs) {
      add("weights of 4 bits" + suffix,
          [=](OpRunner& r) { check_dequantize_nf4(r, dtype, (n + kNf4Block - 1) / kNf4Block); });
      add("squared norm" + suffix, [=](OpRunner& r) { check_squared_norm(r, dtype, n); });
      add("fill" + suffix, [=](OpRunner& r) { check_fill(r, dtype, n); });
      add("cast squared norm" + suffix,
          [=](OpRunner& r) { check_cast_squared_norm(r, kF32, dtype, n); });
      for (const DType other : {kF32, kBF16}) {
        add("cast" + suffix, [=](OpRunner& r) { check_cast(r, dtype, other, n); });
        for (const DType grad : {kF32, kBF16}) {
          add("adamw" + suffix, [=](OpRunner& r) { check_adamw(r, {dtype, other, grad, n}); });
        }
        add("adamw" + suffix, [=](OpRunner& r) { check_adamw(r, {dtype, kMomentCode, other, n}); });
        if (dtype == kBF16) {
          add("adamw without low halves" + suffix, [=](OpRunner& r) {
            for (const DType moments : {other, kMomentCode}) {
              check_adamw(r, {dtype, moments, dtype, n, 0, false});
            }
          });
        }
        add("momentum" + suffix, [=](OpRunner& r) {
          for (const auto formula :
               {MomentumFormula::kLion, MomentumFormula::kSgd, MomentumFormula::kNesterov}) {
            check_momentum(r, formula, {dtype, other, dtype, n});
          }
        });
      }
    }
    for (const MatmulCase& c : shapes.products) {
      for (const auto layout : {MatmulLayout::kNT, MatmulLayout::kNN, MatmulLayout::kTN}) {
        add("matmul" + suffix, [=](OpRunner& r) {
          check_matmul(r, dtype, dtype, layout, MatmulUpdate::kOverwrite, c);
          check_matmul(r, dtype, kF32, layout, MatmulUpdate::kAccumulate, c);
          check_matmul(r, dtype, dtype, layout, MatmulUpdate::kAccumulate, c, false,
                       intermediate_of(dtype, kind));
          if (layout == MatmulLayout::kNT) {
            MatmulCase biased = c;
            biased.bias = true;
            check_matmul(r, dtype, dtype, layout, MatmulUpdate::kOverwrite, biased, false,
                         intermediate_of(dtype, kind));
            check_matmul(r, dtype, dtype, layout, MatmulUpdate::kOverwrite, c, true);
          }
        });
      }
    }
    for (const FusedCase& c : shapes.fused) {
      add("fused linear" + suffix, [=](OpRunner& r) { check_fused_linear(r, dtype, c); });
    }
    for (const AttentionCase& c : shapes.attention) {
      add("attention" + suffix, [=](OpRunner& r) {
        const DType rounded = intermediate_of(dtype, kind);
        check_attention_forward(r, dtype, c, rounded);
        check_attention_backward(r, dtype, c, {rounded, rounded});
      });
    }
    for (const AttentionCase& c : shapes.decode) {
      add("attention of single queries" + suffix, [=](OpRunner& r) {
        check_attention_forward(r, dtype, c, intermediate_of(dtype, kind));
        check_attend_int8_kv(r, dtype, c, intermediate_of(dtype, kind));
      });
    }
    for (const AttentionCase& c : shapes.fused_attend) {
      add("fused attention" + suffix, [=](OpRunner& r) { check_fused_attend(r, dtype, c); });
    }
  }
  for (const std::int64_t n : shapes.runs) {
    add("accumulate", [=](OpRunner& r) { check_accumulate(r, kF32, n); });
  }
  return all;
}

}  // namespace strata
