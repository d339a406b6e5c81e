#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/rope.h"
#include "planner/model/rope.h"

namespace mega::planner {
namespace {

// What the op's attributes say (kernels/rope.h): the factor on one frequency.
double slowing(const Attributes& a, double frequency, double pair) {
  const double at = a.by_frequency ? frequency : pair;
  const double within = std::clamp((at - a.ramp_begin) / (a.ramp_end - a.ramp_begin), 0.0, 1.0);
  const double slowed = a.by_frequency ? 1 - within : within;
  return slowed / a.factor + (1 - slowed);
}

double scaled(const Attributes& a, double theta, double dims, int pair) {
  return slowing(a, std::pow(theta, -2.0 * pair / dims), pair);
}

// Llama 3.1: wave lengths above 8192 are stretched by 8, those below 2048 stay, and one of 4096 is
// halfway in frequency by (8192/4096 - 1) / (4 - 1) = 1/3: 1/3 + 2/3 / 8.
TEST(Rope, Llama3StretchesLongWaves) {
  ModelSpec model;
  model.rope_theta = 500000;
  model.rope_scaling = {RopeScalingKind::Llama3, 8, 8192};
  const Attributes a = rope_attributes(model, 128);
  EXPECT_EQ(scaled(a, 500000, 128, 0), 1);
  EXPECT_DOUBLE_EQ(scaled(a, 500000, 128, 63), 1.0 / 8);
  const double frequency = 2 * std::numbers::pi / 4096;
  EXPECT_NEAR(slowing(a, frequency, 0), 1.0 / 3 + 2.0 / 3 / 8, 1e-12);
}

// DeepSeek-V3: 64 dimensions, theta 10000, 4096 times 40. dim(32) = 64 ln(4096 / (64 pi)) /
// (2 ln 10000) = 10.47, dim(1) = 22.51: pairs up to 10 stay, from 23 on they are stretched by 40.
TEST(Rope, YarnStretchesByPair) {
  ModelSpec model;
  model.rope_scaling = {RopeScalingKind::Yarn, 40, 4096};
  model.rope_scaling.mscale_all_dim = 1;
  const Attributes a = rope_attributes(model, 64);
  EXPECT_EQ(a.ramp_begin, 10);
  EXPECT_EQ(a.ramp_end, 23);
  EXPECT_EQ(scaled(a, 10000, 64, 10), 1);
  EXPECT_DOUBLE_EQ(scaled(a, 10000, 64, 23), 1.0 / 40);
  EXPECT_DOUBLE_EQ(scaled(a, 10000, 64, 31), 1.0 / 40);
  EXPECT_NEAR(scaled(a, 10000, 64, 15), 8.0 / 13 + 5.0 / 13 / 40, 1e-12);
  EXPECT_EQ(a.scale, 1);  // both magnitudes are equal
  model.head_dim = 192;
  model.mla = MlaSpec{1536, 512, 128, 64, 128};
  const double m = 0.1 * std::log(40.0) + 1;
  EXPECT_NEAR(attention_scale(model), m * m / std::sqrt(192.0), 1e-12);
}

TEST(Rope, LinearSlowsEveryPair) {
  ModelSpec model;
  model.rope_scaling = {RopeScalingKind::Linear, 4};
  const Attributes a = rope_attributes(model, 64);
  for (const int pair : {0, 7, 31}) EXPECT_DOUBLE_EQ(scaled(a, 10000, 64, pair), 0.25);
}

}  // namespace
}  // namespace mega::planner
