// Every pipeline schedule computes what one rank computes, however many micro-batches there are and
// wherever the layers lie.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <tuple>

#include "tests/support/training.h"

namespace mega::testing {
namespace {

using planner::Strategy;

// `layers` over `stages`, some of them none where there are fewer.
std::vector<int> spread(int layers, int stages) {
  std::vector<int> counts;
  for (int s = 0; s < stages; ++s) {
    counts.push_back((s + 1) * layers / stages - s * layers / stages);
  }
  return counts;
}

Strategy scheduled(const planner::JobSpec& job, ScheduleKind kind, Degrees degrees) {
  degrees.vpp = is_folded(kind) ? 2 : 1;
  Strategy strategy;
  strategy.tp = degrees.tp;
  strategy.pp = degrees.pp;
  strategy.vpp = degrees.vpp;
  strategy.dp = degrees.dp;
  strategy.sequence_parallel = degrees.sequence_parallel;
  strategy.schedule = kind;
  strategy.overlap.gradient_reduce = strategy.overlap.pipeline = true;
  strategy.stages = spread(job.model.layers, degrees.pp * degrees.vpp);
  return planner::normalised(strategy);
}

class Schedules : public ::testing::TestWithParam<ScheduleKind> {};

// F02 with every schedule: 2, 3, 4 and 8 ranks, from one micro-batch to more than two a rank, odd
// numbers among them. 8 ranks of two chunks share 8 layers: half of the stages are empty.
TEST_P(Schedules, F02_AnyNumberOfMicroBatchesEqualsOneRank) {
  planner::JobSpec job = training_job(true);
  std::map<std::int64_t, Outcome> one_rank;
  for (const int pp : {2, 3, 4, 8}) {
    for (const std::int64_t m : {1, 2, pp, 2 * pp - 1, 2 * pp, 2 * pp + 1}) {
      if (GetParam() == ScheduleKind::DualpipeV && m < 2 * pp) continue;
      SCOPED_TRACE("pp " + std::to_string(pp) + ", " + std::to_string(m) + " micro-batches");
      job.training.global_batch = m;
      if (!one_rank.contains(m)) one_rank[m] = train(job, {}, 1);
      const Strategy strategy = scheduled(job, GetParam(), {.pp = pp});
      const Outcome outcome = train(plan_of(job, strategy), 1);
      expect_same_steps(outcome, one_rank[m], 1e-5);
      expect_same_gradients(outcome, one_rank[m]);
    }
  }
}

// D01 and D04 with every schedule: tied copies stay one, the norm that clips is the model's.
TEST_P(Schedules, D01_D04_TwentyClippedStepsEqualOneRank) {
  planner::JobSpec job = training_job(true);
  use_adamw(job);
  job.training.optimizer.clip_grad = 0.01;
  const Outcome one_rank = train(job, {}, 20);
  for (const Degrees degrees :
       {Degrees{.pp = 2}, Degrees{.pp = 4}, Degrees{.tp = 2, .pp = 2, .dp = 2},
        Degrees{.tp = 2, .pp = 2, .sequence_parallel = true}}) {
    SCOPED_TRACE(name_of(degrees));
    const Plan plan = plan_of(job, scheduled(job, GetParam(), degrees));
    expect_same_steps(train(plan, 20), one_rank, 1e-4);
  }
}

TEST_P(Schedules, TensorAndDataParallelStagesEqualOneRank) {
  for (const bool is_gpt2 : {false, true}) {
    const planner::JobSpec job = training_job(is_gpt2);
    const Outcome one_rank = train(job, {}, 1);
    for (const Degrees degrees :
         {Degrees{.tp = 4, .pp = 2}, Degrees{.tp = 2, .pp = 3, .sequence_parallel = true},
          Degrees{.tp = 2, .pp = 2, .dp = 3, .sequence_parallel = true}}) {
      SCOPED_TRACE(name_of(degrees));
      const Outcome outcome = train(plan_of(job, scheduled(job, GetParam(), degrees)), 1);
      expect_same_steps(outcome, one_rank, 1e-5);
      expect_same_gradients(outcome, one_rank);
    }
  }
}

// D18: memory that is free holds poison, and nobody reads it. F01: delays change no bit.
TEST_P(Schedules, F01_D18_DelaysAndPoisonChangeNoBit) {
  const planner::JobSpec job = training_job(true);
  const Plan plan = plan_of(job, scheduled(job, GetParam(), {.pp = 4}));
  const Outcome plain = train(plan, 2);
  runtime::SessionOptions options;
  options.check = true;
  expect_same_bits(train(plan, 2, options), plain);
  options.check = false;
  options.delay_seed = 3;
  options.deadline = std::chrono::seconds(60);
  expect_same_bits(train(plan, 2, options), plain);
}

// Overlap decides when, never what.
TEST_P(Schedules, OverlapChangesNoBit) {
  const planner::JobSpec job = training_job(false);
  Strategy strategy = scheduled(job, GetParam(), {.pp = 3, .dp = 2});
  const Outcome overlapped = train(plan_of(job, strategy), 2);
  strategy.overlap = {};
  expect_same_bits(train(plan_of(job, strategy), 2), overlapped);
}

INSTANTIATE_TEST_SUITE_P(All, Schedules,
                         ::testing::Values(ScheduleKind::OneFOneB, ScheduleKind::Gpipe,
                                           ScheduleKind::ZbH1, ScheduleKind::ZbV,
                                           ScheduleKind::DualpipeV),
                         [](const auto& test) {
                           const std::string name = planner::to_string(test.param);
                           return name == "1f1b" ? std::string("one_f_one_b") : name;
                         });

// B15 with every schedule but GPipe, which keeps all micro-batches: memory is flat.
TEST(Schedules, B15_PeakIsFlatInMicroBatches) {
  for (const ScheduleKind kind : {ScheduleKind::ZbH1, ScheduleKind::ZbV, ScheduleKind::DualpipeV}) {
    Bytes first;
    for (const std::int64_t micro_batches : {8, 16, 32}) {
      planner::JobSpec job = training_job(false);
      job.training.global_batch = micro_batches;
      const Plan plan = plan_of(job, scheduled(job, kind, {.pp = 4}));
      const Bytes arena = arena_bytes(plan.programs[0]);
      if (first == Bytes()) first = arena;
      EXPECT_EQ(arena, first) << planner::to_string(kind) << " " << micro_batches;
    }
  }
}

// A V has both ends on its first rank: one copy of a tied tensor, nothing to sum (D01).
TEST(Schedules, D01_BothEndsOfAVAreOneCopy) {
  const planner::JobSpec job = training_job(true);
  const Plan plan = plan_of(job, scheduled(job, ScheduleKind::ZbV, {.pp = 2}));
  int copies = 0;
  for (const Program& program : plan.programs) {
    for (const Segment& segment : program.segments) EXPECT_NE(segment.name, "tied");
    for (const Buffer& buffer : program.buffers) copies += buffer.name == "wte.weight" ? 1 : 0;
  }
  EXPECT_EQ(copies, 1);
}

// Stages without layers pass the stream on; embedding and head may stand alone (H06, H07).
TEST(Schedules, EmptyStagesEqualOneRank) {
  planner::JobSpec job = training_job(true);
  job.model.layers = 3;
  const Outcome one_rank = train(job, {}, 1);
  Strategy strategy = strategy_of(job, {.pp = 2});
  strategy.pp = 4;
  for (const auto& [vpp, stages] : {std::pair{1, std::vector<int>{0, 3, 0, 0}},
                                    {1, {0, 0, 3, 0}},
                                    {1, {1, 0, 0, 2}},
                                    {2, {0, 0, 1, 0, 0, 2, 0, 0}}}) {
    strategy.vpp = vpp;
    strategy.stages = stages;
    for (const bool overlaps : {false, true}) {
      SCOPED_TRACE(::testing::PrintToString(stages));
      strategy.overlap.pipeline = overlaps;
      const Outcome outcome = train(plan_of(job, strategy), 1);
      expect_same_steps(outcome, one_rank, 1e-5);
      expect_same_gradients(outcome, one_rank);
    }
  }
}

// D22: every rank's part of the loss is summed, so that any rank can say it.
TEST(Schedules, D22_TheLossIsThatOfOneRankWhereverTheHeadIs) {
  const planner::JobSpec job = training_job(false);
  const Outcome one_rank = train(job, {}, 2);
  for (const ScheduleKind kind : {ScheduleKind::OneFOneB, ScheduleKind::ZbV}) {
    expect_same_steps(train(plan_of(job, scheduled(job, kind, {.pp = 2})), 2), one_rank, 1e-5);
  }
}

// The text of a plan grows with the steps of the schedule, not with the micro-batches.
TEST(Schedules, PlansStayShortInTheSteadyState) {
  for (const ScheduleKind kind :
       {ScheduleKind::Gpipe, ScheduleKind::ZbH1, ScheduleKind::ZbV, ScheduleKind::DualpipeV}) {
    planner::JobSpec job = training_job(false);
    const auto text_of = [&](std::int64_t micro_batches) {
      job.training.global_batch = micro_batches;
      return print_plan(plan_of(job, scheduled(job, kind, {.pp = 4}))).size();
    };
    EXPECT_LT(text_of(256), text_of(64) * 101 / 100) << planner::to_string(kind);
  }
}

}  // namespace
}  // namespace mega::testing
