#include "kernels/heads.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

TEST(Heads, JoinRepeatsASharedPart) {
  KernelCall call(OpKind::JoinHeads, "sbgo,sbi->sbgd", "s3 b2 g4 o5 i3 d8");
  call.run();
  for (std::size_t row = 0; row < 24; ++row) {
    for (std::size_t j = 0; j < 8; ++j) {
      const float expected = j < 5 ? call.in(0)[row * 5 + j] : call.in(1)[row / 4 * 3 + j - 5];
      ASSERT_EQ(call.out(0)[row * 8 + j], expected);
    }
  }
}

TEST(Heads, SplitAddsUpASharedPart) {
  KernelCall call(OpKind::SplitHeads, "sbgd->sbgo,sbi", "s3 b2 g4 o5 i3 d8");
  call.run();
  for (std::size_t row = 0; row < 24; ++row) {
    for (std::size_t j = 0; j < 5; ++j) {
      ASSERT_EQ(call.out(0)[row * 5 + j], call.in(0)[row * 8 + j]);
    }
  }
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t j = 0; j < 3; ++j) {
      double sum = 0;
      for (std::size_t head = 0; head < 4; ++head) {
        sum += static_cast<double>(call.in(0)[(row * 4 + head) * 8 + 5 + j]);
      }
      ASSERT_NEAR(call.out(1)[row * 3 + j], sum, 1e-6);
    }
  }
}

TEST(Heads, PartsOfEachHead) {
  KernelCall call(OpKind::JoinHeads, "sbgro,sbgri->sbgrd", "s2 b1 g2 r2 o1 i2 d3");
  call.run();
  for (std::size_t row = 0; row < 8; ++row) {
    EXPECT_EQ(call.out(0)[row * 3], call.in(0)[row]);
    EXPECT_EQ(call.out(0)[row * 3 + 2], call.in(1)[row * 2 + 1]);
  }
}

}  // namespace
}  // namespace mega::kernels
