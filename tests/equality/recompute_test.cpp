// Recomputed activations have the bits of kept ones.
#include <gtest/gtest.h>

#include "tests/support/training.h"

namespace mega::testing {
namespace {

planner::Recompute named(const std::string& text) {
  return planner::recompute_named(text).value();
}

Outcome train_with(const planner::JobSpec& job, Degrees degrees,
                   const planner::Recompute& recompute, int steps) {
  planner::Strategy strategy = strategy_of(job, degrees);
  strategy.recompute = recompute;
  return train(plan_of(job, planner::normalised(strategy)), steps);
}

// D16: none, selective and full agree to the bit, also where 1F1B recomputes out of order.
TEST(RecomputeEquality, D16_HasTheBitsOfNone) {
  for (const bool is_gpt2 : {true, false}) {
    const planner::JobSpec job = training_job(is_gpt2);
    for (const Degrees degrees : {Degrees{}, Degrees{.tp = 2, .sequence_parallel = true},
                                  Degrees{.tp = 2, .pp = 2, .dp = 2}, Degrees{.pp = 3, .vpp = 2}}) {
      const Outcome kept = train_with(job, degrees, {}, 2);
      for (const char* text : {"selective:norms", "selective:activation+norms",
                               "selective:activation+mlp+norms", "full"}) {
        SCOPED_TRACE(name_of(degrees) + " " + text);
        expect_same_bits(train_with(job, degrees, named(text), 2), kept);
      }
    }
  }
}

}  // namespace
}  // namespace mega::testing
