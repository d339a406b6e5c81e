#include "runtime/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mega::runtime {
namespace {

LearningRateSchedule schedule(const std::string& kind, std::int64_t warmup, std::int64_t decay) {
  return {kind, 1.0, 0.1, warmup, decay};
}

TEST(LearningRate, WarmUpReachesThePeakAtItsLastStep) {
  for (const char* kind : {"constant", "linear", "cosine", "inverse_sqrt"}) {
    const LearningRateSchedule s = schedule(kind, 10, 100);
    EXPECT_DOUBLE_EQ(learning_rate(s, 1), 0.1);  // 1 * 1/10
    EXPECT_DOUBLE_EQ(learning_rate(s, 5), 0.5);
    EXPECT_DOUBLE_EQ(learning_rate(s, 10), 1.0);
    EXPECT_LE(learning_rate(s, 11), 1.0);
  }
}

TEST(LearningRate, ConstantStays) {
  EXPECT_DOUBLE_EQ(learning_rate(schedule("constant", 0, 10), 1), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule("constant", 0, 10), 1000), 1.0);
}

TEST(LearningRate, LinearFallsToTheMinimum) {
  const LearningRateSchedule s = schedule("linear", 10, 110);
  EXPECT_DOUBLE_EQ(learning_rate(s, 60), 0.55);  // 1 - 0.9 * 50/100
  EXPECT_DOUBLE_EQ(learning_rate(s, 110), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(s, 111), 0.1);
}

TEST(LearningRate, CosineFallsToTheMinimum) {
  const LearningRateSchedule s = schedule("cosine", 10, 110);
  EXPECT_NEAR(learning_rate(s, 35), 0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5)), 1e-12);  // cos(pi/4)
  EXPECT_NEAR(learning_rate(s, 60), 0.55, 1e-12);                                    // cos(pi/2)
  EXPECT_NEAR(learning_rate(s, 110), 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(s, 5000), 0.1);
}

TEST(LearningRate, InverseSqrtFallsAndKeepsTheMinimum) {
  EXPECT_DOUBLE_EQ(learning_rate(schedule("inverse_sqrt", 4, 0), 16), 0.5);  // sqrt(4/16)
  EXPECT_DOUBLE_EQ(learning_rate(schedule("inverse_sqrt", 4, 0), 40000), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(schedule("inverse_sqrt", 0, 0), 4), 0.5);  // no warm-up: 1 step
}

TEST(LearningRate, WithoutAnEndThePeakStays) {
  EXPECT_DOUBLE_EQ(learning_rate(schedule("linear", 2, 0), 999), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(schedule("cosine", 2, 0), 999), 1.0);
}

TEST(LearningRate, ADecayThatEndsWithinTheWarmUpIsFinite) {
  const LearningRateSchedule s = schedule("cosine", 10, 10);
  EXPECT_DOUBLE_EQ(learning_rate(s, 10), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 11), 0.1);
}

}  // namespace
}  // namespace mega::runtime
