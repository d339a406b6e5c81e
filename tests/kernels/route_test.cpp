// Routing against plain double-precision loops, and its gradients against finite differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/kernel_call.h"

namespace mega::kernels {
namespace {

struct Kind {
  bool sigmoid = false, over_all = false, normalize = false;
};
constexpr Kind kKinds[] = {{},
                           {.over_all = true},
                           {.over_all = true, .normalize = true},
                           {.sigmoid = true},
                           {.sigmoid = true, .normalize = true}};

void set(Call& call, Kind kind) {
  call.attributes.sigmoid = kind.sigmoid;
  call.attributes.over_all = kind.over_all;
  call.attributes.normalize = kind.normalize;
  call.attributes.scale = 1.5;
}

std::vector<double> scores_of(Kind kind, const std::vector<double>& logits) {
  std::vector<double> scores;
  double total = 0;
  for (const double logit : logits) total += std::exp(logit);
  for (const double logit : logits) {
    scores.push_back(kind.sigmoid ? 1 / (1 + std::exp(-logit)) : std::exp(logit) / total);
  }
  return scores;
}

std::vector<double> weights_of(Kind kind, const std::vector<double>& logits,
                               const std::vector<std::int32_t>& chosen) {
  const std::vector<double> scores = scores_of(kind, logits);
  double sum = 0;
  for (const std::int32_t e : chosen) sum += scores[static_cast<std::size_t>(e)];
  const bool divides = kind.normalize || (!kind.sigmoid && !kind.over_all);
  std::vector<double> weights;
  for (const std::int32_t e : chosen) {
    weights.push_back(1.5 * scores[static_cast<std::size_t>(e)] / (divides ? sum : 1));
  }
  return weights;
}

std::vector<double> token(std::span<float> logits, std::size_t row, std::size_t experts) {
  const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * experts);
  return {begin, begin + static_cast<std::ptrdiff_t>(experts)};
}

TEST(Route, TakesTheBestAndWeighsThem) {
  for (const Kind kind : kKinds) {
    KernelCall call(OpKind::Route, "sbe->sbk,sbk", "s5 b2 e6 k3");
    set(call.call, kind);
    call.run();
    for (std::size_t row = 0; row < 10; ++row) {
      const std::vector<double> logits = token(call.in(0), row, 6);
      std::vector<std::int32_t> order = {0, 1, 2, 3, 4, 5};
      std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
      });
      order.resize(3);
      const std::vector<double> weights = weights_of(kind, logits, order);
      for (std::size_t k = 0; k < 3; ++k) {
        EXPECT_EQ(call.out_ints(1)[row * 3 + k], order[k]);
        EXPECT_NEAR(call.out(0)[row * 3 + k], weights[k], 1e-6);
      }
    }
  }
}

TEST(Route, TiesGoToTheLowerNumber) {
  KernelCall call(OpKind::Route, "sbe->sbk,sbk", "s1 b1 e4 k2");
  set(call.call, {});
  for (float& logit : call.in(0)) logit = 0.5F;
  call.run();
  EXPECT_EQ(call.out_ints(1)[0], 0);
  EXPECT_EQ(call.out_ints(1)[1], 1);
}

// The bias decides who is chosen, the score alone how much it weighs.
TEST(Route, BiasChoosesButDoesNotWeigh) {
  KernelCall call(OpKind::Route, "sbe,e->sbk,sbk", "s1 b1 e4 k1");
  set(call.call, {.sigmoid = true});
  for (std::size_t e = 0; e < 4; ++e) {
    call.in(0)[e] = static_cast<float>(e);
    call.in(1)[e] = e == 1 ? 10.0F : 0.0F;
  }
  call.run();
  EXPECT_EQ(call.out_ints(1)[0], 1);
  EXPECT_NEAR(call.out(0)[0], 1.5 / (1 + std::exp(-1.0)), 1e-6);
}

// Groups {9, 0}, {5, 5}, {8, 0}: by the two best of each the second has 10, the first 9.
TEST(Route, GroupsAreRankedByTheSumOfTheirBest) {
  KernelCall call(OpKind::Route, "sbe->sbk,sbk", "s1 b1 e6 k4");
  set(call.call, {.sigmoid = true});
  call.call.attributes.groups = 3;
  call.call.attributes.group_limit = 2;
  const float scores[] = {0.9F, 0.01F, 0.5F, 0.6F, 0.8F, 0.02F};
  for (std::size_t e = 0; e < 6; ++e) call.in(0)[e] = std::log(scores[e] / (1 - scores[e]));
  call.run();
  const std::vector<std::int32_t> chosen(call.out_ints(1).begin(), call.out_ints(1).end());
  EXPECT_EQ(chosen, (std::vector<std::int32_t>{0, 3, 2, 1}));
}

// What route_backward differentiates: the weights against random factors, the balance loss and
// the z-loss, of one token.
double objective(Kind kind, const std::vector<double>& logits,
                 const std::vector<std::int32_t>& chosen, const float* factors, const float* load,
                 double balance, double z) {
  const std::vector<double> weights = weights_of(kind, logits, chosen);
  const std::vector<double> scores = scores_of(kind, logits);
  double total = 0, sum = 0, exponentials = 0;
  for (std::size_t k = 0; k < chosen.size(); ++k) total += weights[k] * factors[k];
  for (const double score : scores) sum += score;
  for (std::size_t e = 0; e < scores.size(); ++e) total += balance * load[e] * scores[e] / sum;
  for (const double logit : logits) exponentials += std::exp(logit);
  return total + z * std::log(exponentials) * std::log(exponentials);
}

TEST(Route, GradientIsThatOfFiniteDifferences) {
  for (const Kind kind : kKinds) {
    KernelCall call(OpKind::RouteBackward, "sbk,sbe,sbk,be->sbe", "s3 b1 e5 k2");
    set(call.call, kind);
    call.call.attributes.balance = 0.3;
    call.call.attributes.z = 0.2;
    for (std::size_t i = 0; i < 6; ++i) {
      call.in_ints(2)[i] = static_cast<std::int32_t>(i % 2 == 0 ? 3 : i / 2);
    }
    call.run();
    for (std::size_t row = 0; row < 3; ++row) {
      const std::vector<std::int32_t> chosen = {call.in_ints(2)[row * 2],
                                                call.in_ints(2)[row * 2 + 1]};
      const std::vector<double> logits = token(call.in(1), row, 5);
      const auto at = [&](std::size_t e, double by) {
        std::vector<double> moved = logits;
        moved[e] += by;
        return objective(kind, moved, chosen, &call.in(0)[row * 2], &call.in(3)[0], 0.3, 0.2);
      };
      for (std::size_t e = 0; e < 5; ++e) {
        const double slope = (at(e, 1e-5) - at(e, -1e-5)) / 2e-5;
        EXPECT_NEAR(call.out(0)[row * 5 + e], slope, 2e-5) << row << " " << e;
      }
    }
  }
}

// Two sequences, two experts chosen of three.
TEST(Load, CountsPerSequence) {
  KernelCall call(OpKind::ExpertLoad, "sbe,sbk->be,be", "s2 b2 e3 k1");
  const std::int32_t chosen[] = {0, 2, 0, 1};  // [s,b,1]
  std::copy(std::begin(chosen), std::end(chosen), call.in_ints(1).begin());
  call.run();
  const std::vector<float> tokens(call.out(1).begin(), call.out(1).end());
  EXPECT_EQ(tokens, (std::vector<float>{2, 0, 0, 0, 1, 1}));
  double all = 0;
  for (const float probability : call.out(0)) all += static_cast<double>(probability);
  EXPECT_NEAR(all, 4, 1e-5);  // one per token
}

TEST(Load, BiasMovesTowardsEvenLoad) {
  KernelCall call(OpKind::ShiftBias, "n->n", "n3");
  call.call.attributes.value = 0.25;
  const float tokens[] = {1, 4, 7};  // mean 4
  std::copy(std::begin(tokens), std::end(tokens), call.in(0).begin());
  std::fill(call.out(0).begin(), call.out(0).end(), 1.0F);
  call.run();
  const std::vector<float> bias(call.out(0).begin(), call.out(0).end());
  EXPECT_EQ(bias, (std::vector<float>{1.25F, 1.0F, 0.75F}));
}

}  // namespace
}  // namespace mega::kernels
