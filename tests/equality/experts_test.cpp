// Mixtures of experts compute under every layout what they compute on one rank.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/support/training.h"

namespace mega::testing {
namespace {

enum class Router { Mixtral, Qwen3, DeepSeek };

// Two layers of eight experts.
planner::JobSpec experts_job(Router kind) {
  planner::JobSpec job = training_job(false);
  job.model.layers = 2;
  planner::MoeSpec moe;
  moe.experts = 8;
  moe.top_k = 2;
  moe.ffn_hidden = 24;
  moe.router.aux_coefficient = 0.02;
  moe.router.z_coefficient = 0.01;
  switch (kind) {
    case Router::Mixtral:
      job.model.family = "mixtral";
      break;
    case Router::Qwen3:
      moe.router.pre_softmax = moe.router.normalize = true;
      moe.top_k = 3;
      break;
    case Router::DeepSeek:
      moe.router.score = planner::RouterScore::Sigmoid;
      moe.router.normalize = moe.router.bias = true;
      moe.router.bias_update_rate = 0.01;
      moe.router.scale = 2.5;
      moe.router.groups = 4;
      moe.router.group_top_k = 2;
      moe.top_k = 4;
      moe.shared_ffn_hidden = 16;
      break;
  }
  job.model.moe = moe;
  return job;
}

struct Layout {
  const char* name;
  planner::Strategy strategy;
};

planner::Strategy strategy_of(int tp, int pp, int dp, int ep, int etp, bool sp = false) {
  planner::Strategy s;
  s.tp = tp;
  s.pp = pp;
  s.dp = dp;
  s.ep = ep;
  s.etp = etp;
  s.sequence_parallel = sp;
  s.overlap.gradient_reduce = s.overlap.pipeline = true;
  return planner::normalised(s);
}

Outcome run(const planner::JobSpec& job, planner::Strategy strategy, int steps = 1) {
  EXPECT_EQ(planner::count_broken(job, strategy), 0);
  strategy.stages = planner::even_cut(job.model.layers, strategy.pp * strategy.vpp);
  return train(plan_of(job, strategy), steps);
}

const Layout kLayouts[] = {
    {"dp2", strategy_of(1, 1, 2, 1, 1)},
    {"ep2", strategy_of(1, 1, 2, 2, 1)},
    {"ep2dp2", strategy_of(1, 1, 4, 2, 1)},
    {"ep4", strategy_of(1, 1, 4, 4, 1)},
    {"etp2", strategy_of(1, 1, 2, 1, 2)},
    {"ep2etp2", strategy_of(1, 1, 4, 2, 2)},
    {"tp2", strategy_of(2, 1, 1, 1, 1)},
    {"tp2sp", strategy_of(2, 1, 1, 1, 1, true)},
    {"tp2sp_ep2", strategy_of(2, 1, 1, 2, 1, true)},
    {"tp2sp_etp2", strategy_of(2, 1, 1, 1, 2, true)},
    {"tp2sp_dp2_ep4", strategy_of(2, 1, 2, 4, 1, true)},
    {"tp2sp_dp2_ep2etp2", strategy_of(2, 1, 2, 2, 2, true)},
    {"tp2sp_dp2_etp2", strategy_of(2, 1, 2, 1, 2, true)},
    {"pp2_ep2", strategy_of(1, 2, 2, 2, 1)},
    {"pp2_tp2sp_ep2", strategy_of(2, 2, 1, 2, 1, true)},
    // D: neither mesh is a refinement of the other.
    {"tp2sp_dp3_ep3", strategy_of(2, 1, 3, 3, 1, true)},
};

class Experts : public ::testing::TestWithParam<std::tuple<Router, Layout>> {};

// D08, D09: raw gradients and the norm, of experts and of all else.
// D10, D22: the auxiliary loss and its gradient are the same, and every stage's counts.
TEST_P(Experts, OneSgdStepEqualsOneRank) {
  const auto& [kind, layout] = GetParam();
  planner::JobSpec job = experts_job(kind);
  if (layout.strategy.ep == 3) {
    job.model.moe->experts = 6;
    if (job.model.moe->router.groups > 0) job.model.moe->router.groups = 3;
  }
  const Outcome one_rank = run(job, strategy_of(1, 1, 1, 1, 1));
  const Outcome outcome = run(job, layout.strategy);
  expect_same_steps(outcome, one_rank, 1e-5);
  expect_same_gradients(outcome, one_rank);
}

std::string name_of_test(Router kind, const Layout& layout) {
  const std::string router = kind == Router::Mixtral ? "Mixtral_"
                             : kind == Router::Qwen3 ? "Qwen3_"
                                                     : "DeepSeek_";
  return router + layout.name;
}

INSTANTIATE_TEST_SUITE_P(All, Experts,
                         ::testing::Combine(::testing::Values(Router::Mixtral, Router::Qwen3,
                                                              Router::DeepSeek),
                                            ::testing::ValuesIn(kLayouts)),
                         [](const auto& test) {
                           return name_of_test(std::get<0>(test.param), std::get<1>(test.param));
                         });

}  // namespace
}  // namespace mega::testing
