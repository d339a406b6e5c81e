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
