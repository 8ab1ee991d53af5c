// Tests every operator of the cpu backend against the naive references of
// strata/op_checks/checks.h, and that the bits are the same whatever the number of threads.

#include <array>
#include <functional>
#include <vector>

#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"
#include "support/catch.h"
#include "support/sanitized.h"

namespace strata::test {
namespace {

constexpr std::array kComputeTypes{DType::kF64, DType::kF32, DType::kBF16};
constexpr std::array kLayouts{MatmulLayout::kNT, MatmulLayout::kNN, MatmulLayout::kTN};

Backend cpu_backend(int threads) {
  BackendOptions options;
  options.device.execution = Execution::kEager;
  options.threads = threads;
  return make_backend(BackendKind::kCpu, options);
}

/// Runs the checks with 1 and 5 threads and requires the same outputs. Under sanitizers five are
/// enough: they run the same code.
void with_threads(const std::function<std::vector<Outputs>(OpRunner&)>& checks) {
  std::vector<Outputs> alone;
  for (const int threads : kSanitized ? std::vector{5} : std::vector{1, 5}) {
    INFO(threads << " threads");
    Backend backend = cpu_backend(threads);
    OpRunner runner(backend);
    std::vector<Outputs> outputs = checks(runner);
    if (alone.empty()) {
      alone = std::move(outputs);
      continue;
    }
    REQUIRE(outputs.size() == alone.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      for (std::size_t o = 0; o < outputs[i].size(); ++o) {
        require_equal("output with several threads", outputs[i][o], alone[i][o]);
      }
    }
  }
}

void with_rows(const std::function<Outputs(OpRunner&, DType, const RowsCase&)>& check) {
  with_threads([&](OpRunner& runner) {
    std::vector<Outputs> outputs;
    for (const DType dtype : kComputeTypes) {
      for (const RowsCase& c : rows_cases()) {
        INFO(name_of(dtype) << ", " << c.tokens << " rows of " << c.width);
        outputs.push_back(check(runner, dtype, c));
      }
    }
    return outputs;
  });
}

void with_sizes(const std::function<Outputs(OpRunner&, std::int64_t)>& check) {
  with_threads([&](OpRunner& runner) {
    std::vector<Outputs> outputs;
    for (const std::int64_t n : flat_sizes()) outputs.push_back(check(runner, n));
    return outputs;
  });
}

TEST_CASE("residual add rounds each sum once", "[ops]") { with_rows(check_residual_add); }

TEST_CASE("a smooth cap follows the formula, forward and backward", "[ops]") {
  with_rows(check_soft_cap);
}

TEST_CASE("dropout drops what its mask says, with and without what is added", "[ops]") {
  for (const bool adds : {false, true}) {
    with_rows([=](OpRunner& r, DType dtype, const RowsCase& c) {
      return check_dropout(r, dtype, c, adds);
    });
  }
}

TEST_CASE("a bias is added with one rounding, and its gradient sums rows", "[ops]") {
  with_rows(check_bias);
}

TEST_CASE("swiglu forward and backward follow the formula", "[ops]") {
  for (const Activation activation : kAllActivations) {
    with_rows([=](OpRunner& runner, DType dtype, const RowsCase& c) {
      return check_swiglu(runner, dtype, c, activation);
    });
  }
}

TEST_CASE("rmsnorm forward and backward follow the formula", "[ops]") {
  for (const bool residual : {false, true}) {
    for (const double offset : {0.0, 1.0}) {
      with_rows([=](OpRunner& runner, DType dtype, const RowsCase& c) {
        return check_rmsnorm_forward(runner, dtype, c, residual, offset);
      });
    }
    for (const double offset : {0.0, 1.0}) {
      with_rows([=](OpRunner& runner, DType dtype, const RowsCase& c) {
        return check_rmsnorm_backward(runner, dtype, c, residual, offset);
      });
    }
  }
}

TEST_CASE("cross entropy gives loss, lse and gradient and skips ignored targets", "[ops]") {
  for (const bool gradient : {false, true}) {
    with_rows([=](OpRunner& runner, DType dtype, const RowsCase& c) {
      return check_cross_entropy(runner, dtype, c, gradient);
    });
  }
}

TEST_CASE("cross entropy takes a scale for each row", "[ops]") {
  with_rows(check_scaled_cross_entropy);
}

TEST_CASE("losses of preference pairs and their derivatives follow the papers", "[ops]") {
  with_threads([](OpRunner& runner) {
    std::vector<Outputs> outputs;
    for (const DType dtype : kComputeTypes) {
      for (const PreferenceRule& rule : kPreferenceRules) {
        INFO(name_of(dtype) << ", objective " << static_cast<int>(rule.objective));
        outputs.push_back(check_preference(runner, dtype, rule));
      }
    }
    return outputs;
  });
}

TEST_CASE("cross entropy in f32 and f64 gives probabilities to their last bits", "[ops]") {
  with_threads([](OpRunner& runner) {
    std::vector<Outputs> outputs;
    for (const DType dtype : {DType::kF64, DType::kF32}) {
      outputs.push_back(check_fine_cross_entropy(runner, dtype, {16, 1000, 1, true}));
    }
    return outputs;
  });
}

TEST_CASE("rows come back from int8 to within half a level, and non-finite ones visibly", "[ops]") {
  with_rows(check_quantize);
}

TEST_CASE("rows and columns as e4m3 have the bits of the definition", "[ops][fp8]") {
  with_rows(check_quantize_fp8);
}

TEST_CASE("weights of 4 bits have the bits of the definition", "[ops]") {
  with_threads([](OpRunner& runner) {
    std::vector<Outputs> outputs;
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
      for (const std::int64_t blocks : {0, 1, 255, 256, 1001}) {
        outputs.push_back(check_dequantize_nf4(runner, dtype, blocks));
      }
    }
    return outputs;
  });
}

TEST_CASE("codes in e4m3 are transposed to the largest scale", "[ops][fp8]") {
  with_threads([](OpRunner& runner) {
    std::vector<Outputs> outputs;
    for (const RowsCase& c : rows_cases()) {
      INFO(c.tokens << " rows of " << c.width);
      for (const bool with_nan : {false, true}) {
        outputs.push_back(check_transpose_fp8(runner, c, with_nan));
      }
    }
    return outputs;
  });
}

TEST_CASE("what rounding to e4m3 has lost is counted exactly", "[ops][fp8]") {
  with_rows(check_count_fp8);
}

TEST_CASE("embedding gathers rows and adds their gradients", "[ops]") {
  for (const double scale : {1.0, 7.3}) {
    with_rows([=](OpRunner& runner, DType dtype, const RowsCase& c) {
      return check_embedding(runner, dtype, c, scale);
    });
  }
}

TEST_CASE("rope turns pairs forth and back", "[ops]") {
  with_threads([](OpRunner& runner) {
    std::vector<Outputs> outputs;
    for (const DType dtype : kComputeTypes) {
      for (const RopeCase& c : rope_cases()) {
        for (const RopeForm& form : kRopeForms) {
          outputs.push_back(check_rope(runner, dtype, c, form));
        }
      }
    }
    return outputs;
  });
}

TEST_CASE("norms of heads follow the formula, forward and backward", "[ops]") {
  with_threads([](OpRunner& runner) {
    std::vector<Outputs> outputs;
    for (const DType dtype : kComputeTypes) {
      for (const RopeCase& c : rope_cases()) {
        for (const bool in_place : {false, true}) {
          outputs.push_back(check_head_norm(runner, dtype, c, in_place));
          outputs.push_back(check_head_norm(runner, dtype, c, in_place, 1.0));
        }
      }
    }
    return outputs;
  });
}

TEST_CASE("heads are normalised and turned at once with the bits of both operators", "[ops]") {
  with_threads([](OpRunner& runner) {
    std::vector<Outputs> outputs;
    for (const DType dtype : kComputeTypes) {
      for (const RopeCase& c : rope_cases()) {
        for (const bool in_place : {false, true}) {
          outputs.push_back(check_turned_head_norm(runner, dtype, c, in_place));
        }
      }
    }
    return outputs;
  });
}

TEST_CASE("keys and values go to their rows of a cache and nowhere else", "[ops]") {
  with_threads([](OpRunner& runner) {
    std::vector<Outputs> outputs;
    for (const DType dtype : kComputeTypes) {
      for (const RopeCase& c : rope_cases()) outputs.push_back(check_append_kv(runner, dtype, c));
      for (const RopeCase& c : rope_cases()) {
        outputs.push_back(check_fused_append(runner, dtype, c));
      }
    }
    return outputs;
  });
}

void attend_in_parts(bool many) {
  constexpr std::int64_t kMany = 32;  // thousands of keys, which take seconds
  with_threads([many](OpRunner& runner) {
    std::vector<Outputs> outputs;
    for (const DType dtype : kComputeTypes) {
      for (const AttentionCase& c : fused_attend_cases()) {
        if ((c.parts > kMany) != many) continue;
        // Its attention is that of the parts, which have windows and caps with every head dim.
        if (c.head_dim > 12 && (c.window > 0 || c.score_cap > 0)) continue;
        outputs.push_back(check_fused_attend(runner, dtype, c));
      }
    }
    return outputs;
  });
}

TEST_CASE("tokens add a key and attend to it and to those before", "[ops]") {
  attend_in_parts(false);
}

TEST_CASE("tokens attend to keys in many parts", "[ops][long]") { attend_in_parts(true); }

TEST_CASE("keys and values are rounded to int8 head by head, and only what is seen comes back",
          "[ops]") {
  with_threads([](OpRunner& runner) {
    std::vector<Outputs> outputs;
    for (const DType dtype : kComputeTypes) {
      for (const RopeCase& c : rope_cases()) outputs.push_back(check_int8_kv(runner, dtype, c));
    }
    return outputs;
  });
}

TEST_CASE("tokens are drawn by the distribution that is left of the logits", "[ops]") {
  with_threads([](OpRunner& runner) {
    std::vector<Outputs> outputs;
    for (const DType dtype : kComputeTypes) {
      for (const RowsCase& c : {RowsCase{7, 1}, RowsCase{0, 5}, RowsCase{61, 9, 3},
                                RowsCase{40, 67}, RowsCase{5, 4099, 5}}) {
        outputs.push_back(check_sample_tokens(runner, dtype, c));
      }
    }
    return outputs;
  });
}

TEST_CASE("accumulate adds in the dtype of the sum", "[ops]") {
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    with_sizes(
        [=](OpRunner& runner, std::int64_t n) { return check_accumulate(runner, dtype, n); });
  }
}

TEST_CASE("casts between all pairs of dtypes round once to nearest even", "[ops]") {
  for (const DType from : kComputeTypes) {
    for (const DType to : kComputeTypes) {
      with_sizes([=](OpRunner& runner, std::int64_t n) { return check_cast(runner, from, to, n); });
    }
  }
  with_sizes([](OpRunner& runner, std::int64_t n) { return check_copy(runner, n); });
}

TEST_CASE("fill sets every element", "[ops]") {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kI32}) {
    with_sizes([=](OpRunner& runner, std::int64_t n) { return check_fill(runner, dtype, n); });
  }
}

TEST_CASE("squared norm adds squares in f64 in index order", "[ops]") {
  for (const DType dtype : kComputeTypes) {
    with_sizes(
        [=](OpRunner& runner, std::int64_t n) { return check_squared_norm(runner, dtype, n); });
  }
}

TEST_CASE("squared norms of extreme numbers have the bits of the definition", "[ops]") {
  with_threads([](OpRunner& runner) {
    return std::vector<Outputs>{check_squared_norm_extremes(runner, DType::kF32),
                                check_squared_norm_extremes(runner, DType::kBF16)};
  });
}

TEST_CASE("a cast with squared norm rounds as the cast and measures what it wrote", "[ops]") {
  for (const DType from : {DType::kF64, DType::kF32}) {
    for (const DType to : kComputeTypes) {
      with_sizes([=](OpRunner& runner, std::int64_t n) {
        return check_cast_squared_norm(runner, from, to, n);
      });
    }
  }
}

TEST_CASE("an operator that does not repeat is noticed", "[ops]") {
  Backend backend = cpu_backend(1);
  OpRunner runner(backend, 3);
  // The residual stream is outside of what the runner restores, so every run adds x to it again.
  std::vector<float> stream{1, 2, 3, 4};
  const TensorView sum(reinterpret_cast<std::byte*>(stream.data()), DType::kF32, {1, 4});
  RmsNormForward op{.x = runner.upload({4, 3, 2, 1}, DType::kF32, {1, 4}),
                    .residual = runner.upload({1, 2, 3, 4}, DType::kF32, {1, 4}),
                    .weight = runner.upload({1, 1, 1, 1}, DType::kF32, {4}),
                    .sum = sum,
                    .y = runner.output(DType::kF32, {1, 4}),
                    .rstd = runner.output(DType::kF32, {1})};
  REQUIRE_NOTHROW(runner.run(op));
  op.residual = sum;
  REQUIRE_THROWS_WITH(runner.run(op),
                      ContainsSubstring("rmsnorm_forward") && ContainsSubstring("run 2 of 3"));
}

TEST_CASE("matmul follows the formula in every layout, dtype and update", "[ops]") {
  Backend backend = cpu_backend(2);
  OpRunner runner(backend);
  for (const auto layout : kLayouts) {
    for (const MatmulCase& c : matmul_cases()) {
      for (const DType dtype : kComputeTypes) {
        const DType sums = accumulator_of(dtype);
        check_matmul(runner, dtype, dtype, layout, MatmulUpdate::kOverwrite, c);
        check_matmul(runner, dtype, sums, layout, MatmulUpdate::kAccumulate, c);
        check_matmul(runner, dtype, dtype, layout, MatmulUpdate::kAccumulate, c);
        if (layout != MatmulLayout::kNT) continue;
        check_matmul(runner, dtype, dtype, layout, MatmulUpdate::kOverwrite, c, true);
      }
    }
  }
}

TEST_CASE("norms and swiglu in e4m3 have the bits of their rounded outputs", "[ops][fp8]") {
  for (const bool with_y : {false, true}) {
    with_rows([=](OpRunner& runner, DType dtype, const RowsCase& c) {
      return check_rmsnorm_fp8(runner, dtype, c, with_y);
    });
    with_rows([=](OpRunner& runner, DType dtype, const RowsCase& c) {
      return check_swiglu_fp8(runner, dtype, c, with_y);
    });
  }
}

TEST_CASE("gradients of norms and swiglu in e4m3 have the bits of the rounded ones", "[ops][fp8]") {
  for (const bool residual : {false, true}) {
    with_rows([=](OpRunner& runner, DType dtype, const RowsCase& c) {
      return check_rmsnorm_backward_fp8(runner, dtype, c, residual);
    });
  }
  with_rows(check_swiglu_backward_fp8);
}

TEST_CASE("matmul of e4m3 is that of the rounded numbers", "[ops][fp8]") {
  with_threads([](OpRunner& runner) {
    std::vector<MatmulCase> cases = fp8_matmul_cases();
    cases.insert(cases.end(), {{1, 1, 1}, {13, 33, 17, 3}, {67, 129, 259}});
    std::vector<Outputs> outputs;
    for (const MatmulCase& c : cases) {
      for (const DType out : kComputeTypes) {
        outputs.push_back(check_fp8_matmul(runner, out, MatmulUpdate::kOverwrite, c, true));
        if (out == DType::kBF16) continue;
        outputs.push_back(check_fp8_matmul(runner, out, MatmulUpdate::kAccumulate, c, true));
      }
    }
    return outputs;
  });
}

TEST_CASE("matmul of rows as e4m3 is within 4.5 percent of that of the numbers", "[ops][fp8]") {
  Backend backend = cpu_backend(2);
  OpRunner runner(backend);
  for (const bool decades : {false, true}) check_fp8_product_error(runner, decades);
}

TEST_CASE("a fused linear layer follows the formula and has the bits of its parts", "[ops]") {
  Backend backend = cpu_backend(2);
  OpRunner runner(backend);
  for (const FusedCase& c : fused_cases()) {
    for (const DType dtype : kComputeTypes) check_fused_linear(runner, dtype, c);
  }
}

TEST_CASE("matmul has the same bits with any number of threads", "[ops]") {
  with_threads([](OpRunner& runner) {
    std::vector<Outputs> outputs;
    for (const auto layout : kLayouts) {
      const MatmulCase large{.m = 130, .n = 210, .k = 270};
      outputs.push_back(
          check_matmul(runner, DType::kF32, DType::kF32, layout, MatmulUpdate::kAccumulate, large));
    }
    return outputs;
  });
}

TEST_CASE("attention forward and backward follow the formulas for all segments", "[ops][long]") {
  Backend backend = cpu_backend(2);
  OpRunner runner(backend);
  for (const AttentionCase& c : attention_cases()) {
    for (const DType dtype : kComputeTypes) {
      check_attention_forward(runner, dtype, c, accumulator_of(dtype));
      check_attention_backward(runner, dtype, c, {accumulator_of(dtype), accumulator_of(dtype)});
    }
  }
}

TEST_CASE("single queries over a cache follow the formula", "[ops]") {
  Backend backend = cpu_backend(2);
  OpRunner runner(backend);
  for (const AttentionCase& c : decode_cases()) {
    for (const DType dtype : kComputeTypes) {
      check_attention_forward(runner, dtype, c, accumulator_of(dtype));
    }
  }
}

TEST_CASE("single queries over int8 keys and values follow the formula", "[ops]") {
  Backend backend = cpu_backend(2);
  OpRunner runner(backend);
  for (const AttentionCase& c : decode_cases()) {
    for (const DType dtype : kComputeTypes) {
      check_attend_int8_kv(runner, dtype, c, accumulator_of(dtype));
    }
  }
}

TEST_CASE("they have the same bits over int8 with any number of threads", "[ops]") {
  with_threads([](OpRunner& runner) {
    std::vector<Outputs> outputs;
    for (const AttentionCase& c : decode_cases()) {
      if (c.head_dim > 12) continue;  // the smaller ones; threads do not see the head dim
      outputs.push_back(check_attend_int8_kv(runner, DType::kF32, c, DType::kF32));
    }
    return outputs;
  });
}

TEST_CASE("attention has the same bits with any number of threads", "[ops]") {
  with_threads([](OpRunner& runner) {
    std::vector<Outputs> outputs;
    for (const AttentionCase& c : attention_cases()) {
      if (c.head_dim > 12) continue;  // the smaller ones; threads do not see the head dim
      outputs.push_back(check_attention_forward(runner, DType::kF32, c, DType::kF32));
      outputs.push_back(
          check_attention_backward(runner, DType::kF32, c, {DType::kF32, DType::kF32}));
    }
    return outputs;
  });
}

TEST_CASE("adamw is the written sequence of operations, bit by bit", "[ops]") {
  for (const DType weight : kComputeTypes) {
    for (const DType moments : {accumulator_of(weight), DType::kBF16, kMomentCode}) {
      if (weight == DType::kF64 && moments != DType::kF64) continue;
      for (const DType grad : kComputeTypes) {
        with_threads([&](OpRunner& runner) {
          std::vector<Outputs> outputs;
          for (const std::int64_t n : {0, 1, 37, 4097, 20011}) {
            outputs.push_back(check_adamw(runner, {weight, moments, grad, n}));
          }
          for (const std::int64_t begin : {4096 * 3 + 64, 4095, 12289}) {
            if (moments == kMomentCode && begin % kMomentBlock != 0) continue;
            outputs.push_back(check_adamw(runner, {weight, moments, grad, 9000, begin}));
            if (weight != DType::kBF16) continue;
            outputs.push_back(check_adamw(runner, {weight, moments, grad, 9000, begin, false}));
          }
          return outputs;
        });
      }
    }
  }
}

TEST_CASE("lion and sgd are the written sequences of operations, bit by bit", "[ops]") {
  for (const auto formula :
       {MomentumFormula::kLion, MomentumFormula::kSgd, MomentumFormula::kNesterov}) {
    for (const DType weight : kComputeTypes) {
      for (const DType moments : {accumulator_of(weight), DType::kBF16}) {
        if (weight == DType::kF64 && moments != DType::kF64) continue;
        for (const DType grad : kComputeTypes) {
          with_threads([&](OpRunner& runner) {
            std::vector<Outputs> outputs;
            for (const std::int64_t n : {0, 1, 37, 4097, 20011}) {
              outputs.push_back(check_momentum(runner, formula, {weight, moments, grad, n}));
            }
            for (const std::int64_t begin : {4096 * 3 + 64, 4095}) {
              outputs.push_back(
                  check_momentum(runner, formula, {weight, moments, grad, 9000, begin}));
              if (weight != DType::kBF16) continue;
              outputs.push_back(
                  check_momentum(runner, formula, {weight, moments, grad, 9000, begin, false}));
            }
            return outputs;
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::test
