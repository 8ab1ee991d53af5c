// Measures the link while the device computes: what copies reach, and what they cost the matrix
// products.

#include <cstdio>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "bench/host_bench.h"
#include "bench/layer_products.h"
#include "bench/link_traffic.h"
#include "bench/times.h"

namespace strata::bench {
namespace {

struct CopiesCase {
  const char* name;
  bool in, out;
};
constexpr CopiesCase kCopies[] = {
    {"copies in", true, false}, {"copies out", false, true}, {"copies both ways", true, true}};

constexpr int kLayers = 60;  // of one measurement, about a second
constexpr int kRounds = 7;

void report(nlohmann::json& results, const char* name, double in, double out) {
  std::printf("%-44s %6.1f GB/s in %6.1f GB/s out\n", name, in, out);
  results.push_back({{"name", name}, {"in_gb_per_s", in}, {"out_gb_per_s", out}});
}

/// Returns what each case reaches, in GB/s, the slower direction of two.
std::vector<double> copies_alone(Backend& backend, LaneTimes& times, LinkTraffic& link,
                                 nlohmann::json& results) {
  std::vector<double> rates;
  constexpr int kChunks = 768;
  for (const CopiesCase& c : kCopies) {
    times.start();
    link.submit(kChunks, c.in, c.out);
    times.stop();
    backend.device->synchronize();
    Window both = times.window(c.in ? Lane::kWeightsIn : Lane::kOut);
    if (c.in && c.out) {  // while neither has ended
      both.end_us = std::min(both.end_us, times.window(Lane::kOut).end_us);
    }
    const double in = LinkTraffic::gb_per_s(times, Lane::kWeightsIn, both);
    const double out = LinkTraffic::gb_per_s(times, Lane::kOut, both);
    report(results, (std::string(c.name) + " alone").c_str(), in, out);
    rates.push_back(c.in && c.out ? std::min(in, out) : in + out);
  }
  return rates;
}

/// A measurement of the products of a layer: seconds of a layer, and rates of the copies beside it.
struct UnderCopies {
  double layer_s = 0, in = 0, out = 0;
};

class ProductsBench {
 public:
  ProductsBench(Backend& backend, LaneTimes& times, LinkTraffic& link)
      : device_(*backend.device), times_(times), link_(link), layer_(backend) {
    measure(0, false, false);  // the clock settles
    layer_s_ = measure(0, false, false).layer_s;
  }

  [[nodiscard]] double tflops(double seconds) const { return layer_.flops() / seconds * 1e-12; }
  /// With copies at up to `gb_per_s` each way asked for. What the link does alone keeps it busy,
  /// and the lanes' queues, which hold up their submitter when they are full, short.
  [[nodiscard]] UnderCopies run(double gb_per_s, bool in, bool out) {
    return measure(gb_per_s * 1e9 * layer_s_ / static_cast<double>(kChunkBytes), in, out);
  }

 private:
  /// Copies are timed one by one, of the products only the first and the last layer: time stamps
  /// between kernels cost time.
  UnderCopies measure(double chunks_per_layer, bool in, bool out) {
    times_.start();
    // In turns, since a stream takes only so much work ahead.
    for (int i = 0; i < kLayers; ++i) {
      times_.resume();
      const auto due = [&](int layers) { return static_cast<int>(layers * chunks_per_layer); };
      link_.submit(due(i + 1) - due(i), in, out);
      if (i > 0 && i + 1 < kLayers) times_.stop();
      layer_.submit(1);
    }
    times_.stop();
    device_.synchronize();
    const Window products = times_.window(Lane::kCompute);
    return {.layer_s = products.seconds() / kLayers,
            .in = LinkTraffic::gb_per_s(times_, Lane::kWeightsIn, products),
            .out = LinkTraffic::gb_per_s(times_, Lane::kOut, products)};
  }

  Device& device_;
  LaneTimes& times_;
  LinkTraffic& link_;
  LayerProducts layer_;
  double layer_s_ = 0;
};

}  // namespace

void bench_copies(Backend& backend, LaneTimes& times, nlohmann::json& results) {
  LinkTraffic link(*backend.device);
  const std::vector<double> rates = copies_alone(backend, times, link, results);

  ProductsBench products(backend, times, link);
  std::vector<double> alone;
  std::vector<UnderCopies> under[std::size(kCopies)];
  for (int round = 0; round < kRounds; ++round) {  // in turns: the clock drifts
    alone.push_back(products.run(0, false, false).layer_s);
    for (std::size_t i = 0; i < std::size(kCopies); ++i) {
      under[i].push_back(products.run(rates[i], kCopies[i].in, kCopies[i].out));
    }
  }
  const double alone_s = median(alone);
  std::printf("%-44s %6.1f TFLOP/s\n", "matrix products of a 7B layer", products.tflops(alone_s));
  results.push_back(
      {{"name", "matrix products of a 7B layer"}, {"tflops", products.tflops(alone_s)}});
  for (std::size_t i = 0; i < std::size(kCopies); ++i) {
    const auto middle = [&](double UnderCopies::*value) {
      std::vector<double> values;
      for (const UnderCopies& u : under[i]) values.push_back(u.*value);
      return median(std::move(values));
    };
    const std::string name = std::string(kCopies[i].name) + " under matrix products";
    report(results, name.c_str(), middle(&UnderCopies::in), middle(&UnderCopies::out));
    const double seconds = middle(&UnderCopies::layer_s);
    const double slowdown = seconds / alone_s - 1;
    std::printf("%-44s %6.1f TFLOP/s: %.2f %% slower\n", "  the products", products.tflops(seconds),
                100 * slowdown);
    results.back()["products_tflops"] = products.tflops(seconds);
    results.back()["products_slowdown"] = slowdown;
  }
}

}  // namespace strata::bench
