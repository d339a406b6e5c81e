#include "planner/search/space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "planner/rules.h"
#include "tests/planner/search_jobs.h"

namespace mega::planner {
namespace {

std::vector<Strategy> combinations(const JobSpec& job) {
  const Result<Choices> choices = choices_of(job);
  EXPECT_TRUE(choices.ok());
  std::vector<Strategy> all;
  for_each_combination(job, choices.value(), [&](const Strategy& s) { all.push_back(s); });
  return all;
}

std::vector<Strategy> legal_combinations(const JobSpec& job) {
  std::vector<Strategy> all = combinations(job);
  all.erase(
      std::remove_if(all.begin(), all.end(), [&](const Strategy& s) { return !is_legal(job, s); }),
      all.end());
  return all;
}

TEST(Space, HoldsEveryLegalStrategyOnceInCanonicalOrder) {
  for (const test::Sizes& sizes :
       {test::Sizes{}, test::Sizes{.layers = 7, .heads = 6, .kv_heads = 2, .batch = 12, .gpus = 12},
        test::Sizes{.layers = 3, .heads = 8, .kv_heads = 8, .sequence = 6, .batch = 5, .gpus = 8},
        test::Sizes{.layers = 12, .heads = 1, .kv_heads = 1, .batch = 6, .gpus = 6},
        test::Sizes{.gpus = 1}}) {
    const JobSpec job = test::job_of(sizes);
    std::vector<Strategy> expected = test::all_legal(job);
    std::sort(expected.begin(), expected.end());
    ASSERT_FALSE(expected.empty());
    EXPECT_EQ(legal_combinations(job), expected) << sizes.gpus << " GPUs";
  }
}

TEST(Space, VisitsIllegalCombinationsOnceAndInOrderToo) {
  const std::vector<Strategy> all = combinations(test::job_of({.layers = 3, .gpus = 12}));
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST(Space, AFixedFieldHasOneValue) {
  JobSpec job = test::job_of({.gpus = 4});
  job.layout.tp = 2;
  job.layout.sequence_parallel = true;
  job.layout.overlap = std::vector<std::string>{};
  const std::vector<Strategy> all = legal_combinations(job);
  ASSERT_FALSE(all.empty());
  for (const Strategy& s : all) {
    EXPECT_EQ(s.tp, 2);
    EXPECT_TRUE(s.sequence_parallel);
    EXPECT_EQ(s.overlap, Overlap{});
  }
}

// Sequence parallelism at tp 1 and overlap without a partner mean nothing: not a reason to leave
// the layout out.
TEST(Space, AFixedFlagWithoutEffectLeavesTheLayoutIn) {
  JobSpec job = test::job_of({.gpus = 4});
  job.layout.sequence_parallel = true;
  job.layout.overlap = std::vector<std::string>{"gradient_reduce", "pipeline"};
  const std::vector<Strategy> all = legal_combinations(job);
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const Strategy& s) { return s.tp == 1; }));
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const Strategy& s) { return s.dp == 1; }));
}

TEST(Space, AllowRestrictsAField) {
  JobSpec job = test::job_of({.gpus = 4});
  job.search.allow["tp"] = {"4", "1"};
  job.search.allow["overlap"] = {"none", "gradient_reduce+pipeline"};
  std::set<int> tps;
  for (const Strategy& s : legal_combinations(job)) tps.insert(s.tp);
  EXPECT_EQ(tps, (std::set<int>{1, 4}));
  for (const Strategy& s : legal_combinations(job)) {
    if (s.dp > 1 && s.pp > 1) {
      EXPECT_EQ(s.overlap.gradient_reduce, s.overlap.pipeline);
    }
  }
}

TEST(Space, AllowWithAWordThatNamesNothingIsAnError) {
  JobSpec job = test::job_of({});
  job.search.allow["schedule"] = {"1f2b"};
  job.search.allow["tp"] = {"0"};
  const Result<Choices> choices = choices_of(job);
  ASSERT_FALSE(choices.ok());
  ASSERT_EQ(choices.errors().size(), 2U);
  EXPECT_EQ(choices.errors()[0].message, "'0' is no value of search.allow.tp");
}

TEST(Space, TheUsersCutIsInEveryStrategy) {
  JobSpec job = test::job_of({.layers = 5, .gpus = 2});
  job.layout.stages = {2, 3};
  const std::vector<Strategy> all = legal_combinations(job);
  ASSERT_FALSE(all.empty());
  for (const Strategy& s : all) EXPECT_EQ(s.stages, (std::vector<int>{2, 3}));
}

}  // namespace
}  // namespace mega::planner
