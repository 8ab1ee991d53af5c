// This file makes the variants of the inner loops for AVX-512 F, BW, DQ and VL, compiled with
// options of their own (CMakeLists.txt). usable_simd() offers them where the processor has all of
// these; simd.h says what they promise.

#include "kernels/cpu/simd/adamw.h"
#include "kernels/cpu/simd/exp.h"
#include "kernels/cpu/simd/momentum.h"
#include "kernels/cpu/simd/rows.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/softmax.h"
#include "kernels/cpu/simd/tile.h"

namespace strata::cpu {

constinit const SimdKernels kAvx512{.name = "avx512",
                                    .tile_f32 = tile_kernel<VectorF32>(),
                                    .tile_f64 = tile_kernel<VectorF64>(),
                                    .rows_f64 = row_kernels<double, double>(),
                                    .rows_f32 = row_kernels<float, float>(),
                                    .rows_bf16 = row_kernels<float, Bf16>(),
                                    .rows_i8_f64 = row_kernels<double, std::int8_t>(),
                                    .rows_i8_f32 = row_kernels<float, std::int8_t>(),
                                    .exp_f32 = exponentials<float>,
                                    .exp_f64 = exponentials<double>,
                                    .softmax_f32 = softmax<float>,
                                    .softmax_f64 = softmax<double>,
                                    .adamw = adamw,
                                    .lion = momentum<OneMoment::kLion>,
                                    .sgd = momentum<OneMoment::kSgd>,
                                    .nesterov = momentum<OneMoment::kNesterov>};

}  // namespace strata::cpu
