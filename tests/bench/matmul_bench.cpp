// Measures the speed of matrix products.
//   matmul_bench [--backend cpu|cuda] [--only TEXT] [--json FILE] [--threads N] [--simd NAME]
//
// On cuda (the default where there is a device) it runs every product of LLaMA models on 8192
// tokens, weight gradients also without accumulation, in bf16, and gives TFLOP/s with the tuned
// plan, with cuBLASLt's first proposal, and with the best of all that it proposes, side by side at
// the clock under load. On cpu it gives GFLOP/s per core of small products, on N threads (1) with
// one instruction set (the best). --only keeps the rows whose name contains TEXT.

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "bench/matmul_bench.h"
#include "bench/program.h"
#include "strata/ops/backend.h"

namespace {

using namespace strata;

struct Arguments {
  bench::MatmulBenchOptions options;
  BackendKind backend = cuda_available() ? BackendKind::kCuda : BackendKind::kCpu;
  std::string json;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; i += 2) {
    const std::string key = argv[i];
    if (i + 1 == argc) throw std::runtime_error(key + " needs a value");
    const std::string value = argv[i + 1];
    if (key == "--only") {
      arguments.options.only = value;
    } else if (key == "--json") {
      arguments.json = value;
    } else if (key == "--threads") {
      arguments.options.threads = std::atoi(value.c_str());
    } else if (key == "--simd") {
      arguments.options.simd = value;
    } else if (key == "--backend" && (value == "cpu" || value == "cuda")) {
      arguments.backend = value == "cpu" ? BackendKind::kCpu : BackendKind::kCuda;
    } else {
      throw std::runtime_error("unknown argument " + key + " " + value +
                               "; see the head of matmul_bench.cpp");
    }
  }
  return arguments;
}

void run(const Arguments& arguments) {
  const nlohmann::json rows = arguments.backend == BackendKind::kCpu
                                  ? bench::bench_cpu(arguments.options)
                                  : bench::bench_tuned(arguments.options);
  if (rows.empty()) throw std::runtime_error("no row's name contains " + arguments.options.only);
  bench::write_json(arguments.json, rows);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_program("matmul_bench", [&] { run(parse(argc, argv)); });
}
