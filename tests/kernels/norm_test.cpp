#include "kernels/norm.h"

#include <gtest/gtest.h>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

constexpr double kEpsilon = 1e-5;
const char* const kSizes[] = {"s1 b1 h1", "s3 b2 h7", "s2 b1 h33", "s5 b3 h130"};

struct Statistics {
  double mean, rstd;
};

Statistics statistics_of(std::span<const double> x, bool is_rms) {
  double mean = 0;
  double square = 0;
  const auto size = static_cast<double>(x.size());
  if (!is_rms) {
    for (const double value : x) mean += value / size;
  }
  for (const double value : x) square += (value - mean) * (value - mean) / size;
  return {mean, 1 / std::sqrt(square + kEpsilon)};
}

// sum of dy y over one row, whose gradients are the backward's results.
double weighted(std::span<const double> dy, std::span<const double> x,
                std::span<const double> weight, bool is_rms) {
  const Statistics of_row = statistics_of(x, is_rms);
  double total = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    total += dy[i] * (x[i] - of_row.mean) * of_row.rstd * weight[i];
  }
  return total;
}

std::vector<double> row_of(std::span<const float> values, std::size_t row, std::size_t columns) {
  const auto part = values.subspan(row * columns, columns);
  return {part.begin(), part.end()};
}

TEST(LayerNorm, MatchesItsFormula) {
  for (const char* sizes : kSizes) {
    KernelCall call(OpKind::LayerNorm, "sbh,h,h->sbh,sb,sb", sizes);
    call.call.attributes.epsilon = kEpsilon;
    call.run();
    const std::size_t columns = call.in(1).size();
    for (std::size_t row = 0; row < call.out(1).size(); ++row) {
      const auto x = row_of(call.in(0), row, columns);
      const Statistics expected = statistics_of(x, false);
      ASSERT_NEAR(call.out(1)[row], expected.mean, 1e-6);
      ASSERT_NEAR(call.out(2)[row] / expected.rstd, 1, 1e-5);
      for (std::size_t i = 0; i < columns; ++i) {
        const double y =
            (x[i] - expected.mean) * expected.rstd * static_cast<double>(call.in(1)[i]) +
            static_cast<double>(call.in(2)[i]);
        ASSERT_NEAR(call.out(0)[row * columns + i], y, 1e-5);
      }
    }
  }
}

TEST(RmsNorm, MatchesItsFormula) {
  for (const char* sizes : kSizes) {
    KernelCall call(OpKind::RmsNorm, "sbh,h->sbh,sb", sizes);
    call.call.attributes.epsilon = kEpsilon;
    call.run();
    const std::size_t columns = call.in(1).size();
    for (std::size_t row = 0; row < call.out(1).size(); ++row) {
      const auto x = row_of(call.in(0), row, columns);
      const Statistics expected = statistics_of(x, true);
      ASSERT_NEAR(call.out(1)[row] / expected.rstd, 1, 1e-5);
      for (std::size_t i = 0; i < columns; ++i) {
        ASSERT_NEAR(call.out(0)[row * columns + i],
                    x[i] * expected.rstd * static_cast<double>(call.in(1)[i]), 1e-5);
      }
    }
  }
}

// A mean far from zero: the one-pass formula E[x^2] - mean^2 would lose all digits.
TEST(LayerNorm, SurvivesALargeMean) {
  KernelCall call(OpKind::LayerNorm, "sbh,h,h->sbh,sb,sb", "s1 b1 h64");
  call.call.attributes.epsilon = kEpsilon;
  for (std::size_t i = 0; i < 64; ++i) call.in(0)[i] = 10000.0F + static_cast<float>(i % 2);
  call.run();
  EXPECT_NEAR(call.out(2)[0], 2, 1e-3);  // deviation 0.5
}

struct Backward {
  OpKind kind;
  const char* index;
  bool is_rms;
};
constexpr Backward kBackwards[] = {{OpKind::LayerNormBackward, "sbh,sbh,h,sb,sb->sbh,h,h", false},
                                   {OpKind::RmsNormBackward, "sbh,sbh,h,sb->sbh,h", true}};

// Fills in the statistics that a forward would have left.
void set_statistics(KernelCall& call, bool is_rms) {
  const std::size_t columns = call.in(2).size();
  for (std::size_t row = 0; row < call.in(3).size(); ++row) {
    const Statistics of_row = statistics_of(row_of(call.in(1), row, columns), is_rms);
    if (!is_rms) call.in(3)[row] = static_cast<float>(of_row.mean);
    call.in(is_rms ? 3 : 4)[row] = static_cast<float>(of_row.rstd);
  }
}

TEST(NormBackward, OfTheInputIsTheSlope) {
  for (const Backward& backward : kBackwards) {
    for (const char* sizes : {"s3 b2 h7", "s2 b1 h33"}) {
      KernelCall call(backward.kind, backward.index, sizes);
      set_statistics(call, backward.is_rms);
      call.run();
      const std::size_t columns = call.in(2).size();
      const auto weight = row_of(call.in(2), 0, columns);
      for (std::size_t row = 0; row < call.in(3).size(); ++row) {
        const auto dy = row_of(call.in(0), row, columns);
        auto x = row_of(call.in(1), row, columns);
        for (std::size_t i = 0; i < columns; ++i) {
          const double at = x[i];
          x[i] = at + 1e-5;
          const double above = weighted(dy, x, weight, backward.is_rms);
          x[i] = at - 1e-5;
          const double below = weighted(dy, x, weight, backward.is_rms);
          x[i] = at;
          ASSERT_NEAR(call.out(0)[row * columns + i], (above - below) / 2e-5, 2e-5);
        }
      }
    }
  }
}

TEST(NormBackward, OfTheWeightsSumsRowsAndAccumulates) {
  for (const Backward& backward : kBackwards) {
    for (const bool accumulate : {false, true}) {
      KernelCall call(backward.kind, backward.index, "s5 b3 h130");
      set_statistics(call, backward.is_rms);
      const std::size_t columns = call.in(2).size();
      std::vector<double> weight(columns, 0), bias(columns, 0);
      if (accumulate) {
        const auto before = call.accumulate(1);
        weight.assign(before.begin(), before.end());
      }
      if (accumulate && !backward.is_rms) {
        const auto before = call.accumulate(2);
        bias.assign(before.begin(), before.end());
      }
      for (std::size_t row = 0; row < call.in(3).size(); ++row) {
        const auto x = row_of(call.in(1), row, columns);
        const auto dy = row_of(call.in(0), row, columns);
        const Statistics of_row = statistics_of(x, backward.is_rms);
        for (std::size_t i = 0; i < columns; ++i) {
          weight[i] += dy[i] * (x[i] - of_row.mean) * of_row.rstd;
          bias[i] += dy[i];
        }
      }
      call.run();
      expect_close(call.out(1), weight, 1e-5);
      if (!backward.is_rms) expect_close(call.out(2), bias, 1e-6);
    }
  }
}

TEST(NormBackward, AccumulatesIntoTheInputGradient) {
  for (const Backward& backward : kBackwards) {
    KernelCall plain(backward.kind, backward.index, "s3 b2 h33");
    KernelCall onto(backward.kind, backward.index, "s3 b2 h33");
    set_statistics(plain, backward.is_rms);
    set_statistics(onto, backward.is_rms);
    const auto before = onto.accumulate(0);
    plain.run();
    onto.run();
    for (std::size_t i = 0; i < before.size(); ++i) {
      ASSERT_EQ(onto.out(0)[i], before[i] + plain.out(0)[i]);
    }
  }
}

TEST(NormBackward, MayOverwriteTheOutputGradient) {
  for (const Backward& backward : kBackwards) {
    KernelCall apart(backward.kind, backward.index, "s3 b2 h33");
    KernelCall together(backward.kind, backward.index, "s3 b2 h33");
    set_statistics(apart, backward.is_rms);
    set_statistics(together, backward.is_rms);
    together.share(0, 0);
    apart.run();
    together.run();
    for (std::size_t i = 0; i < apart.out(0).size(); ++i) {
      ASSERT_EQ(together.in(0)[i], apart.out(0)[i]);
    }
    for (std::size_t i = 0; i < 33; ++i) ASSERT_EQ(together.out(1)[i], apart.out(1)[i]);
  }
}

TEST(Norm, KeepsNanInItsRow) {
  KernelCall call(OpKind::RmsNorm, "sbh,h->sbh,sb", "s2 b1 h9");
  call.in(0)[4] = std::numeric_limits<float>::quiet_NaN();
  call.run();
  for (std::size_t i = 0; i < 18; ++i) EXPECT_EQ(std::isnan(call.out(0)[i]), i < 9);
}

// A weight that is stored as its distance from 1 gives the same results.
TEST(Norms, AnOffsetAddsToTheWeight) {
  const struct {
    OpKind kind;
    const char* index;
    std::size_t weight;
  } rows[] = {{OpKind::LayerNorm, "sbh,h,h->sbh,sb,sb", 1},
              {OpKind::RmsNorm, "sbh,h->sbh,sb", 1},
              {OpKind::LayerNormBackward, "sbh,sbh,h,sb,sb->sbh,h,h", 2},
              {OpKind::RmsNormBackward, "sbh,sbh,h,sb->sbh,h", 2}};
  for (const auto& row : rows) {
    KernelCall plain(row.kind, row.index, "s3 b2 h33");
    KernelCall offset(row.kind, row.index, "s3 b2 h33");
    offset.call.attributes.value = 1;
    for (std::size_t i = 0; i < 33; ++i) {
      plain.in(row.weight)[i] = 1 + offset.in(row.weight)[i];
    }
    plain.run();
    offset.run();
    for (std::size_t i = 0; i < plain.out(0).size(); ++i) {
      ASSERT_EQ(plain.out(0)[i], offset.out(0)[i]) << info(row.kind).name;
    }
  }
}

TEST(Norms, ALayerNormMayLackItsBias) {
  KernelCall with(OpKind::LayerNorm, "sbh,h,h->sbh,sb,sb", "s3 b2 h33");
  KernelCall without(OpKind::LayerNorm, "sbh,h->sbh,sb,sb", "s3 b2 h33");
  for (float& x : with.in(2)) x = 0;
  with.run();
  without.run();
  for (std::size_t i = 0; i < with.out(0).size(); ++i) {
    ASSERT_NEAR(with.out(0)[i], without.out(0)[i], 1e-6);
  }
  KernelCall back(OpKind::LayerNormBackward, "sbh,sbh,h,sb,sb->sbh,h,h", "s3 b2 h33");
  KernelCall back_without(OpKind::LayerNormBackward, "sbh,sbh,h,sb,sb->sbh,h", "s3 b2 h33");
  back.run();
  back_without.run();
  for (std::size_t i = 0; i < 33; ++i) ASSERT_EQ(back.out(1)[i], back_without.out(1)[i]);
}

}  // namespace
}  // namespace mega::kernels
