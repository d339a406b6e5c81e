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
      moe.first_dense_layers = 1;
      job.model.layers = 3;
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

planner::Strategy with_zero(planner::Strategy s, int zero, int zero_group) {
  s.zero = zero;
  s.zero_group = zero_group;
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
    // What is cut over all data ranks, their pairs, or not at all of the experts.
    {"dp2_zero1", with_zero(strategy_of(1, 1, 2, 1, 1), 1, 2)},
    {"ep2dp4_zero1", with_zero(strategy_of(1, 1, 4, 2, 1), 1, 4)},
    {"ep2dp6_zero2_group2", with_zero(strategy_of(1, 1, 6, 2, 1), 2, 2)},
    {"etp2dp12_zero1_group2", with_zero(strategy_of(1, 1, 12, 1, 2), 1, 2)},
    {"tp2sp_dp2_ep2_zero3", with_zero(strategy_of(2, 1, 2, 2, 1, true), 3, 2)},
    {"dp3_ep3_zero3", with_zero(strategy_of(1, 1, 3, 3, 1), 3, 3)},
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

// The bias follows the load of the whole global batch: its steps and what they lead to are the
// same everywhere, and weights stay equal on ranks that hold the same experts (train() compares
// them after every step).
TEST(Experts, D08_TenStepsKeepExpertsAndBiasTogether) {
  planner::JobSpec job = experts_job(Router::DeepSeek);
  job.training.optimizer.clip_grad = 0.05;
  const Outcome one_rank = run(job, strategy_of(1, 1, 1, 1, 1), 10);
  ASSERT_GT(one_rank.norms[0], 0.05) << "the clip must be active";
  for (const planner::Strategy& strategy :
       {strategy_of(2, 1, 2, 2, 1, true), strategy_of(2, 1, 1, 1, 1), strategy_of(1, 1, 2, 1, 2)}) {
    SCOPED_TRACE(planner::summary(strategy));
    expect_same_steps(run(job, strategy, 10), one_rank, 1e-4);
  }
  bool has_moved = false;
  for (const runtime::GlobalTensor& tensor : one_rank.parameters) {
    if (!tensor.name.ends_with("e_score_correction_bias")) continue;
    for (const float value : tensor.data) has_moved = has_moved || value != 0;
  }
  EXPECT_TRUE(has_moved);
}

// Eight ranks of one expert and two tokens each: some get none, and still take part.
TEST(Experts, RanksWithoutRowsTakePart) {
  planner::JobSpec job = experts_job(Router::Qwen3);
  job.model.moe->top_k = 1;
  job.training.sequence_length = 2;
  job.training.global_batch = 16;
  planner::Strategy strategy = strategy_of(1, 1, 8, 8, 1);
  const Outcome one_rank = run(job, strategy_of(1, 1, 1, 1, 1));
  expect_same_gradients(run(job, strategy), one_rank);

  strategy.stages = {job.model.layers};
  const Plan plan = plan_of(job, strategy);
  auto session = runtime::Session::open(plan);
  ASSERT_TRUE(session.ok() && session.value()->start().ok());
  std::vector<std::int64_t> windows(16);
  for (std::size_t i = 0; i < windows.size(); ++i) windows[i] = static_cast<std::int64_t>(i) * 17;
  ASSERT_TRUE(session.value()->train({training_tokens().data(), windows}).ok());
  int without_rows = 0;
  for (int rank = 0; rank < 8; ++rank) {
    const auto bytes = session.value()->read(rank, "l0.rows.received");
    ASSERT_TRUE(bytes.ok());
    const bool is_empty = std::all_of(bytes.value().begin(), bytes.value().end(),
                                      [](std::byte byte) { return byte == std::byte{0}; });
    without_rows += is_empty ? 1 : 0;
  }
  EXPECT_GT(without_rows, 0);
}

// Fewer rows planned than come: an error that names the buffer of the layer, not a wrong result.
TEST(Experts, TooManyRowsAreAnError) {
  planner::JobSpec job = experts_job(Router::Mixtral);
  planner::Strategy strategy = strategy_of(1, 1, 4, 4, 1);
  strategy.stages = {job.model.layers};
  job.model.moe->row_factor = 0.5;
  auto session = runtime::Session::open(plan_of(job, strategy));
  ASSERT_TRUE(session.ok() && session.value()->start().ok());
  std::vector<std::int64_t> windows(12, 0);
  const auto result = session.value()->train({training_tokens().data(), windows});
  ASSERT_FALSE(result.ok());
  const std::string message = result.errors().front().message;
  EXPECT_NE(message.find("the buffer 'l0.rows' was planned for 16 rows, but "), std::string::npos)
      << message;

  // As many as can come are enough.
  job.model.moe->row_factor = 4;
  expect_same_gradients(run(job, strategy), run(job, strategy_of(1, 1, 1, 1, 1)));
}

// D10: the auxiliary losses alone. Their gradient reaches the router whatever the layout.
TEST(Experts, D10_AuxiliaryLossHasOneScale) {
  const auto of_router = [](const Outcome& outcome) {
    for (const runtime::GlobalTensor& tensor : outcome.gradients) {
      if (tensor.name.ends_with("layers.1.mlp.gate.weight")) return tensor.data;
    }
    return std::vector<float>();
  };
  planner::JobSpec job = experts_job(Router::Qwen3);
  job.model.moe->router.aux_coefficient = job.model.moe->router.z_coefficient = 0;
  const planner::Strategy one = strategy_of(1, 1, 1, 1, 1), many = strategy_of(2, 2, 2, 4, 1, true);
  const std::vector<float> plain_one = of_router(run(job, one)), plain = of_router(run(job, many));
  job.model.moe->router.aux_coefficient = 1;
  const std::vector<float> with_one = of_router(run(job, one)), with = of_router(run(job, many));
  ASSERT_FALSE(plain.empty());
  double top = 0, worst = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double a = static_cast<double>(with[i]) - static_cast<double>(plain[i]);
    const double b = static_cast<double>(with_one[i]) - static_cast<double>(plain_one[i]);
    worst = std::max(worst, std::abs(a - b));
    top = std::max(top, std::abs(b));
  }
  EXPECT_GT(top, 1e-3);
  EXPECT_LE(worst, 2e-5 * top);
}

// Axes in another order, with ep inside and outside of etp.
TEST(Experts, RankOrderChangesNothing) {
  const planner::JobSpec job = experts_job(Router::DeepSeek);
  const Outcome one_rank = run(job, strategy_of(1, 1, 1, 1, 1));
  for (const char* order : {"ep-tp-cp-dp-pp", "pp-dp-cp-ep-tp", "dp-tp-ep-cp-pp"}) {
    SCOPED_TRACE(order);
    planner::Strategy strategy = strategy_of(2, 2, 2, 2, 2, true);
    strategy.rank_order = order;
    strategy.stages = planner::even_cut(job.model.layers, 2);
    const Outcome outcome = train(plan_of(job, strategy), 1);
    expect_same_steps(outcome, one_rank, 1e-5);
    expect_same_gradients(outcome, one_rank);
  }
}

// Poisoned memory and guards: rows that nobody sent are never read.
TEST(Experts, D18_PoisonedRunsChangeNoBit) {
  const planner::JobSpec job = experts_job(Router::DeepSeek);
  runtime::SessionOptions options;
  options.check = true;
  planner::Strategy strategy = strategy_of(2, 1, 2, 2, 2, true);
  strategy.stages = {job.model.layers};
  const Plan plan = plan_of(job, strategy);
  expect_same_bits(train(plan, 2, options), train(plan, 2));
}

}  // namespace
}  // namespace mega::testing
