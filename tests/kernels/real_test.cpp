#include "kernels/real.h"

#include <gtest/gtest.h>

#include <limits>

namespace mega::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Real, ExponentialIsWithinTwoUnitsInTheLastPlace) {
  double worst = 0;
  for (float x = -87.0F; x < 88.7F; x += 0.0137F) {
    const double expected = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::fabs(static_cast<double>(exponential(x)) / expected - 1));
  }
  EXPECT_LT(worst, 2 * 6e-8);
}

TEST(Real, ExponentialEndsInInfinityZeroAndNan) {
  EXPECT_EQ(exponential(0), 1.0F);
  EXPECT_EQ(exponential(-0.0F), 1.0F);
  EXPECT_EQ(exponential(kInfinity), kInfinity);
  EXPECT_EQ(exponential(89), kInfinity);
  EXPECT_EQ(exponential(-kInfinity), 0.0F);
  EXPECT_EQ(exponential(-200), 0.0F);
  EXPECT_NEAR(exponential(-100), 3.783506e-44, 2e-45);  // a denormal
  EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(exponential(-std::numeric_limits<float>::quiet_NaN())));
}

TEST(Real, SigmoidIsExactInBothTails) {
  for (float x = -80; x < 80; x += 0.37F) {
    const double expected = 1 / (1 + std::exp(-static_cast<double>(x)));
    const double complement = 1 / (1 + std::exp(static_cast<double>(x)));
    EXPECT_NEAR(static_cast<double>(Sigmoid::at(x).value) / expected, 1, 3e-7) << x;
    EXPECT_NEAR(static_cast<double>(Sigmoid::at(x).complement) / complement, 1, 3e-7) << x;
  }
  EXPECT_EQ(Sigmoid::at(-kInfinity).value, 0.0F);
  EXPECT_EQ(Sigmoid::at(kInfinity).value, 1.0F);
  EXPECT_TRUE(std::isnan(Sigmoid::at(std::numeric_limits<float>::quiet_NaN()).value));
}

TEST(Real, ScaledErfcMatchesTheLibrary) {
  for (float x = 0; x < 9; x += 0.0173F) {
    const double z = static_cast<double>(x);
    EXPECT_NEAR(static_cast<double>(scaled_erfc(x)) / (std::erfc(z) * std::exp(z * z)), 1, 4e-7)
        << x;
  }
}

}  // namespace
}  // namespace mega::kernels
