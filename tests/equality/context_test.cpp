// A sequence in parts on several ranks computes what one rank computes.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/support/training.h"

namespace mega::testing {
namespace {

using planner::ContextKind;

struct ContextLayout {
  int cp = 2;
  Degrees others;
};

planner::Strategy strategy_of(const planner::JobSpec& job, ContextLayout layout,
                              ContextKind context) {
  planner::Strategy strategy = mega::testing::strategy_of(job, layout.others);
  strategy.cp = layout.cp;
  strategy.context = context;
  return planner::normalised(strategy);
}

const ContextLayout kContextLayouts[] = {
    {2, {}},
    {4, {}},
    {2, {.tp = 2}},
    {2, {.tp = 2, .sequence_parallel = true}},
    {2, {.pp = 3}},
    {2, {.dp = 2}},
    {2, {.tp = 2, .pp = 2, .vpp = 2, .dp = 2, .sequence_parallel = true}},
};

class Context : public ::testing::TestWithParam<std::tuple<bool, ContextKind, ContextLayout>> {};

TEST_P(Context, OneSgdStepEqualsOneRank) {
  const auto& [is_gpt2, kind, layout] = GetParam();
  planner::JobSpec job = training_job(is_gpt2);
  if (kind == ContextKind::Ulysses && !is_gpt2) job.model.kv_heads = 4;
  const planner::Strategy strategy = strategy_of(job, layout, kind);
  ASSERT_TRUE(planner::is_legal(job, strategy));
  const Outcome one_rank = train(job, {}, 1);
  const Outcome outcome = train(plan_of(job, strategy), 1);
  expect_same_steps(outcome, one_rank, 1e-5);
  expect_same_gradients(outcome, one_rank);
}

std::string name_of(const std::tuple<bool, ContextKind, ContextLayout>& layout) {
  const auto& [is_gpt2, kind, degrees] = layout;
  return std::string(is_gpt2 ? "Gpt2_" : "Llama_") + planner::to_string(kind) + "_cp" +
         std::to_string(degrees.cp) + mega::testing::name_of(degrees.others);
}

INSTANTIATE_TEST_SUITE_P(All, Context,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(ContextKind::Ring,
                                                              ContextKind::AllGather,
                                                              ContextKind::Ulysses),
                                            ::testing::ValuesIn(kContextLayouts)),
                         [](const auto& test) { return name_of(test.param); });

// D16 beside a split sequence: what is computed again moves again.
TEST(ContextEquality, RecomputesWithTheSameBits) {
  const planner::JobSpec job = training_job(true);
  for (const ContextKind kind : {ContextKind::Ring, ContextKind::AllGather, ContextKind::Ulysses}) {
    planner::Strategy strategy = strategy_of(job, {2, {.pp = 2}}, kind);
    const Outcome kept = train(plan_of(job, strategy), 2);
    strategy.recompute = *planner::recompute_named("full");
    expect_same_bits(train(plan_of(job, strategy), 2), kept);
  }
}

}  // namespace
}  // namespace mega::testing
