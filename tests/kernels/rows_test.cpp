// Rows sorted by expert, and products of groups of rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

TEST(Rows, AreSortedByExpertThenToken) {
  KernelCall call(OpKind::SortRows, "sbk->sbk,ze", "s3 b1 k2 z1 e4");
  const std::int32_t chosen[] = {2, 0, 0, 3, 2, 3};
  std::copy(std::begin(chosen), std::end(chosen), call.in_ints(0).begin());
  call.run();
  const std::vector<std::int32_t> places(call.out_ints(0).begin(), call.out_ints(0).end());
  const std::vector<std::int32_t> counts(call.out_ints(1).begin(), call.out_ints(1).end());
  EXPECT_EQ(places, (std::vector<std::int32_t>{2, 0, 1, 4, 3, 5}));
  EXPECT_EQ(counts, (std::vector<std::int32_t>{2, 0, 2, 2}));
}

// u holds two copies of the rows, addends of one result.
TEST(Rows, CombineSumsChoicesAndCopies) {
  KernelCall call(OpKind::CombineRows, "uh,sbk,sbk->sbh", "s3 b1 k2 u12 h5");
  const std::int32_t places[] = {2, 0, 1, 4, 3, 5};
  std::copy(std::begin(places), std::end(places), call.in_ints(1).begin());
  call.run();
  for (std::size_t token = 0; token < 3; ++token) {
    for (std::size_t h = 0; h < 5; ++h) {
      double sum = 0;
      for (std::size_t k = 0; k < 2; ++k) {
        const auto place = static_cast<std::size_t>(places[token * 2 + k]);
        const double row = static_cast<double>(call.in(0)[place * 5 + h]) +
                           static_cast<double>(call.in(0)[(place + 6) * 5 + h]);
        sum += static_cast<double>(call.in(2)[token * 2 + k]) * row;
      }
      EXPECT_NEAR(call.out(0)[token * 5 + h], sum, 1e-6);
    }
  }
}

TEST(Rows, CombineBackwardIsItsTranspose) {
  KernelCall call(OpKind::CombineRowsBackward, "sbh,uh,sbk,sbk->ah,sbk", "s2 b1 k2 u4 a4 h3");
  const std::int32_t places[] = {3, 0, 1, 2};
  std::copy(std::begin(places), std::end(places), call.in_ints(2).begin());
  call.run();
  for (std::size_t choice = 0; choice < 4; ++choice) {
    const auto place = static_cast<std::size_t>(places[choice]);
    double dot = 0;
    for (std::size_t h = 0; h < 3; ++h) {
      const double dy = static_cast<double>(call.in(0)[choice / 2 * 3 + h]);
      dot += dy * static_cast<double>(call.in(1)[place * 3 + h]);
      EXPECT_NEAR(call.out(0)[place * 3 + h], dy * static_cast<double>(call.in(3)[choice]), 1e-6);
    }
    EXPECT_NEAR(call.out(1)[choice], dot, 1e-6);
  }
}

// 3 experts with 2, 0 and 3 rows from two sources, of 7 planned: the last two are left alone.
void set_counts(std::span<std::int32_t> counts) {
  const std::int32_t rows[] = {2, 0, 1, 0, 0, 2};  // [y,x]
  std::copy(std::begin(rows), std::end(rows), counts.begin());
}
std::size_t expert_of(std::size_t row) {
  return row < 2 ? 0 : 2;
}

TEST(Grouped, EachRowMeetsItsExpert) {
  KernelCall call(OpKind::GroupedMatMul, "ch,xmh,yx->cm", "c7 h4 x3 m3 y2");
  set_counts(call.in_ints(2));
  call.run();
  for (std::size_t row = 0; row < 7; ++row) {
    for (std::size_t m = 0; m < 3; ++m) {
      double sum = 0;
      for (std::size_t h = 0; h < 4; ++h) {
        sum += static_cast<double>(call.in(0)[row * 4 + h]) *
               static_cast<double>(call.in(1)[(expert_of(row) * 3 + m) * 4 + h]);
      }
      if (row < 5) {
        EXPECT_NEAR(call.out(0)[row * 3 + m], sum, 1e-6);
      } else {
        EXPECT_TRUE(std::isnan(call.out(0)[row * 3 + m]));
      }
    }
  }
}

TEST(Grouped, WeightsGradientSumsOverOwnRows) {
  for (const bool accumulates : {false, true}) {
    KernelCall call(OpKind::GroupedMatMul, "cm,ch,yx->xmh", "c7 h4 x3 m3 y2");
    set_counts(call.in_ints(2));
    std::vector<float> before(36, 0.0F);
    if (accumulates) before = call.accumulate(0);
    for (std::size_t i = 15; i < 21; ++i) call.in(0)[i] = std::nanf("");  // rows of nobody
    call.run();
    for (std::size_t x = 0; x < 3; ++x) {
      for (std::size_t m = 0; m < 3; ++m) {
        for (std::size_t h = 0; h < 4; ++h) {
          double sum = static_cast<double>(before[(x * 3 + m) * 4 + h]);
          for (std::size_t row = 0; row < 5; ++row) {
            if (expert_of(row) != x) continue;
            sum += static_cast<double>(call.in(0)[row * 3 + m]) *
                   static_cast<double>(call.in(1)[row * 4 + h]);
          }
          EXPECT_NEAR(call.out(0)[(x * 3 + m) * 4 + h], sum, 1e-6);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mega::kernels
