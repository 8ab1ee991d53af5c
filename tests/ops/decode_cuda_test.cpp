// Tests attention of single queries over a cache on a GPU, with the kernels for this device and
// with the portable ones.

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "strata/op_checks/checks.h"
#include "strata/op_checks/reference.h"
#include "support/catch.h"
#include "support/without_gpu.h"

namespace strata::test {
namespace {

/// Runs a check of checks.h twice, and with room for more parts, which changes nothing, though
/// other kernels join a few, more and many.
void check_twice(Outputs (*check)(OpRunner&, DType, const AttentionCase&, DType), OpRunner& runner,
                 DType dtype, const AttentionCase& c) {
  const Outputs first = check(runner, dtype, c, dtype);
  CHECK(check(runner, dtype, c, dtype) == first);
  for (const std::int64_t more : {3, 9, 40}) {
    AttentionCase longer = c;
    longer.parts += more;
    CHECK(check(runner, dtype, longer, dtype) == first);
  }
}

/// All cases, and some with as many parts as one kernel or another joins: two (a cluster), and more
/// than a block has sums.
std::vector<AttentionCase> all_decode_cases() {
  std::vector<AttentionCase> cases = decode_cases(cuda_head_dims());
  cases.push_back({.name = "a query with many parts of keys beside one without keys",
                   .queries = 3,
                   .keys = 9001,
                   .heads = 8,
                   .kv_heads = 1,
                   .head_dim = 128,
                   .segments = {{0, 1, 1, 9000, 8999}, {1, 17, 1, 0, 0}, {2, 500, 1, 1023, 1022}},
                   .parts = 36});
  cases.push_back(cases.back());
  cases.back().name = "a window of many parts beside a query without keys";
  cases.back().window = 3000;
  cases.back().parts = 12;
  cases.push_back({.name = "queries with one part, with two and with an uneven half of two",
                   .queries = 4,
                   .keys = 1400,
                   .heads = 16,
                   .kv_heads = 2,
                   .head_dim = 128,
                   .segments = {{0, 0, 1, 512, 511},
                                {1, 512, 1, 257, 256},
                                {2, 769, 1, 256, 255},
                                {3, 1025, 1, 300, 299}},
                   .parts = 2});
  for (const int parts : {2, 6, 12}) {
    const int keys = parts * static_cast<int>(AttentionForward::kPartKeys) - 100;
    cases.push_back({.name = "wide heads with " + std::to_string(parts) + " parts",
                     .queries = 2,
                     .keys = keys + 20,
                     .heads = 6,
                     .kv_heads = 2,
                     .head_dim = 256,
                     .segments = {{0, 20, 1, keys, keys - 1}, {1, 3, 1, 17, 16}},
                     .parts = parts});
    cases.push_back(cases.back());
    cases.back().name += " and a window";
    cases.back().window = 300;
  }
  // So many blocks that their rings are short.
  AttentionCase many{.name = "many queries of wide heads",
                     .queries = 40,
                     .keys = 330,
                     .heads = 8,
                     .kv_heads = 4,
                     .head_dim = 256,
                     .segments = {},
                     .parts = 2};
  for (int q = 0; q < many.queries; ++q) {
    many.segments.push_back({q, q, 1, 290 - 7 * q, 289 - 7 * q});
  }
  cases.push_back(many);
  cases.push_back({.name = "narrow heads with two parts",
                   .queries = 2,
                   .keys = 800,
                   .heads = 6,
                   .kv_heads = 2,
                   .head_dim = 64,
                   .segments = {{0, 0, 1, 500, 499}, {1, 500, 1, 300, 299}},
                   .parts = 2});
  cases.push_back(cases.back());
  cases.back().name = "narrow heads with a window of two parts";
  cases.back().window = 270;
  cases.push_back({.name = "narrow heads with many parts",
                   .queries = 1,
                   .keys = 5600,
                   .heads = 3,
                   .kv_heads = 3,
                   .head_dim = 64,
                   .segments = {{0, 0, 1, 5600, 5599}},
                   .parts = 22});
  return cases;
}

}  // namespace

TEST_CASE("single queries over a cache on cuda follow the formula", "[cuda]") {
  if (without_gpu()) return;
  for (const AttentionKernels kernels : {AttentionKernels::kAuto, AttentionKernels::kPortable}) {
    Backend backend =
        make_backend(BackendKind::kCuda, {.device = {}, .threads = 1, .attention = kernels});
    OpRunner runner(backend);
    for (const AttentionCase& c : all_decode_cases()) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        check_twice(check_attention_forward, runner, dtype, c);
      }
    }
  }
}

TEST_CASE("what turns, appends and attends at once on cuda has the bits of its parts", "[cuda]") {
  if (without_gpu()) return;
  Backend backend = make_backend(BackendKind::kCuda, {.device = {}, .threads = 1});
  OpRunner runner(backend);
  for (const AttentionCase& c : fused_attend_cases(cuda_head_dims())) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Outputs first = check_fused_attend(runner, dtype, c);
      AttentionCase longer = c;  // parts are then joined by other kernels
      longer.parts += 40;
      CHECK(check_fused_attend(runner, dtype, longer) == first);
    }
  }
}

TEST_CASE("single queries over int8 keys on cuda follow the formula", "[cuda]") {
  if (without_gpu()) return;
  Backend backend = make_backend(BackendKind::kCuda, {.device = {}, .threads = 1});
  OpRunner runner(backend);
  for (const AttentionCase& c : all_decode_cases()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      check_twice(check_attend_int8_kv, runner, dtype, c);
    }
  }
}

TEST_CASE("a query with more parts than lanes look at together follows the formula", "[cuda]") {
  if (without_gpu()) return;
  Backend backend = make_backend(BackendKind::kCuda, {.device = {}, .threads = 1});
  OpRunner runner(backend);
  const AttentionCase c{.name = "520 parts",
                        .queries = 1,
                        .keys = 133000,
                        .heads = 1,
                        .kv_heads = 1,
                        .head_dim = 64,
                        .segments = {{0, 0, 1, 133000, 132999}},
                        .parts = 520};
  check_twice(check_attention_forward, runner, DType::kBF16, c);
}

TEST_CASE("attention to int8 keys on cuda differs from the cpu's by rounding alone", "[cuda]") {
  if (without_gpu()) return;
  Backend cuda = make_backend(BackendKind::kCuda, {.device = {}, .threads = 1});
  Backend cpu = make_backend(BackendKind::kCpu, {.device = {}, .threads = 2});
  OpRunner on_cuda(cuda);
  OpRunner on_cpu(cpu);
  for (const AttentionCase& c : decode_cases(cuda_head_dims())) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      INFO(c.name << ", " << name_of(dtype) << ", head dim " << c.head_dim);
      const std::vector<double> device = check_attend_int8_kv(on_cuda, dtype, c, dtype).front();
      const std::vector<double> host =
          check_attend_int8_kv(on_cpu, dtype, c, accumulator_of(dtype)).front();
      REQUIRE(device.size() == host.size());
      double error = 0, size = 0;
      for (std::size_t i = 0; i < host.size(); ++i) {
        error += (device[i] - host[i]) * (device[i] - host[i]);
        size += host[i] * host[i];
      }
      // In bf16 both round the result, and the device rounds weights as well; in f32 it is the
      // order of sums that differs, of dots that are larger than what comes of them.
      const double roundings = dtype == DType::kBF16 ? 2 : 100;
      CHECK(std::sqrt(error / size) < roundings * unit_roundoff(dtype));
    }
  }
}

}  // namespace strata::test
