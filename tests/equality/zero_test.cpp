// Cut optimizer state, gradients and weights: every level computes what one rank computes.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/support/training.h"

namespace mega::testing {
namespace {

struct ZeroLayout {
  Degrees degrees;
  int zero = 1;
  int zero_group = 0;  // 0: all data ranks
};

planner::Strategy strategy_of(const planner::JobSpec& job, const ZeroLayout& layout) {
  planner::Strategy strategy = strategy_of(job, layout.degrees);
  strategy.zero = layout.zero;
  strategy.zero_group = layout.zero_group == 0 ? layout.degrees.dp : layout.zero_group;
  return planner::normalised(strategy);
}

std::string name_of(const ZeroLayout& layout) {
  return name_of(layout.degrees) + "_zero" + std::to_string(layout.zero) +
         (layout.zero_group == 0 ? "" : "_group" + std::to_string(layout.zero_group));
}

// 12 sequences on 3 ranks of 2 stages are two micro-batches; hidden 36 is no power of two.
const ZeroLayout kShapes[] = {
    {{.dp = 2}},
    {{.dp = 3}},
    {{.dp = 4}, 1, 2},
    {{.dp = 6}, 1, 3},
    {{.pp = 2, .dp = 2}},
    {{.pp = 2, .dp = 4}, 1, 2},
    {{.tp = 2, .dp = 2, .sequence_parallel = true}},
    {{.tp = 4, .dp = 2}},
    {{.pp = 2, .vpp = 2, .dp = 2}},
    {{.tp = 2, .pp = 2, .vpp = 2, .dp = 3, .sequence_parallel = true}},
};

class Zero : public ::testing::TestWithParam<std::tuple<bool, int, ZeroLayout>> {
 protected:
  ZeroLayout layout() const {
    ZeroLayout layout = std::get<2>(GetParam());
    layout.zero = std::get<1>(GetParam());
    return layout;
  }
};

// D05, D06 with cut gradients; D01: train() compares the tied copies of both stages.
TEST_P(Zero, OneSgdStepEqualsOneRank) {
  const planner::JobSpec job = training_job(std::get<0>(GetParam()));
  const Outcome one_rank = train(job, {}, 1);
  const Outcome outcome = train(plan_of(job, strategy_of(job, layout())), 1);
  expect_same_steps(outcome, one_rank, 1e-5);
  expect_same_gradients(outcome, one_rank);
}

// D02: the clip is active in every step, and the norm counts each part once.
TEST_P(Zero, AdamWStepsEqualOneRank) {
  planner::JobSpec job = training_job(std::get<0>(GetParam()));
  use_adamw(job);
  job.training.optimizer.clip_grad = 0.01;
  expect_same_steps(train(plan_of(job, strategy_of(job, layout())), 4), train(job, {}, 4), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(All, Zero,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(1, 2, 3),
                                            ::testing::ValuesIn(kShapes)),
                         [](const auto& test) {
                           ZeroLayout layout = std::get<2>(test.param);
                           layout.zero = std::get<1>(test.param);
                           return std::string(std::get<0>(test.param) ? "Gpt2_" : "Llama_") +
                                  name_of(layout);
                         });

// Parts of 1/3 and 1/6 cut through parameters, and the last ones hold padding only.
TEST(Zero, OddSizesEqualOneRank) {
  planner::JobSpec job = training_job(true);
  job.model.hidden = 20;
  job.model.heads = job.model.kv_heads = 2;
  job.model.head_dim = 10;
  job.model.ffn_hidden = 36;
  job.model.vocab = 59;
  job.model.vocab_multiple = 1;
  const Outcome one_rank = train(job, {}, 1);
  for (const int zero : {1, 2, 3}) {
    for (const Degrees degrees : {Degrees{.dp = 3}, Degrees{.pp = 2, .dp = 6}}) {
      const ZeroLayout layout{degrees, zero};
      SCOPED_TRACE(name_of(layout));
      const Outcome outcome = train(plan_of(job, strategy_of(job, layout)), 1);
      expect_same_steps(outcome, one_rank, 1e-5);
      expect_same_gradients(outcome, one_rank);
    }
  }
}

// D19: weights gathered beside the start of the next step are those gathered at the end of this.
TEST(Zero, D19_OverlappedParameterGatherChangesNoBit) {
  for (const bool is_gpt2 : {false, true}) {
    planner::JobSpec job = training_job(is_gpt2);
    use_adamw(job);
    for (const int zero : {1, 2}) {
      planner::Strategy strategy =
          strategy_of(job, ZeroLayout{{.tp = 2, .pp = 2, .vpp = 2, .dp = 2}, zero});
      const Outcome without = train(plan_of(job, strategy), 20);
      strategy.overlap.parameter_gather = true;
      expect_same_bits(train(plan_of(job, strategy), 20), without);
    }
  }
}

// The levels differ in who keeps what; norms are summed bucket by bucket, so last bits may differ.
TEST(Zero, LevelsTrainAlike) {
  planner::JobSpec job = training_job(false);
  use_adamw(job);
  job.training.global_batch = 2;
  const Outcome one = train(plan_of(job, strategy_of(job, ZeroLayout{{.dp = 2}, 1})), 3);
  for (const int zero : {2, 3}) {
    const Outcome other = train(plan_of(job, strategy_of(job, ZeroLayout{{.dp = 2}, zero})), 3);
    expect_same_steps(other, one, 1e-9);
    expect_same_gradients(other, one);
  }
}

// B15: what a rank holds doesn't grow with the number of micro-batches.
TEST(Zero, B15_MemoryIsFlatInTheNumberOfMicroBatches) {
  for (const int zero : {1, 2, 3}) {
    for (const int vpp : {1, 2}) {
      std::vector<Bytes> peaks;
      for (const std::int64_t micro_batches : {4, 8, 16, 32}) {
        planner::JobSpec job = training_job(false);
        job.training.global_batch = 2 * micro_batches;
        const ZeroLayout layout{{.pp = 4, .vpp = vpp, .dp = 2}, zero};
        Bytes peak;
        const Plan plan = plan_of(job, strategy_of(job, layout));
        for (const Program& program : plan.programs) peak = std::max(peak, arena_bytes(program));
        peaks.push_back(peak);
      }
      // Interleaved, more are in flight at first than 4 micro-batches fill.
      for (std::size_t i = 2; i < peaks.size(); ++i) EXPECT_EQ(peaks[i], peaks[1]) << zero;
    }
  }
}

}  // namespace
}  // namespace mega::testing
