// Where ranks sit changes nothing that they compute.
#include <gtest/gtest.h>

#include "tests/support/training.h"

namespace mega::testing {
namespace {

TEST(RankOrderEquality, AnyOrderEqualsOneRank) {
  const planner::JobSpec job = training_job(false);
  const Outcome one_rank = train(job, {}, 1);
  for (const char* order : {"tp-cp-ep-pp-dp", "dp-tp-cp-ep-pp", "pp-dp-cp-ep-tp"}) {
    SCOPED_TRACE(order);
    planner::Strategy strategy = strategy_of(job, {.tp = 2, .pp = 2, .vpp = 2, .dp = 2});
    strategy.cp = 2;
    strategy.rank_order = order;
    ASSERT_TRUE(planner::is_legal(job, strategy));
    const Outcome outcome = train(plan_of(job, strategy), 1);
    expect_same_steps(outcome, one_rank, 1e-5);
    expect_same_gradients(outcome, one_rank);
  }
}

}  // namespace
}  // namespace mega::testing
