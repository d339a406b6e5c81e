// A short seeded sample of what tools/dev/mutate-plans looks at.
#include "tests/equality/mutated_plans.h"

#include <gtest/gtest.h>

namespace mega::testing {
namespace {

// Mutants of this sample that verify() accepts though they compute something else, hang or crash.
// It can only fall.
constexpr int kKnownSurvivors = 316;

TEST(MutatedPlans, NoMoreSurviveThanWeKnowOf) {
  int refused = 0, survivors = 0;
  std::string names;
  for (const MutatedPlan& mutated : mutated_plans()) {
    const auto counts =
        mutate(mutated, 4, 1, [&](const std::string& name) { names += name + "\n"; });
    for (const auto& [kind, of_kind] : counts) {
      refused += of_kind.refused;
      survivors += of_kind.survivors;
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_LE(survivors, kKnownSurvivors) << names;
}

}  // namespace
}  // namespace mega::testing
