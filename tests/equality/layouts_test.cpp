// The strongest test of the compiler: every layout computes what one rank computes.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/support/training.h"

namespace mega::testing {
namespace {

const Degrees kLayouts[] = {
    {.tp = 2},
    {.tp = 2, .sequence_parallel = true},
    {.tp = 4},
    {.tp = 4, .sequence_parallel = true},
    {.dp = 2},
    {.dp = 3},
    {.pp = 2},
    {.pp = 3},
    {.pp = 4},
    {.pp = 2, .vpp = 2},
    {.pp = 3, .vpp = 2},
    {.pp = 4, .vpp = 2},
    {.tp = 2, .pp = 2, .dp = 2},
    {.tp = 2, .pp = 2, .dp = 2, .sequence_parallel = true},
    {.tp = 2, .pp = 2, .vpp = 2, .dp = 2, .sequence_parallel = true},
};

class Layouts : public ::testing::TestWithParam<std::tuple<bool, Degrees>> {};

// D05: raw gradients under SGD, since neither Adam nor a clipped norm shows a wrong scale.
// D06: every replicated parameter, by name, and equal on all ranks that hold a copy.
// H03: the Llama has 2 kv heads, which tp 4 replicates and whose gradients are summed.
TEST_P(Layouts, OneSgdStepEqualsOneRank) {
  const auto& [is_gpt2, degrees] = GetParam();
  const planner::JobSpec job = training_job(is_gpt2);
  const Outcome one_rank = train(job, {}, 1);
  const Outcome outcome = train(job, degrees, 1);
  expect_same_steps(outcome, one_rank, 1e-5);
  expect_same_gradients(outcome, one_rank);
}

TEST_P(Layouts, TwentyAdamWStepsEqualOneRank) {
  const auto& [is_gpt2, degrees] = GetParam();
  planner::JobSpec job = training_job(is_gpt2);
  use_adamw(job);
  expect_same_steps(train(job, degrees, 20), train(job, {}, 20), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(All, Layouts,
                         ::testing::Combine(::testing::Bool(), ::testing::ValuesIn(kLayouts)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param) ? "Gpt2_" : "Llama_") +
                                  name_of(std::get<1>(test.param));
                         });

// A model that mixes the families' choices, with head_dim != hidden / heads (H09).
TEST(Layouts, MixedModelEqualsOneRank) {
  planner::JobSpec job = training_job(true);
  job.model.layers = 4;
  job.model.head_dim = 12;  // 4 * 12 != 32
  job.model.activation = planner::ActivationKind::SwiGlu;
  job.model.position = planner::PositionKind::Rope;
  job.model.rope_interleaved = true;
  job.model.bias_attention_out = false;
  job.model.tied_embeddings = false;
  const Outcome one_rank = train(job, {}, 1);
  for (const Degrees degrees : {Degrees{.tp = 4, .sequence_parallel = true}, Degrees{.pp = 4},
                                Degrees{.tp = 2, .pp = 2, .vpp = 2}}) {
    SCOPED_TRACE(name_of(degrees));
    const Outcome outcome = train(job, degrees, 1);
    expect_same_steps(outcome, one_rank, 1e-5);
    expect_same_gradients(outcome, one_rank);
  }
  job.model.activation = planner::ActivationKind::Gelu;
  job.model.position = planner::PositionKind::None;
  job.model.norm = planner::NormKind::RmsNorm;
  const Outcome plain = train(job, {}, 1);
  expect_same_gradients(train(job, {.tp = 2, .pp = 2, .sequence_parallel = true}, 1), plain);
}

// Two kinds of layers: every third has no positions.
TEST(Layouts, LayersOfTwoKindsEqualOneRank) {
  planner::JobSpec job = training_job(false);
  job.model.no_rope_every = 3;
  const Outcome one_rank = train(job, {}, 1);
  for (const Degrees degrees : {Degrees{.tp = 2, .sequence_parallel = true}, Degrees{.pp = 4},
                                Degrees{.tp = 2, .pp = 2, .vpp = 2, .dp = 2}}) {
    SCOPED_TRACE(name_of(degrees));
    expect_same_gradients(train(job, degrees, 1), one_rank);
  }
}

TEST(Layouts, SeveralSequencesInAMicroBatchEqualOneRank) {
  const planner::JobSpec job = training_job(false);
  planner::Strategy one = strategy_of(job, {});
  one.micro_batch = 3;
  planner::Strategy many = strategy_of(job, {.tp = 2, .pp = 2, .dp = 2, .sequence_parallel = true});
  many.micro_batch = 3;
  const Outcome one_rank = train(plan_of(job, one), 1);
  const Outcome outcome = train(plan_of(job, many), 1);
  expect_same_steps(outcome, one_rank, 1e-5);
  expect_same_gradients(outcome, one_rank);
}

// A05: 4, 6, 8, 10 and 12 micro-batches on 4 interleaved stages, whether they divide or not.
TEST(Layouts, A05_InterleavedMicroBatchesNeedNotDivide) {
  for (const std::int64_t micro_batches : {4, 6, 8, 10, 12}) {
    SCOPED_TRACE(micro_batches);
    planner::JobSpec job = training_job(false);
    job.training.global_batch = micro_batches;
    const Outcome plain = train(job, {.pp = 4}, 1);
    const Outcome outcome = train(job, {.pp = 4, .vpp = 2}, 1);
    expect_same_steps(outcome, plain, 1e-5);
    expect_same_gradients(outcome, plain);
  }
}

// Fewer micro-batches than stages, down to one.
TEST(Layouts, FewMicroBatchesEqualOneRank) {
  for (const std::int64_t micro_batches : {1, 2, 3}) {
    SCOPED_TRACE(micro_batches);
    planner::JobSpec job = training_job(true);
    job.training.global_batch = micro_batches;
    const Outcome one_rank = train(job, {}, 1);
    expect_same_gradients(train(job, {.pp = 4}, 1), one_rank);
    expect_same_gradients(train(job, {.pp = 8}, 1), one_rank);
  }
}

// Any order of the axes is only another numbering of the ranks. (Sums over several axes go by
// rank, so their last bits may differ.)
TEST(Layouts, RankOrderChangesNothing) {
  const planner::JobSpec job = training_job(true);
  planner::Strategy strategy = strategy_of(job, {.tp = 2, .pp = 2, .dp = 2});
  const Outcome usual = train(plan_of(job, strategy), 2);
  strategy.rank_order = "pp-dp-cp-ep-tp";
  const Outcome other = train(plan_of(job, strategy), 2);
  expect_same_steps(other, usual, 1e-9);
  expect_same_gradients(other, usual);
}

// Overlap decides when, never what.
TEST(Layouts, OverlapChangesNoBit) {
  const planner::JobSpec job = training_job(false);
  planner::Strategy strategy = strategy_of(job, {.pp = 2, .vpp = 2, .dp = 2});
  const Outcome overlapped = train(plan_of(job, strategy), 3);
  strategy.overlap = {};
  expect_same_bits(train(plan_of(job, strategy), 3), overlapped);
}

}  // namespace
}  // namespace mega::testing
