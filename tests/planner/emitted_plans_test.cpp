// Plans that the planner emits are proved, and end alike in many timings without buffers (F01,
// F02): the interpreter shares nothing with the verifier.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/plan_text.h"
#include "ir/plan_verify.h"
#include "planner/cost/bounds.h"
#include "planner/cost/evaluate.h"
#include "planner/lower/emit_plan.h"
#include "planner/lower/partition.h"
#include "tests/support/plan_interpreter.h"
#include "tests/support/small_jobs.h"

namespace mega::planner {
namespace {

constexpr std::uint64_t kTimings = 6;

JobSpec tiny_job(int layers, std::int64_t global_batch) {
  JobSpec job = small_job(true);
  job.model.layers = layers;
  job.model.hidden = 8;
  job.model.heads = job.model.kv_heads = 2;
  job.model.head_dim = 4;
  job.model.ffn_hidden = 16;
  job.model.vocab = 13;
  job.model.vocab_multiple = 1;
  job.model.max_position = 4;
  job.training.sequence_length = 4;
  job.training.global_batch = global_batch;
  return job;
}

using Outcome = std::vector<std::map<std::string, testing::PlanInterpreter::Symbols>>;

std::optional<Outcome> run(const Plan& plan, std::uint64_t timing) {
  testing::PlanInterpreter interpreter(plan, timing);
  if (!interpreter.run("init") || !interpreter.run("train")) return std::nullopt;
  Outcome outcome;
  for (int rank = 0; rank < world_size(plan); ++rank) {
    outcome.push_back(interpreter.persistent(rank));
  }
  return outcome;
}

void check(Strategy strategy, std::int64_t micro_batches) {
  SCOPED_TRACE(summary(strategy) + ", " + std::to_string(micro_batches) + " micro-batches");
  Setting setting(tiny_job(strategy.pp * strategy.vpp, micro_batches * strategy.dp));
  balance_stages(setting.costs, strategy, Bytes());
  const Plan plan = emit_plan(setting.job, partition(setting.graph, strategy), strategy,
                              build_schedule(schedule_shape(setting.costs, strategy)),
                              durations(setting.costs, strategy));
  EXPECT_EQ(render(verify(plan, "plan"), {}), "");
  const std::string text = print_plan(plan);
  const Result<Plan> parsed = parse_plan("plan", text);
  ASSERT_TRUE(parsed.ok()) << render(parsed.errors(), {{"plan", text}});
  EXPECT_EQ(parsed.value(), plan);
  const auto first = run(plan, 0);
  ASSERT_TRUE(first.has_value()) << "it never ends";
  for (std::uint64_t timing = 1; timing < kTimings; ++timing) {
    EXPECT_TRUE(run(plan, timing) == first) << "timing " << timing;
  }
}

Strategy pipeline(int pp, int vpp) {
  Strategy strategy;
  strategy.pp = pp;
  strategy.vpp = vpp;
  return strategy;
}

// F02: no buffers, 2, 3, 4 and 8 stages.
TEST(EmittedPlans, PipelinesEndInEveryTiming) {
  for (const int pp : {2, 3, 4, 8}) {
    for (const std::int64_t micro_batches : {1, 2, pp, 2 * pp}) {
      check(pipeline(pp, 1), micro_batches);
    }
  }
}

// F02 and D18: every schedule with few and many micro-batches, transfers overlapped or not.
TEST(EmittedPlans, EveryScheduleEndsInEveryTiming) {
  for (const ScheduleKind kind :
       {ScheduleKind::Gpipe, ScheduleKind::ZbH1, ScheduleKind::ZbV, ScheduleKind::DualpipeV}) {
    for (const int pp : {2, 3, 4}) {
      for (const std::int64_t micro_batches : {1, 2, 2 * pp, 2 * pp + 1}) {
        if (kind == ScheduleKind::DualpipeV && micro_batches < 2 * pp) continue;
        Strategy strategy = pipeline(pp, is_folded(kind) ? 2 : 1);
        strategy.schedule = kind;
        strategy.overlap.pipeline = micro_batches % 2 == 0;
        check(strategy, micro_batches);
      }
    }
  }
}

// Gradients are reduced beside the last backwards, those of a tied tensor after both its ends.
TEST(EmittedPlans, EveryScheduleReducesInEveryTiming) {
  for (const ScheduleKind kind :
       {ScheduleKind::Gpipe, ScheduleKind::ZbH1, ScheduleKind::ZbV, ScheduleKind::DualpipeV}) {
    Strategy strategy = pipeline(2, is_folded(kind) ? 2 : 1);
    strategy.schedule = kind;
    strategy.tp = strategy.dp = 2;
    strategy.sequence_parallel = true;
    strategy.overlap.gradient_reduce = strategy.overlap.pipeline = true;
    check(strategy, 5);
  }
}

// F01: 4 stages of two chunks each, 8 micro-batches, transfers overlapped.
TEST(EmittedPlans, InterleavedPipelinesEndInEveryTiming) {
  for (const bool overlaps : {false, true}) {
    Strategy strategy = pipeline(4, 2);
    strategy.overlap.pipeline = overlaps;
    check(strategy, 8);
    strategy = pipeline(3, 2);
    strategy.overlap.pipeline = overlaps;
    check(strategy, 5);
  }
}

// F04: gradients reduced on a queue of their own beside tensor parallelism's collectives.
TEST(EmittedPlans, OverlappedReductionsEndInEveryTiming) {
  for (const bool sequence_parallel : {false, true}) {
    for (const int vpp : {1, 2}) {
      Strategy strategy = pipeline(2, vpp);
      strategy.tp = 2;
      strategy.dp = 2;
      strategy.sequence_parallel = sequence_parallel;
      strategy.overlap.gradient_reduce = strategy.overlap.pipeline = true;
      check(strategy, 4);
    }
  }
}

// D19: parts reduced, updated and gathered, on one queue or on three.
TEST(EmittedPlans, CutBucketsEndInEveryTiming) {
  for (const int zero : {1, 2, 3}) {
    for (const bool overlaps : {false, true}) {
      Strategy strategy = pipeline(2, 2);
      strategy.dp = 4;
      strategy.zero = zero;
      strategy.zero_group = overlaps ? 2 : 4;
      strategy.overlap.gradient_reduce = strategy.overlap.pipeline = overlaps;
      strategy.overlap.parameter_gather = overlaps && zero < 3;
      check(strategy, 3);
    }
  }
}

}  // namespace
}  // namespace mega::planner
