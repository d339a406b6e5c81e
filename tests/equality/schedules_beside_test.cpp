// Every pipeline schedule beside what else a layout may have (recomputation, a sequence in parts,
// experts, sharded state) computes what one rank computes.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>

#include "tests/support/training.h"

namespace mega::testing {
namespace {

using planner::ContextKind;
using planner::Strategy;

struct Schedule {
  ScheduleKind kind = ScheduleKind::OneFOneB;
  int vpp = 1;
};
constexpr Schedule kSchedules[] = {{ScheduleKind::OneFOneB, 2},
                                   {ScheduleKind::Gpipe, 1},
                                   {ScheduleKind::ZbH1, 1},
                                   {ScheduleKind::ZbV, 2},
                                   {ScheduleKind::DualpipeV, 2}};

std::string name_of(const Schedule& schedule) {
  const std::string name = planner::to_string(schedule.kind);
  return name == "1f1b" ? "interleaved" : name;
}

// All that can be overlapped is; `change` says what stands beside the schedule.
Strategy scheduled(const planner::JobSpec& job, const Schedule& schedule, int pp,
                   const std::function<void(Strategy&)>& change) {
  Strategy strategy;
  strategy.schedule = schedule.kind;
  strategy.pp = pp;
  strategy.vpp = schedule.vpp;
  strategy.overlap.gradient_reduce = strategy.overlap.pipeline = true;
  strategy.overlap.parameter_gather = true;
  change(strategy);
  strategy.stages = planner::even_cut(job.model.layers, pp * schedule.vpp);
  strategy = planner::normalised(strategy);
  for (const planner::RuleResult& rule : planner::check_rules(job, strategy)) {
    EXPECT_TRUE(rule.ok) << rule.message;
  }
  return strategy;
}

void expect_one_rank(const planner::JobSpec& job, const Strategy& strategy,
                     const Outcome& one_rank) {
  SCOPED_TRACE(planner::summary(strategy));
  const Outcome outcome = train(plan_of(job, strategy), 1);
  expect_same_steps(outcome, one_rank, 1e-5);
  expect_same_gradients(outcome, one_rank);
}

class SchedulesBeside : public ::testing::TestWithParam<Schedule> {};

// D16: what is computed again has the same bits, whichever pass of a split backward asks for it.
TEST_P(SchedulesBeside, D16_RecomputationChangesNoBit) {
  for (const bool is_gpt2 : {true, false}) {
    const planner::JobSpec job = training_job(is_gpt2);
    for (const int pp : {3, 4}) {
      const auto outcome = [&](const char* recompute) {
        const Strategy strategy = scheduled(job, GetParam(), pp, [&](Strategy& s) {
          s.recompute = *planner::recompute_named(recompute);
        });
        return train(plan_of(job, strategy), 2);
      };
      const Outcome kept = outcome("none");
      for (const char* text : {"selective:activation+norms", "selective:mlp", "full"}) {
        SCOPED_TRACE(std::string(text) + ", pp " + std::to_string(pp));
        expect_same_bits(outcome(text), kept);
      }
    }
  }
}

// D05 with sequences in parts.
TEST_P(SchedulesBeside, D05_ASequenceInPartsEqualsOneRank) {
  planner::JobSpec job = training_job(true);
  const Outcome one_rank = train(job, {}, 1);
  for (const ContextKind kind : {ContextKind::Ring, ContextKind::AllGather, ContextKind::Ulysses}) {
    for (const int pp : {3, 4}) {
      expect_one_rank(job,
                      scheduled(job, GetParam(), pp,
                                [&](Strategy& s) {
                                  s.cp = 2;
                                  s.context = kind;
                                }),
                      one_rank);
    }
    expect_one_rank(job,
                    scheduled(job, GetParam(), 3,
                              [&](Strategy& s) {
                                s.cp = s.tp = 2;
                                s.context = kind;
                                s.sequence_parallel = true;
                              }),
                    one_rank);
  }
}

// D19: sharded state, its gathers beside forward. Where backward is whole, gradients and weights
// are sharded, too.
TEST_P(SchedulesBeside, D19_ShardedStateEqualsOneRank) {
  for (const bool is_gpt2 : {true, false}) {
    planner::JobSpec job = training_job(is_gpt2);
    job.training.global_batch = 16;
    use_adamw(job);
    job.training.optimizer.clip_grad = 0.01;
    const Outcome one_rank = train(job, {}, 3);
    for (const int zero : {1, 2, 3}) {
      if (zero > 1 && splits_backward(GetParam().kind)) continue;
      for (const int pp : {3, 4}) {
        const Strategy strategy = scheduled(job, GetParam(), pp, [&](Strategy& s) {
          s.zero = zero;
          s.dp = s.zero_group = 2;
        });
        SCOPED_TRACE(planner::summary(strategy));
        expect_same_steps(train(plan_of(job, strategy), 3), one_rank, 1e-4);
      }
    }
  }
}

planner::JobSpec experts_job() {
  planner::JobSpec job = training_job(false);
  job.model.family = "mixtral";
  planner::MoeSpec moe;
  moe.experts = 8;
  moe.top_k = 2;
  moe.ffn_hidden = 24;
  moe.router.aux_coefficient = 0.02;
  moe.router.z_coefficient = 0.01;
  moe.first_dense_layers = 1;
  job.model.moe = moe;
  return job;
}

// D08, D09, D10, D22: norms, gradients and auxiliary losses of experts on every stage.
TEST_P(SchedulesBeside, D08_D09_D10_D22_ExpertsEqualOneRank) {
  const planner::JobSpec job = experts_job();
  const Outcome one_rank = train(job, {}, 1);
  for (const int pp : {3, 4}) {
    if (pp == 4 && GetParam().kind == ScheduleKind::DualpipeV) continue;  // 6 micro-batches
    expect_one_rank(job, scheduled(job, GetParam(), pp, [](Strategy& s) { s.dp = s.ep = 2; }),
                    one_rank);
  }
  expect_one_rank(job,
                  scheduled(job, GetParam(), 3,
                            [](Strategy& s) {
                              s.dp = s.ep = s.zero_group = 2;
                              s.zero = 1;
                              s.recompute = *planner::recompute_named("full");
                            }),
                  one_rank);
  expect_one_rank(job,
                  scheduled(job, GetParam(), 3,
                            [](Strategy& s) {
                              s.tp = s.ep = 2;
                              s.sequence_parallel = true;
                            }),
                  one_rank);
}

// Everything at once, with few micro-batches.
TEST_P(SchedulesBeside, AllAtOnceEqualsOneRank) {
  planner::JobSpec job = experts_job();
  job.training.global_batch = GetParam().kind == ScheduleKind::DualpipeV ? 12 : 6;
  const Outcome one_rank = train(job, {}, 1);
  expect_one_rank(job,
                  scheduled(job, GetParam(), 3,
                            [](Strategy& s) {
                              s.tp = s.cp = s.dp = s.ep = 2;
                              s.sequence_parallel = true;
                              s.zero = 1;
                              s.zero_group = 4;
                              s.recompute =
                                  *planner::recompute_named("selective:activation+moe_activation");
                            }),
                  one_rank);
}

INSTANTIATE_TEST_SUITE_P(All, SchedulesBeside, ::testing::ValuesIn(kSchedules),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace mega::testing
