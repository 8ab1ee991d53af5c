// Tests the learning rate of single steps against values worked out by hand.

#include "strata/train/lr_schedule.h"

#include <cmath>
#include <cstdint>

#include "support/catch.h"

namespace {

using strata::lr_at;
using strata::LrSchedule;
using strata::OptimizerSection;

bool near(double value, double expected) { return std::abs(value - expected) <= 1e-15; }

OptimizerSection optimizer_section(LrSchedule schedule) {
  OptimizerSection o;
  o.lr = 0.8;
  o.lr_schedule = schedule;
  return o;
}

}  // namespace

TEST_CASE("the warm-up is linear and reaches the peak in its last step") {
  OptimizerSection o = optimizer_section(LrSchedule::kConstant);
  o.warmup_steps = 4;
  CHECK(near(lr_at(o, 100, 0), 0.2));
  CHECK(near(lr_at(o, 100, 1), 0.4));
  CHECK(near(lr_at(o, 100, 3), 0.8));
  CHECK(near(lr_at(o, 100, 4), 0.8));
  CHECK(near(lr_at(o, 100, 99), 0.8));
}

TEST_CASE("without warm-up the first step has the peak rate") {
  for (const auto schedule : {LrSchedule::kConstant, LrSchedule::kLinear, LrSchedule::kCosine}) {
    CHECK(near(lr_at(optimizer_section(schedule), 10, 0), 0.8));
  }
}

TEST_CASE("linear falls evenly from the warm-up to the end of the run") {
  OptimizerSection o = optimizer_section(LrSchedule::kLinear);
  o.warmup_steps = 2;
  o.min_lr_ratio = 0.5;
  CHECK(near(lr_at(o, 10, 2), 0.8));
  CHECK(near(lr_at(o, 10, 6), 0.6));  // half of the way from 0.8 to 0.4
  CHECK(near(lr_at(o, 10, 8), 0.5));
}

TEST_CASE("cosine passes the middle at half of the fall") {
  OptimizerSection o = optimizer_section(LrSchedule::kCosine);
  o.min_lr_ratio = 0.25;
  CHECK(near(lr_at(o, 12, 4), 0.65));  // 0.8 * (0.25 + 0.75 * (1 + cos 60) / 2)
  CHECK(near(lr_at(o, 12, 6), 0.5));
  CHECK(near(lr_at(o, 12, 8), 0.35));  // cos 120
}

TEST_CASE("wsd stays at the peak and then falls with one minus the square root") {
  OptimizerSection o = optimizer_section(LrSchedule::kWsd);
  o.warmup_steps = 2;
  o.wsd_decay_steps = 16;
  CHECK(near(lr_at(o, 100, 0), 0.4));
  CHECK(near(lr_at(o, 100, 50), 0.8));
  CHECK(near(lr_at(o, 100, 84), 0.8));
  CHECK(near(lr_at(o, 100, 85), 0.6));  // sqrt(1/16)
  CHECK(near(lr_at(o, 100, 88), 0.4));  // sqrt(4/16)
  CHECK(near(lr_at(o, 100, 93), 0.2));  // sqrt(9/16)
  o.min_lr_ratio = 0.5;
  CHECK(near(lr_at(o, 100, 88), 0.6));
}
