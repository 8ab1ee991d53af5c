// Submits the miniature training loop of pipeline.h with all its waits, and computes the same
// numbers by plain loops.

#include "device/pipeline.h"

#include <algorithm>

namespace strata::test {

namespace {

double initial_weight(int unit, std::size_t element) {
  return unit + 1 + 0.25 * static_cast<double>(element);
}

double* as_doubles(std::byte* data) { return reinterpret_cast<double*>(data); }

}  // namespace

Pipeline::Pipeline(Device& device)
    : device_(device),
      device_arena_(device, Space::kDevice, 16 * kBytes, "device"),
      host_arena_(device, Space::kPinned, 16 * kBytes, "host"),
      ring_(device_arena_, "weights slot", 2, kBytes) {
  for (std::byte*& buffer : gradients_) buffer = device_arena_.allocate("gradient", kBytes);
  for (std::byte*& buffer : arrived_) buffer = host_arena_.allocate("arrived gradient", kBytes);
  for (int unit = 0; unit < kUnits; ++unit) {
    std::byte*& weights = weights_[static_cast<std::size_t>(unit)];
    weights = host_arena_.allocate("weights", kBytes);
    for (std::size_t i = 0; i < kElements; ++i) as_doubles(weights)[i] = initial_weight(unit, i);
    device.host_access("initialise", [&] { return Accesses({}, {{weights, kBytes}}); },
                       {.unit = unit});
  }
  for (std::byte*& file : files_) {
    file = host_arena_.allocate("file", kBytes);
    std::fill_n(file, kBytes, std::byte{0});
    device.host_access("initialise", [&] { return Accesses({}, {{file, kBytes}}); }, {});
  }
  factor_ = host_arena_.allocate("factor", sizeof(double));
}

void Pipeline::submit(int steps) {
  std::byte* const factor = factor_;
  Stream& host = device_.stream(Lane::kHost);
  host.host_task(
      "decide", [&] { return Accesses({}, {{factor, sizeof(double)}}); }, {},
      [factor] { as_doubles(factor)[0] = 2; });
  decided_ = host.record();
  for (int step = 0; step < steps; ++step) {
    for (int unit = 0; unit < kUnits; ++unit) unit_step(step, unit);
  }
}

Lease Pipeline::load(int step, int unit) {
  Stream& in = device_.stream(Lane::kWeightsIn);
  in.wait(updated_[static_cast<std::size_t>(unit)], WaitFor::kUpdated);
  // The slot of the unit before the last, so that this load may run beside the last one's work.
  Lease lease = ring_.fill((step * kUnits + unit) % ring_.count(), unit, in);
  in.copy(lease.data(), weights_[static_cast<std::size_t>(unit)], kBytes,
          {.phase = "load", .pass = step, .unit = unit});
  lease.filled();
  return lease;
}

void Pipeline::unit_step(int step, int unit) {
  const Tag tag{.phase = "step", .pass = step, .unit = unit};
  const auto u = static_cast<std::size_t>(unit);
  const std::size_t k = u % kBuffers;
  std::byte* const gradient = gradients_[k];
  std::byte* const arrived = arrived_[k];
  std::byte* const weights = weights_[u];
  Stream& compute = device_.stream(Lane::kCompute);
  Stream& comm = device_.stream(Lane::kComm);
  Stream& out = device_.stream(Lane::kOut);
  Stream& host = device_.stream(Lane::kHost);

  Lease lease = load(step, unit);
  lease.use(compute);
  compute.wait(sent_[k], WaitFor::kReuse);
  const std::byte* const loaded = lease.data();
  compute.host_task(
      "gradient", [&] { return Accesses({{loaded, kBytes}}, {{gradient, kBytes}}); }, tag,
      [loaded, gradient, step] {
        for (std::size_t i = 0; i < kElements; ++i) {
          const double w = reinterpret_cast<const double*>(loaded)[i];
          as_doubles(gradient)[i] = 0.5 * w + step;
        }
      });
  lease.end();

  comm.wait(compute.record(), WaitFor::kGathered);
  comm.wait(decided_, WaitFor::kDecided);
  const std::byte* const factor = factor_;
  comm.host_task(
      "sum",
      [&] {
        return Accesses({{gradient, kBytes}, {factor, sizeof(double)}}, {{gradient, kBytes}});
      },
      tag,
      [gradient, factor] {
        const double f = reinterpret_cast<const double*>(factor)[0];
        for (std::size_t i = 0; i < kElements; ++i) as_doubles(gradient)[i] *= f;
      });

  out.wait(comm.record(), WaitFor::kGathered);
  out.wait(taken_[k], WaitFor::kTaken);
  out.copy(arrived, gradient, kBytes, tag);
  sent_[k] = out.record();

  host.wait(out.record(), WaitFor::kArrived);
  host.wait(saved_[u], WaitFor::kSaved);
  host.host_task(
      "update",
      [&] { return Accesses({{arrived, kBytes}, {weights, kBytes}}, {{weights, kBytes}}); }, tag,
      [arrived, weights] {
        for (std::size_t i = 0; i < kElements; ++i) {
          as_doubles(weights)[i] -= 0.125 * as_doubles(arrived)[i];
        }
      });
  taken_[k] = updated_[u] = host.record();
  if (step + 1 == kSavedSteps) save(unit);
}

void Pipeline::save(int unit) {
  const auto u = static_cast<std::size_t>(unit);
  const std::byte* const weights = weights_[u];
  std::byte* const file = files_[u];
  Stream& save = device_.stream(Lane::kSave);
  save.wait(updated_[u], WaitFor::kUpdated);
  save.host_task(
      "save", [&] { return Accesses({{weights, kBytes}}, {{file, kBytes}}); },
      {.phase = "save", .unit = unit}, [weights, file] { std::copy_n(weights, kBytes, file); });
  saved_[u] = save.record();
}

std::vector<double> Pipeline::read(const std::array<std::byte*, kUnits>& buffers) {
  device_.synchronize();
  std::vector<double> all;
  for (std::byte* buffer : buffers) {
    device_.host_access("result", [&] { return Accesses({{buffer, kBytes}}, {}); }, {});
    all.insert(all.end(), as_doubles(buffer), as_doubles(buffer) + kElements);
  }
  return all;
}

std::vector<double> Pipeline::weights() { return read(weights_); }

std::vector<double> Pipeline::saved() { return read(files_); }

std::vector<double> pipeline_reference(int steps) {
  std::vector<double> all;
  for (int unit = 0; unit < Pipeline::kUnits; ++unit) {
    for (std::size_t i = 0; i < Pipeline::kElements; ++i) {
      double w = initial_weight(unit, i);
      for (int step = 0; step < steps; ++step) w -= 0.125 * ((0.5 * w + step) * 2);
      all.push_back(w);
    }
  }
  return all;
}

}  // namespace strata::test
