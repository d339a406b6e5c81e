// What is promised is what the plan holds: evaluate() equals the simulated, laid-out plan.
#include <gtest/gtest.h>

#include <random>

#include "ir/plan_verify.h"
#include "planner/compile.h"
#include "planner/cost/bounds.h"
#include "planner/cost/evaluate.h"
#include "planner/lower/emit_plan.h"
#include "planner/lower/partition.h"
#include "planner/rules.h"
#include "tests/support/small_jobs.h"

namespace mega::planner {
namespace {

Plan lower(Setting& setting, const Strategy& strategy) {
  return emit_plan(setting.job, partition(setting.graph, strategy), strategy,
                   build_schedule(schedule_shape(setting.costs, strategy)),
                   durations(setting.costs, strategy));
}

TEST(CostLaws, EvaluateEqualsThePlan) {
  std::mt19937 random(3);
  for_each_strategy([&](Setting& setting, Strategy strategy) {
    if (random() % 4 != 0) return;  // lowering all of them takes a while
    strategy.stages = random_cut(random, setting.graph.layers, strategy.pp * strategy.vpp);
    const Plan plan = lower(setting, strategy);
    const Evaluation e = evaluate(setting.costs, strategy);
    EXPECT_EQ(simulate(plan).step_ns, e.step_ns);
    ASSERT_EQ(plan.programs.size(), e.memory.size());
    for (std::size_t r = 0; r < e.memory.size(); ++r) {
      EXPECT_EQ(arena_bytes(plan.programs[r]), e.memory[r].total) << "stage " << r;
    }
  });
}

// What a sequence in parts and recomputation add to blocks.
TEST(CostLaws, EvaluateEqualsThePlanWithPartsAndRecomputation) {
  for (const bool is_tied : {true, false}) {
    Setting setting(small_job(is_tied));
    for (const ContextKind kind :
         {ContextKind::Ring, ContextKind::AllGather, ContextKind::Ulysses}) {
      for (const char* text : {"none", "selective:activation+mlp+norms", "full"}) {
        SCOPED_TRACE(to_string(kind) + " " + text);
        Strategy strategy;
        strategy.cp = strategy.pp = strategy.dp = 2;
        strategy.context = kind;
        strategy.recompute = *recompute_named(text);
        strategy.zero = 1;
        strategy.zero_group = 4;
        strategy = normalised(strategy);
        balance_stages(setting.costs, strategy, Bytes());
        const Plan plan = lower(setting, strategy);
        const Evaluation e = evaluate(setting.costs, strategy);
        EXPECT_EQ(render(verify(plan, "plan"), {}), "");
        EXPECT_EQ(simulate(plan).step_ns, e.step_ns);
        for (std::size_t r = 0; r < e.memory.size(); ++r) {
          EXPECT_EQ(arena_bytes(plan.programs[r]), e.memory[r].total) << "stage " << r;
        }
        EXPECT_GT(e.time.exposed_cp_ns, 0);
        EXPECT_EQ(e.time.recompute_ns > 0, strategy.recompute.kind != Recompute::Kind::None);
        const Bounds bounds = lower_bounds(setting.costs, strategy);
        EXPECT_LE(bounds.step_ns, e.step_ns);
        EXPECT_LE(bounds.peak, peak(e));
      }
    }
  }
}

// Ranks without a layer, or with nothing at all.
TEST(CostLaws, EvaluateEqualsThePlanOfEmptyStages) {
  JobSpec job = small_job(true);
  for (const ScheduleKind kind : {ScheduleKind::OneFOneB, ScheduleKind::Gpipe, ScheduleKind::ZbH1,
                                  ScheduleKind::ZbV, ScheduleKind::DualpipeV}) {
    for (const std::vector<int>& stages :
         {std::vector<int>{0, 13, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 6, 0, 7, 0, 0}}) {
      Strategy strategy;
      strategy.schedule = kind;
      strategy.vpp = is_folded(kind) ? 2 : 1;
      strategy.pp = 8 / strategy.vpp;
      strategy.overlap.pipeline = true;
      strategy.stages = stages;
      SCOPED_TRACE(summary(strategy));
      job.layout.stages = stages;
      Setting setting(job);
      const Plan plan = lower(setting, strategy);
      EXPECT_EQ(render(verify(plan, "plan"), {}), "");
      const Evaluation e = evaluate(setting.costs, strategy);
      EXPECT_EQ(simulate(plan).step_ns, e.step_ns);
      for (std::size_t r = 0; r < e.memory.size(); ++r) {
        EXPECT_EQ(arena_bytes(plan.programs[r]), e.memory[r].total) << "stage " << r;
      }
      EXPECT_LE(lower_bounds(setting.costs, strategy).step_ns, e.step_ns);
      EXPECT_LE(lower_bounds(setting.costs, strategy).peak, peak(e));
    }
  }
}

TEST(CostLaws, ThePlanSpendsItsTimeAsEvaluateSays) {
  Setting setting(small_job(true));
  Strategy strategy;
  strategy.pp = 4;
  strategy.dp = 2;
  strategy.overlap.gradient_reduce = strategy.overlap.pipeline = true;
  balance_stages(setting.costs, strategy, Bytes());
  const Timeline from_plan = simulate(lower(setting, strategy));
  const Timeline from_schedule = simulate(build_schedule(schedule_shape(setting.costs, strategy)),
                                          durations(setting.costs, strategy));
  EXPECT_EQ(from_plan, from_schedule);
  EXPECT_GT(from_plan.ranks[1].exposed_pp_ns, 0);
}

TEST(CostLaws, ACompiledPlanSaysHowLongItTakes) {
  JobSpec job = small_job(true);
  job.cluster->nodes = 3;
  job.cluster->gpus = 12;
  job.cluster->nodes = 3;
  job.cluster->gpus = 12;
  job.layout.tp = job.layout.pp = 2;
  job.layout.vpp = 2;
  job.layout.dp = 3;
  job.layout.micro_batch = 1;
  Planner planner(job);
  const Result<Strategy> strategy = planner.layout();
  ASSERT_TRUE(strategy.ok()) << strategy.errors().front().message;
  const Plan plan = planner.compile(strategy.value());
  EXPECT_GT(plan.header.predicted_step_ns, 0);
  EXPECT_EQ(simulate(plan).step_ns, plan.header.predicted_step_ns);
}

TEST(CostLaws, PlansVerify) {
  for (const bool is_tied : {false, true}) {
    Setting setting(small_job(is_tied));
    for (const int vpp : {1, 2}) {
      Strategy strategy;
      strategy.tp = 2;
      strategy.pp = 3;
      strategy.vpp = vpp;
      strategy.dp = 2;
      strategy.overlap.gradient_reduce = strategy.overlap.pipeline = vpp == 2;
      balance_stages(setting.costs, strategy, Bytes());
      for (const Diagnostic& error : verify(lower(setting, strategy), "plan")) {
        ADD_FAILURE() << error.message;
      }
    }
  }
}

}  // namespace
}  // namespace mega::planner
