#include "kernels/position.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

TEST(AddPosition, AddsTheRowOfThePosition) {
  for (const std::int64_t origin : {0, 4}) {
    KernelCall call(OpKind::AddPosition, "sbh,ph->sbh", "s3 b2 h7 p9");
    call.call.origin = origin;
    call.run();
    for (std::size_t i = 0; i < call.out(0).size(); ++i) {
      const std::size_t position = i / 14 + static_cast<std::size_t>(origin);  // b h = 14
      ASSERT_EQ(call.out(0)[i], call.in(0)[i] + call.in(1)[position * 7 + i % 7]);
    }
  }
}

TEST(AddPositionBackward, SumsTheBatchAtItsPositions) {
  for (const bool accumulate : {false, true}) {
    KernelCall call(OpKind::AddPositionBackward, "sbh->ph", "s3 b5 h7 p9");
    call.call.origin = 4;
    std::vector<double> expected(call.out(0).size(), 0);
    if (accumulate) {
      const auto before = call.accumulate(0);
      expected.assign(before.begin(), before.end());
    }
    for (std::size_t i = 0; i < call.in(0).size(); ++i) {
      expected[(i / 35 + 4) * 7 + i % 7] += static_cast<double>(call.in(0)[i]);
    }
    call.run();
    expect_close(call.out(0), expected, 1e-6);
  }
}

TEST(AddPositionDeathTest, RefusesPositionsPastTheTable) {
  KernelCall call(OpKind::AddPosition, "sbh,ph->sbh", "s3 b2 h7 p9");
  call.call.origin = 7;
  EXPECT_DEATH(call.run(), "positions up to 10 of a table of 9");
}

}  // namespace
}  // namespace mega::kernels
