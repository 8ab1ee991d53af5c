// The link while the device computes: what copies reach, and what they cost the matrix products.

#include <cstdio>
#include <vector>

#include "bench/host_bench.h"
#include "bench/layer_products.h"
#include "bench/link_traffic.h"
#include "bench/times.h"

namespace strata::bench {
namespace {

constexpr int kLayers = 60;  // of one measurement, about a second
constexpr int kRounds = 3;

void report(nlohmann::json& results, const char* name, double in, double out) {
  std::printf("%-44s %6.1f GB/s in %6.1f GB/s out\n", name, in, out);
  results.push_back({{"name", name}, {"in_gb_per_s", in}, {"out_gb_per_s", out}});
}

void copies_alone(Backend& backend, LaneTimes& times, LinkTraffic& link, nlohmann::json& results) {
  struct Case {
    const char* name;
    bool in, out;
  };
  constexpr int kChunks = 768;
  for (const Case& c : {Case{"copies in alone", true, false}, Case{"copies out alone", false, true},
                        Case{"copies both ways", true, true}}) {
    times.start();
    link.submit(kChunks, c.in, c.out);
    times.stop();
    backend.device->synchronize();
    Window both = times.window(c.in ? Lane::kWeightsIn : Lane::kOut);
    if (c.in && c.out) {  // while neither has ended
      both.end_us = std::min(both.end_us, times.window(Lane::kOut).end_us);
    }
    report(results, c.name, LinkTraffic::gb_per_s(times, Lane::kWeightsIn, both),
           LinkTraffic::gb_per_s(times, Lane::kOut, both));
  }
}

}  // namespace

void bench_copies(Backend& backend, LaneTimes& times, nlohmann::json& results) {
  LinkTraffic link(*backend.device);
  copies_alone(backend, times, link, results);

  LayerProducts layer(backend);
  // In turns, since a stream takes only so much work ahead.
  const auto layer_seconds = [&](int chunks_per_layer) {
    times.start();
    for (int i = 0; i < kLayers; ++i) {
      link.submit(chunks_per_layer, true, true);
      layer.submit(1);
    }
    times.stop();
    backend.device->synchronize();
    return times.window(Lane::kCompute).seconds() / kLayers;
  };
  layer_seconds(0);  // the clock settles
  const double warm = layer_seconds(0);
  // More copies than the link can do while the products run.
  const int chunks = static_cast<int>(warm * 60e9 / static_cast<double>(kChunkBytes)) + 1;
  std::vector<double> alone, under, in, out;
  for (int i = 0; i < kRounds; ++i) {
    alone.push_back(layer_seconds(0));
    under.push_back(layer_seconds(chunks));
    const Window products = times.window(Lane::kCompute);
    in.push_back(LinkTraffic::gb_per_s(times, Lane::kWeightsIn, products));
    out.push_back(LinkTraffic::gb_per_s(times, Lane::kOut, products));
  }
  report(results, "copies both ways under matrix products", median(in), median(out));
  const double slowdown = median(under) / median(alone) - 1;
  std::printf("%-44s %6.1f TFLOP/s alone, %.1f under copies: %.2f %% slower\n",
              "matrix products of a 7B layer", layer.flops() / median(alone) * 1e-12,
              layer.flops() / median(under) * 1e-12, 100 * slowdown);
  results.push_back({{"name", "matrix products of a 7B layer"},
                     {"alone_tflops", layer.flops() / median(alone) * 1e-12},
                     {"under_copies_tflops", layer.flops() / median(under) * 1e-12},
                     {"slowdown", slowdown}});
}

}  // namespace strata::bench
