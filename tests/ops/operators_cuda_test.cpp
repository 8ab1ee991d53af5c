// Tests every operator of the cuda backend but attention against the naive f64 references of
// strata/op_checks/checks.h, with sizes of real models besides the odd ones. Each runs twice and
// must give the same bits.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "strata/base/bytes.h"
#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"
#include "support/catch.h"
#include "support/without_fp8.h"
#include "support/without_gpu.h"

namespace strata::test {
namespace {

constexpr std::array kCudaTypes{DType::kF32, DType::kBF16};

/// Runs the check twice on a CUDA device and requires the same outputs.
void repeated(OpRunner& runner, const std::function<Outputs(OpRunner&)>& check) {
  const Outputs first = check(runner);
  const Outputs second = check(runner);
  REQUIRE(first.size() == second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    require_equal("output of the second run", second[i], first[i]);
  }
}

void on_cuda(const std::function<void(OpRunner&)>& checks) {
  if (without_gpu()) return;
  Backend backend = make_backend(BackendKind::kCuda, {.device = {}, .threads = 1});
  OpRunner runner(backend);
  checks(runner);
}

/// Widths of LLaMA models, and what fits no fast path; few rows, since the reference is naive.
const std::vector<RowsCase> kModelRows{
    {9, 2048},      {257, 4096},         {6, 5120, 0, true}, {5, 8192},  {3, 11008},   {4, 5000, 8},
    {3, 13824, 16}, {2, 16384, 0, true}, {2, 16392},         {2, 28672}, {3, 14336, 1}};

void with_cuda_rows(const std::function<Outputs(OpRunner&, DType, const RowsCase&)>& check) {
  on_cuda([&](OpRunner& runner) {
    std::vector<RowsCase> cases = rows_cases();
    cases.insert(cases.end(), kModelRows.begin(), kModelRows.end());
    for (const DType dtype : kCudaTypes) {
      for (const RowsCase& c : cases) {
        INFO(name_of(dtype) << ", " << c.tokens << " rows of " << c.width << ", gap " << c.gap);
        repeated(runner, [&](OpRunner& r) { return check(r, dtype, c); });
      }
    }
  });
}

void with_cuda_sizes(const std::function<Outputs(OpRunner&, std::int64_t)>& check) {
  on_cuda([&](OpRunner& runner) {
    std::vector<std::int64_t> sizes = flat_sizes();
    sizes.push_back(std::int64_t{1} << 20);
    for (const std::int64_t n : sizes) {
      INFO(n << " elements");
      repeated(runner, [&](OpRunner& r) { return check(r, n); });
    }
  });
}

TEST_CASE("cross entropy on cuda in f32 gives probabilities to their last bits", "[cuda]") {
  on_cuda([](OpRunner& runner) {
    // Rows that are kept by a block and by clusters, aligned or not, and rows that are read twice.
    for (const RowsCase& c : {RowsCase{16, 1000, 1, true}, RowsCase{8, 32000}, RowsCase{8, 50257},
                              RowsCase{8, 128256, 0, true}, RowsCase{8, 300000, 0, true}}) {
      INFO("vocabulary of " << c.width);
      repeated(runner, [&](OpRunner& r) { return check_fine_cross_entropy(r, DType::kF32, c); });
    }
  });
}

TEST_CASE("residual add on cuda rounds each sum once", "[cuda]") {
  with_cuda_rows(check_residual_add);
}

TEST_CASE("a smooth cap on cuda follows the formula, forward and backward", "[cuda]") {
  with_cuda_rows(check_soft_cap);
}

TEST_CASE("dropout on cuda drops what its mask says, with and without what is added", "[cuda]") {
  for (const bool adds : {false, true}) {
    with_cuda_rows([=](OpRunner& r, DType dtype, const RowsCase& c) {
      return check_dropout(r, dtype, c, adds);
    });
  }
}

TEST_CASE("a bias on cuda is added with one rounding, and its gradient sums rows", "[cuda]") {
  with_cuda_rows(check_bias);
  on_cuda([](OpRunner& runner) {
    // More rows than runs of rows, so that the warps of a block have several each.
    for (const DType dtype : kCudaTypes) {
      for (const RowsCase& c : {RowsCase{5000, 72}, RowsCase{4097, 33, 1}, RowsCase{1024, 4608}}) {
        INFO(name_of(dtype) << ", " << c.tokens << " rows of " << c.width);
        repeated(runner, [&](OpRunner& r) { return check_bias(r, dtype, c); });
      }
    }
  });
}

TEST_CASE("swiglu on cuda follows the formula", "[cuda]") {
  for (const Activation activation : kAllActivations) {
    with_cuda_rows([=](OpRunner& runner, DType dtype, const RowsCase& c) {
      return check_swiglu(runner, dtype, c, activation);
    });
  }
}

TEST_CASE("rmsnorm on cuda follows the formula", "[cuda]") {
  for (const bool residual : {false, true}) {
    for (const double offset : {0.0, 1.0}) {
      with_cuda_rows([=](OpRunner& runner, DType dtype, const RowsCase& c) {
        return check_rmsnorm_forward(runner, dtype, c, residual, offset);
      });
    }
    for (const double offset : {0.0, 1.0}) {
      with_cuda_rows([=](OpRunner& runner, DType dtype, const RowsCase& c) {
        return check_rmsnorm_backward(runner, dtype, c, residual, offset);
      });
    }
  }
}

TEST_CASE("cross entropy on cuda gives loss, lse and gradient at any vocabulary", "[cuda]") {
  for (const bool gradient : {false, true}) {
    with_cuda_rows([=](OpRunner& runner, DType dtype, const RowsCase& c) {
      return check_cross_entropy(runner, dtype, c, gradient);
    });
    on_cuda([=](OpRunner& runner) {
      // Odd and contiguous, so that rows begin at every alignment; padded; the largest.
      for (const RowsCase& c :
           {RowsCase{5, 32000, 0, true}, RowsCase{9, 50257, 0, true}, RowsCase{3, 32001, 7},
            RowsCase{4, 128256, 0, true}, RowsCase{2, 262144}, RowsCase{2, 262144, 0, true},
            RowsCase{1, 300000, 0, true}}) {
        for (const DType dtype : kCudaTypes) {
          INFO(name_of(dtype) << ", vocabulary of " << c.width);
          repeated(runner, [&](OpRunner& r) { return check_cross_entropy(r, dtype, c, gradient); });
        }
      }
    });
  }
}

TEST_CASE("cross entropy on cuda takes a scale for each row", "[cuda]") {
  with_cuda_rows(check_scaled_cross_entropy);
  on_cuda([](OpRunner& runner) {
    for (const RowsCase& c : {RowsCase{9, 50257, 0, true}, RowsCase{600, 4096, 0, true},
                              RowsCase{5, 128256, 0, true}, RowsCase{3, 300000, 0, true}}) {
      for (const DType dtype : kCudaTypes) {
        INFO(name_of(dtype) << ", vocabulary of " << c.width);
        repeated(runner, [&](OpRunner& r) { return check_scaled_cross_entropy(r, dtype, c); });
      }
    }
  });
}

TEST_CASE("losses of preference pairs on cuda follow the papers", "[cuda]") {
  on_cuda([](OpRunner& runner) {
    for (const PreferenceRule& rule : kPreferenceRules) {
      repeated(runner, [&](OpRunner& r) { return check_preference(r, DType::kF32, rule); });
    }
  });
}

TEST_CASE("rows as int8 on cuda have the bits of the definition", "[cuda]") {
  with_cuda_rows(check_quantize);
}

TEST_CASE("weights of 4 bits on cuda have the bits of the definition", "[cuda]") {
  on_cuda([](OpRunner& runner) {
    for (const DType dtype : kCudaTypes) {
      for (const std::int64_t blocks : {0, 1, 255, 256, 1001, 100000}) {
        check_dequantize_nf4(runner, dtype, blocks);
      }
    }
  });
}

TEST_CASE("rows as int8 on cuda and on the cpu are the same", "[cuda]") {
  on_cuda([](OpRunner& runner) {
    Backend cpu = make_backend(BackendKind::kCpu, {.device = {}, .threads = 1});
    OpRunner reference(cpu);
    for (const DType dtype : kCudaTypes) {
      for (const RowsCase& c : kModelRows) {
        const Outputs on_device = check_quantize(runner, dtype, c);
        const Outputs on_host = check_quantize(reference, dtype, c);
        for (std::size_t i = 0; i < on_device.size(); ++i) {
          require_equal("output", on_device[i], on_host[i]);
        }
      }
    }
  });
}

TEST_CASE("rows and columns as e4m3 on cuda have the bits of the definition", "[cuda][fp8]") {
  with_cuda_rows(check_quantize_fp8);
}

TEST_CASE("codes in e4m3 on cuda are transposed to the largest scale", "[cuda][fp8]") {
  on_cuda([](OpRunner& runner) {
    std::vector<RowsCase> cases = rows_cases();
    cases.insert(cases.end(), kModelRows.begin(), kModelRows.end());
    cases.insert(cases.end(), {{1024, 768}, {144, 272, 16}, {130, 4112}});
    for (const RowsCase& c : cases) {
      INFO(c.tokens << " rows of " << c.width << ", gap " << c.gap);
      for (const bool with_nan : {false, true}) {
        repeated(runner, [&](OpRunner& r) { return check_transpose_fp8(r, c, with_nan); });
      }
    }
  });
}

TEST_CASE("what rounding to e4m3 has lost is counted exactly on cuda", "[cuda][fp8]") {
  with_cuda_rows(check_count_fp8);
}

TEST_CASE("columns as e4m3 on cuda have the bits of the definition at tall sizes", "[cuda][fp8]") {
  on_cuda([](OpRunner& runner) {
    for (const DType dtype : kCudaTypes) {
      for (const RowsCase& c :
           {RowsCase{4096, 256}, RowsCase{1040, 200, 8}, RowsCase{3001, 67}, RowsCase{2320, 72, 8},
            RowsCase{8192, 96}, RowsCase{9216, 40, 8}, RowsCase{9232, 48}}) {
        repeated(runner, [&](OpRunner& r) { return check_quantize_fp8(r, dtype, c); });
      }
    }
  });
}

TEST_CASE("norms and swiglu in e4m3 on cuda have the bits of their rounded outputs",
          "[cuda][fp8]") {
  for (const bool with_y : {false, true}) {
    with_cuda_rows([=](OpRunner& runner, DType dtype, const RowsCase& c) {
      return check_rmsnorm_fp8(runner, dtype, c, with_y);
    });
    with_cuda_rows([=](OpRunner& runner, DType dtype, const RowsCase& c) {
      return check_swiglu_fp8(runner, dtype, c, with_y);
    });
  }
}

TEST_CASE("gradients of norms and swiglu in e4m3 on cuda have the bits of the rounded ones",
          "[cuda][fp8]") {
  for (const bool residual : {false, true}) {
    with_cuda_rows([=](OpRunner& runner, DType dtype, const RowsCase& c) {
      return check_rmsnorm_backward_fp8(runner, dtype, c, residual);
    });
  }
  with_cuda_rows(check_swiglu_backward_fp8);
}

TEST_CASE("matmul of e4m3 on cuda is near that of the rounded numbers", "[cuda][fp8]") {
  on_cuda([](OpRunner& runner) {
    if (without_fp8(runner)) return;
    std::vector<MatmulCase> cases = fp8_matmul_cases();
    cases.insert(cases.end(), {{256, 384, 4096}, {512, 128, 1040}, {100, 1024, 512, 16, 0.125}});
    for (const MatmulCase& c : cases) {
      for (const DType out : kCudaTypes) {
        repeated(runner, [&](OpRunner& r) {
          return check_fp8_matmul(r, out, MatmulUpdate::kOverwrite, c, false);
        });
      }
      repeated(runner, [&](OpRunner& r) {
        return check_fp8_matmul(r, DType::kF32, MatmulUpdate::kAccumulate, c, false);
      });
    }
  });
}

TEST_CASE("matmul of rows as e4m3 on cuda is within 4.5 percent of that of the numbers",
          "[cuda][fp8]") {
  on_cuda([](OpRunner& runner) {
    if (without_fp8(runner)) return;
    for (const bool decades : {false, true}) check_fp8_product_error(runner, decades);
  });
}

TEST_CASE("matmul of e4m3 on cuda refuses sizes that tensor cores cannot load", "[cuda][fp8]") {
  on_cuda([](OpRunner& runner) {
    if (without_fp8(runner)) return;
    REQUIRE_THROWS_WITH(
        check_fp8_matmul(runner, DType::kBF16, MatmulUpdate::kOverwrite, {16, 24, 32}, false),
        ContainsSubstring("operator matmul") && ContainsSubstring("multiples of 16"));
    REQUIRE_THROWS_WITH(
        check_fp8_matmul(runner, DType::kBF16, MatmulUpdate::kOverwrite, {16, 16, 32, 8}, false),
        ContainsSubstring("multiples of 16 bytes"));
  });
}

TEST_CASE("int8 keys and values on cuda have the bits of the definition", "[cuda]") {
  on_cuda([](OpRunner& runner) {
    std::vector<RopeCase> cases = rope_cases();
    cases.push_back({70, 8, 128, 0});
    cases.push_back({33, 5, 64, 8});
    for (const DType dtype : kCudaTypes) {
      for (const RopeCase& c : cases) {
        INFO(name_of(dtype) << ", " << c.tokens << " tokens, " << c.heads << " heads of "
                            << c.head_dim);
        repeated(runner, [&](OpRunner& r) { return check_int8_kv(r, dtype, c); });
      }
    }
  });
}

TEST_CASE("embedding on cuda gathers rows and adds their gradients", "[cuda]") {
  for (const double scale : {1.0, 7.3}) {
    with_cuda_rows([=](OpRunner& runner, DType dtype, const RowsCase& c) {
      return check_embedding(runner, dtype, c, scale);
    });
  }
}

TEST_CASE("rope on cuda turns pairs forth and back", "[cuda]") {
  on_cuda([](OpRunner& runner) {
    std::vector<RopeCase> cases = rope_cases();
    cases.push_back({70, 32, 128, 2 * 8 * 128});
    for (const DType dtype : kCudaTypes) {
      for (const RopeCase& c : cases) {
        INFO(name_of(dtype) << ", " << c.tokens << " tokens, " << c.heads << " heads of "
                            << c.head_dim);
        for (const RopeForm& form : kRopeForms) {
          repeated(runner, [&](OpRunner& r) { return check_rope(r, dtype, c, form); });
        }
      }
    }
  });
}

std::vector<RopeCase> normed_head_cases() {
  std::vector<RopeCase> cases = rope_cases();
  // Queries and keys of real models within packed rows; heads of all lanes of a warp, of some
  // lanes of a group, and wider ones; and more than the blocks of backward have at a time.
  cases.insert(cases.end(), {{70, 32, 128, 2 * 8 * 128},
                             {9, 8, 128, 5},
                             {40, 5, 256, 8},
                             {21, 3, 96, 16},
                             {5, 3, 1000, 8},
                             {2900, 12, 64, 64},
                             {431, 40, 128, 0}});
  return cases;
}

TEST_CASE("norms of heads on cuda follow the formula", "[cuda]") {
  on_cuda([](OpRunner& runner) {
    for (const DType dtype : kCudaTypes) {
      for (const RopeCase& c : normed_head_cases()) {
        for (const bool in_place : {false, true}) {
          INFO(name_of(dtype) << ", " << c.tokens << " tokens, " << c.heads << " heads of "
                              << c.head_dim);
          for (const double offset : {0.0, 1.0}) {
            repeated(runner,
                     [&](OpRunner& r) { return check_head_norm(r, dtype, c, in_place, offset); });
          }
        }
      }
    }
  });
}

TEST_CASE("heads on cuda are normalised and turned at once with the bits of both operators",
          "[cuda]") {
  on_cuda([](OpRunner& runner) {
    std::vector<RopeCase> cases = normed_head_cases();
    // Halves of an odd number of pieces, and of none that are whole.
    cases.insert(cases.end(), {{33, 5, 80, 0}, {17, 3, 24, 8}, {9, 2, 8, 0}, {12, 3, 512, 16}});
    for (const DType dtype : kCudaTypes) {
      for (const RopeCase& c : cases) {
        for (const bool in_place : {false, true}) {
          INFO(name_of(dtype) << ", " << c.tokens << " tokens, " << c.heads << " heads of "
                              << c.head_dim);
          repeated(runner,
                   [&](OpRunner& r) { return check_turned_head_norm(r, dtype, c, in_place); });
        }
      }
    }
  });
}

TEST_CASE("accumulate on cuda adds in f32", "[cuda]") {
  with_cuda_sizes([](OpRunner& r, std::int64_t n) { return check_accumulate(r, DType::kF32, n); });
}

TEST_CASE("casts on cuda round once to nearest even", "[cuda]") {
  for (const DType from : kCudaTypes) {
    for (const DType to : kCudaTypes) {
      with_cuda_sizes([=](OpRunner& r, std::int64_t n) { return check_cast(r, from, to, n); });
    }
  }
  with_cuda_sizes([](OpRunner& r, std::int64_t n) { return check_copy(r, n); });
}

TEST_CASE("fill on cuda sets every element", "[cuda]") {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kI32}) {
    with_cuda_sizes([=](OpRunner& r, std::int64_t n) { return check_fill(r, dtype, n); });
  }
}

TEST_CASE("squared norm on cuda has the bits of the definition", "[cuda]") {
  for (const DType dtype : kCudaTypes) {
    with_cuda_sizes([=](OpRunner& r, std::int64_t n) { return check_squared_norm(r, dtype, n); });
  }
}

TEST_CASE("squared norms of extreme numbers on cuda have the bits of the definition", "[cuda]") {
  on_cuda([](OpRunner& runner) {
    for (const DType dtype : kCudaTypes) {
      repeated(runner, [=](OpRunner& r) { return check_squared_norm_extremes(r, dtype); });
    }
  });
}

TEST_CASE("a cast with squared norm on cuda has the bits of the definition", "[cuda]") {
  for (const DType to : kCudaTypes) {
    with_cuda_sizes([=](OpRunner& r, std::int64_t n) {
      return check_cast_squared_norm(r, DType::kF32, to, n);
    });
  }
}

TEST_CASE("matmul on cuda follows the formula in every layout, dtype and update", "[cuda]") {
  on_cuda([](OpRunner& runner) {
    std::vector<MatmulCase> cases = matmul_cases();
    for (const MatmulCase& c : {MatmulCase{128, 256, 192}, MatmulCase{16, 50257, 8},
                                MatmulCase{33, 1024, 64, 8}, MatmulCase{160, 136, 1000}}) {
      cases.push_back(c);
    }
    for (const auto layout : {MatmulLayout::kNT, MatmulLayout::kNN, MatmulLayout::kTN}) {
      for (const MatmulCase& c : cases) {
        for (const DType dtype : kCudaTypes) {
          INFO(name_of(dtype));
          for (const DType out : {dtype, DType::kF32}) {
            for (const auto update : {MatmulUpdate::kOverwrite, MatmulUpdate::kAccumulate}) {
              repeated(runner, [&](OpRunner& r) {
                return check_matmul(r, dtype, out, layout, update, c, false, dtype);
              });
            }
          }
        }
      }
    }
  });
}

TEST_CASE("a fused linear layer on cuda follows the formula and has the bits of its parts",
          "[cuda]") {
  on_cuda([](OpRunner& runner) {
    std::vector<FusedCase> cases = fused_cases();
    for (const FusedBefore before : kAllBefore) {
      for (const std::int64_t k : {2048, 4096, 5120, 11008, 28672}) {
        for (const std::int64_t rows : {1, 2, 3, 4}) {
          const FusedAfter after = kAllAfter.at(static_cast<std::size_t>(rows + k / 16) % 3);
          cases.push_back({rows, 72, k, 8 * (rows % 2), before, after});
        }
      }
      for (const FusedAfter after : kAllAfter) {
        cases.push_back({1, 32000, 256, 0, before, after});  // more blocks than run at a time
        cases.push_back({4, 72, 4096, 1, before, after});    // rows that are not aligned
      }
    }
    for (const FusedCase& c : cases) {
      for (const DType dtype : kCudaTypes) {
        repeated(runner, [&](OpRunner& r) { return check_fused_linear(r, dtype, c); });
      }
    }
  });
}

TEST_CASE("adamw on cuda has the bits of the definition", "[cuda]") {
  on_cuda([](OpRunner& runner) {
    for (const DType weight : kCudaTypes) {
      for (const DType moments : {DType::kF32, DType::kBF16, kMomentCode}) {
        for (const DType grad : kCudaTypes) {
          for (const std::int64_t n : {0, 1, 37, 4097, 20011, 1 << 18}) {
            repeated(runner,
                     [&](OpRunner& r) { return check_adamw(r, {weight, moments, grad, n}); });
          }
          for (const std::int64_t begin : {4096 * 3 + 64, 4095, 12289}) {
            if (moments == kMomentCode && begin % kMomentBlock != 0) continue;
            repeated(runner, [&](OpRunner& r) {
              return check_adamw(r, {weight, moments, grad, 9000, begin});
            });
            if (weight != DType::kBF16) continue;
            repeated(runner, [&](OpRunner& r) {
              return check_adamw(r, {weight, moments, grad, 9000, begin, false});
            });
          }
        }
      }
    }
  });
}

TEST_CASE("lion and sgd on cuda have the bits of the definition", "[cuda]") {
  on_cuda([](OpRunner& runner) {
    for (const auto formula :
         {MomentumFormula::kLion, MomentumFormula::kSgd, MomentumFormula::kNesterov}) {
      for (const DType weight : kCudaTypes) {
        for (const DType moments : {DType::kF32, DType::kBF16}) {
          for (const DType grad : kCudaTypes) {
            for (const std::int64_t n : {0, 1, 37, 4097, 20011, 1 << 18}) {
              repeated(runner, [&](OpRunner& r) {
                return check_momentum(r, formula, {weight, moments, grad, n});
              });
            }
            for (const std::int64_t begin : {4096 * 3 + 64, 4095, 12289}) {
              repeated(runner, [&](OpRunner& r) {
                return check_momentum(r, formula, {weight, moments, grad, 9000, begin});
              });
              if (weight != DType::kBF16) continue;
              repeated(runner, [&](OpRunner& r) {
                return check_momentum(r, formula, {weight, moments, grad, 9000, begin, false});
              });
            }
          }
        }
      }
    }
  });
}

/// One AdamW step on cuda with the scalars in pinned memory; returns the weights.
std::vector<double> adamw_with_pinned_scalars(Backend& backend, OpRunner& runner,
                                              std::int64_t apply) {
  Arena pinned(*backend.device, Space::kPinned, sizeof(AdamWScalars), "scalars");
  const AdamWScalars scalars{.lr = 0.5, .eps = 0, .apply = apply};
  std::byte* at = pinned.allocate("scalars", sizeof scalars);
  std::memcpy(at, &scalars, sizeof scalars);
  AdamW op;
  op.weight = runner.upload({1, 2, 3}, DType::kF32, {3});
  op.m = runner.upload({0, 0, 0}, DType::kF32, {3});
  op.v = runner.upload({0, 0, 0}, DType::kF32, {3});
  op.grad = runner.upload({1, 1, 1}, DType::kF32, {3});
  op.nonfinite = runner.upload({0}, DType::kI32, {1});
  op.scalars = reinterpret_cast<const AdamWScalars*>(at);
  runner.run(op);
  return runner.download(op.weight);
}

TEST_CASE("adamw on cuda reads its scalars from pinned memory and can skip the step", "[cuda]") {
  if (without_gpu()) return;
  Backend backend = make_backend(BackendKind::kCuda, {.device = {}, .threads = 1});
  OpRunner runner(backend);
  CHECK(adamw_with_pinned_scalars(backend, runner, 0) == std::vector<double>{1, 2, 3});
  // With corrections of 1: m = 0.1, sqrt(v) = sqrt(0.05).
  const double moved = 0.5 * 0.1 / std::sqrt(0.05);
  const std::vector<double> stepped = adamw_with_pinned_scalars(backend, runner, 1);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(std::abs(stepped[i] - (static_cast<double>(i) + 1 - moved)) < 1e-6);
  }
}

TEST_CASE("cuda refuses f64 and says where it runs", "[cuda]") {
  on_cuda([](OpRunner& runner) {
    const TensorView x = runner.upload({1, 2}, DType::kF64, {1, 2});
    REQUIRE_THROWS_WITH(runner.run(ResidualAdd{.a = x, .b = x, .y = x}),
                        ContainsSubstring("residual_add") && ContainsSubstring("cpu backend"));
  });
}

TEST_CASE("cuda matmul is refused on lanes without its workspace", "[cuda]") {
  if (without_gpu()) return;
  Backend backend = make_backend(BackendKind::kCuda, {.device = {}, .threads = 1});
  OpRunner runner(backend);
  const TensorView x = runner.upload({1}, DType::kF32, {1, 1});
  Stream& out = backend.device->stream(Lane::kOut);
  REQUIRE_THROWS_WITH(backend.kernels->run(out, Matmul{.a = x, .b = x, .out = x}, {}),
                      ContainsSubstring("compute"));
}

TEST_CASE("host kernels of the cuda backend run on its host lane", "[cuda]") {
  if (without_gpu()) return;
  Backend backend = make_backend(BackendKind::kCuda, {.device = {}, .threads = 2});
  Arena pinned(*backend.device, Space::kPinned, kMiB, "pinned");
  auto* values = reinterpret_cast<float*>(pinned.allocate("values", 1000 * sizeof(float)));
  Stream& host = backend.device->stream(Lane::kHost);
  backend.host_kernels().run(host, Fill{.x = {values, DType::kF32, {1000}}, .value = 2.5}, {});
  backend.device->synchronize();
  CHECK(std::count(values, values + 1000, 2.5f) == 1000);
  const Fill on_cuda_kernels{.x = {values, DType::kF32, {1000}}, .value = 1};
  REQUIRE_THROWS_AS(backend.kernels->run(host, on_cuda_kernels, {}), BackendError);
}

}  // namespace
}  // namespace strata::test
