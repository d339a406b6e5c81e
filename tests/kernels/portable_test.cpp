#include "kernels/portable.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace mega::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float max_of(const std::vector<float>& x) {
  return OneLane{}.max(static_cast<std::int64_t>(x.size()),
                       [&](std::int64_t i) { return x[static_cast<std::size_t>(i)]; });
}

TEST(OneLane, SumsOverEightAccumulatorsInAFixedOrder) {
  for (const std::int64_t count : {0, 1, 7, 8, 9, 33, 1000}) {
    const auto term = [](std::int64_t i) { return 1.0F / static_cast<float>(3 * i + 1); };
    float parts[8] = {};
    for (std::int64_t i = 0; i < count; ++i) parts[i % 8] += term(i);
    const float expected = ((parts[0] + parts[4]) + (parts[2] + parts[6])) +
                           ((parts[1] + parts[5]) + (parts[3] + parts[7]));
    EXPECT_EQ(OneLane{}.sum(count, term), expected) << count;
  }
}

TEST(OneLane, MaxOfNothingIsMinusInfinity) {
  EXPECT_EQ(max_of({}), -kInfinity);
  EXPECT_EQ(max_of({-kInfinity, -kInfinity}), -kInfinity);
}

TEST(OneLane, MaxOrdersNegativesZeroAndInfinity) {
  EXPECT_EQ(max_of({-3, -1, -2}), -1.0F);
  EXPECT_EQ(max_of({-3, 0, -2}), 0.0F);
  EXPECT_EQ(max_of({-3, 1e-40F, -2}), 1e-40F);
  EXPECT_EQ(max_of({1, kInfinity, 2}), kInfinity);
  EXPECT_EQ(max_of({-kInfinity, -1e38F}), -1e38F);
}

TEST(OneLane, MaxKeepsANanOfEitherSignAtAnyPlace) {
  for (std::size_t at = 0; at < 19; ++at) {
    std::vector<float> x(19, kInfinity);
    x[at] = kNan;
    EXPECT_TRUE(std::isnan(max_of(x))) << at;
    x[at] = -kNan;
    EXPECT_TRUE(std::isnan(max_of(x))) << at;
  }
}

TEST(OneLane, ColumnSumsCoverEveryColumnOnce) {
  for (const std::int64_t columns : {1, 127, 128, 129, 300}) {
    std::vector<double> totals(static_cast<std::size_t>(columns), -1);
    OneLane{}.column_sums(
        columns, 3,
        [](std::int64_t row, std::int64_t i) { return static_cast<float>(row * 1000 + i); },
        [&](std::int64_t i, double total) { totals[static_cast<std::size_t>(i)] = total; });
    for (std::int64_t i = 0; i < columns; ++i) {
      EXPECT_EQ(totals[static_cast<std::size_t>(i)], static_cast<double>(3000 + 3 * i));
    }
  }
}

TEST(OneLane, ColumnSumsOfNoRowsAreZero) {
  double total = -1;
  OneLane{}.column_sums(
      1, 0, [](std::int64_t, std::int64_t) { return 1.0F; },
      [&](std::int64_t, double value) { total = value; });
  EXPECT_EQ(total, 0);
}

}  // namespace
}  // namespace mega::kernels
