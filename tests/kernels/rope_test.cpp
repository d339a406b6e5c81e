#include "kernels/rope.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

// One head at one position, in double.
std::vector<double> turned(std::span<const float> x, std::int64_t position, std::size_t pairs,
                           double theta, bool interleaved) {
  std::vector<double> y(x.begin(), x.end());
  for (std::size_t j = 0; j < pairs; ++j) {
    const double angle =
        static_cast<double>(position) *
        std::pow(theta, -2.0 * static_cast<double>(j) / static_cast<double>(2 * pairs));
    const std::size_t a = interleaved ? 2 * j : j;
    const std::size_t b = interleaved ? 2 * j + 1 : j + pairs;
    y[a] =
        static_cast<double>(x[a]) * std::cos(angle) - static_cast<double>(x[b]) * std::sin(angle);
    y[b] =
        static_cast<double>(x[b]) * std::cos(angle) + static_cast<double>(x[a]) * std::sin(angle);
  }
  return y;
}

class RopeTest : public testing::TestWithParam<bool> {};

TEST_P(RopeTest, TurnsPairsByTheirPosition) {
  for (const std::size_t limit : {0U, 6U}) {
    KernelCall call(OpKind::Rope, "sbgrd->sbgrd", "s3 b2 g2 r2 d10");
    call.call.attributes.theta = 500000;
    call.call.attributes.interleaved = GetParam();
    call.call.attributes.limit = static_cast<std::int64_t>(limit);
    call.call.origin = 100000;
    call.run();
    for (std::size_t head = 0; head < 24; ++head) {  // s b g r
      const auto expected =
          turned(call.in(0).subspan(head * 10, 10), 100000 + static_cast<std::int64_t>(head / 8),
                 limit == 0 ? 5 : limit / 2, 500000, GetParam());
      expect_close(call.out(0).subspan(head * 10, 10), expected, 2e-7);
    }
  }
}

// Slow frequencies are divided by the factor, between the two ends of the ramp in part.
TEST(RopeScalingTest, SlowsAlongTheFrequencyOrThePair) {
  for (const bool by_frequency : {true, false}) {
    const RopeScaling scaling{8, by_frequency ? 0.01 : 2, by_frequency ? 0.04 : 6, by_frequency};
    const double slow = by_frequency ? 0.005 : 7, half = by_frequency ? 0.025 : 4,
                 fast = by_frequency ? 0.5 : 1;
    const auto of = [&](double x) {
      return by_frequency ? scaling.of(x, 0) / x : scaling.of(0.1, x) / 0.1;
    };
    EXPECT_DOUBLE_EQ(of(slow), 1.0 / 8);
    EXPECT_DOUBLE_EQ(of(half), (1 + 1.0 / 8) / 2);
    EXPECT_DOUBLE_EQ(of(fast), 1);
  }
}

TEST(RopeScalingTest, TurnsScaledAnglesAndMultiplies) {
  KernelCall plain(OpKind::Rope, "sbgd->sbgd", "s4 b1 g1 d8");
  KernelCall scaled(OpKind::Rope, "sbgd->sbgd", "s4 b1 g1 d8");
  plain.call.attributes.theta = scaled.call.attributes.theta = 10000;
  scaled.call.attributes.factor = 4;  // every pair: positions 0, 4, 8, 12 turn as 0, 1, 2, 3
  scaled.call.attributes.ramp_begin = -2;
  scaled.call.attributes.ramp_end = -1;
  scaled.call.attributes.scale = 1.5;
  plain.call.origin = 1;
  scaled.call.origin = 4;
  plain.run();
  scaled.run();
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(scaled.out(0)[i], 1.5F * plain.out(0)[i], 1e-6);
}

TEST_P(RopeTest, InverseTurnsBackInPlace) {
  KernelCall call(OpKind::Rope, "sbgd->sbgd", "s5 b1 g3 d66");
  call.call.attributes.theta = 10000;
  call.call.attributes.interleaved = GetParam();
  call.call.origin = 17;
  const std::vector<double> before(call.in(0).begin(), call.in(0).end());
  call.share(0, 0);
  call.run();
  EXPECT_GT(std::fabs(static_cast<double>(call.in(0)[0]) - before[0]), 1e-3);
  call.call.attributes.inverse = true;
  call.run();
  expect_close(call.in(0), before, 2e-7);
}

INSTANTIATE_TEST_SUITE_P(BothPairings, RopeTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "Interleaved" : "Halves"; });

}  // namespace
}  // namespace mega::kernels
