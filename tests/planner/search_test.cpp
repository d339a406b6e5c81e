#include "planner/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "ir/base/text.h"
#include "tests/planner/search_jobs.h"

namespace mega::planner {
namespace {

// A made-up cost: any function will do, as long as bounds stay below. Few distinct times, so that
// ties are common.
class MadeUpCost {
 public:
  MadeUpCost(std::uint64_t seed, Bytes limit, bool by_memory) : seed_(seed) {
    callbacks.limit = limit;
    callbacks.by_memory = by_memory;
    callbacks.balance = [this](Strategy& s) {
      s.stages = {static_cast<int>(number(s, "cut", 100))};
      return number(s, "fits", 10) != 0;
    };
    callbacks.bounds = [this](const Strategy& s) {
      EXPECT_TRUE(s.stages.empty());
      return Bounds{time(s) - number(s, "slack", 15), memory(s) - Bytes(number(s, "memory", 20))};
    };
    callbacks.evaluate = [this](const Strategy& s) {
      EXPECT_FALSE(s.stages.empty());
      ++evaluations;
      return evaluate(s);
    };
  }

  Evaluation evaluate(const Strategy& strategy) const {
    Evaluation evaluation;
    evaluation.step_ns = time(strategy);
    evaluation.memory = {StageMemory{}};
    evaluation.memory[0].total = memory(strategy);
    return evaluation;
  }

  SearchCallbacks callbacks;
  std::int64_t evaluations = 0;

 private:
  std::int64_t number(const Strategy& s, const std::string& what, std::uint64_t below) const {
    return static_cast<std::int64_t>(fnv1a(summary(s) + what, seed_) % below);
  }
  std::int64_t time(const Strategy& s) const {
    return 100 + 10 * s.pp + s.micro_batch + number(s, "t", 30);
  }
  Bytes memory(const Strategy& s) const { return Bytes(100 + number(s, "m", 900)); }

  std::uint64_t seed_;
};

using Degrees = std::tuple<int, int, int, int, int, int, int>;
Degrees degrees(const Strategy& s) {
  return {s.tp, s.pp, s.vpp, s.dp, s.ep, s.etp, s.micro_batch};
}

struct Expected {
  std::int64_t step_ns;
  Bytes peak;
  Strategy strategy;  // without cut
  bool operator==(const Expected&) const = default;
};

std::vector<Expected> brute_force(const JobSpec& job, MadeUpCost& cost, int top) {
  std::vector<Expected> fitting;
  for (const Strategy& strategy : test::all_legal(job)) {
    Strategy cut = strategy;
    if (!cost.callbacks.balance(cut)) continue;
    const Evaluation evaluation = cost.evaluate(strategy);
    const Bytes limit = cost.callbacks.limit;
    if (limit > Bytes(0) && peak(evaluation) > limit) continue;
    fitting.push_back({evaluation.step_ns, peak(evaluation), strategy});
  }
  std::sort(fitting.begin(), fitting.end(), [&](const Expected& a, const Expected& b) {
    if (cost.callbacks.by_memory)
      return std::tie(a.peak, a.step_ns, a.strategy) < std::tie(b.peak, b.step_ns, b.strategy);
    return std::tie(a.step_ns, a.strategy) < std::tie(b.step_ns, b.strategy);
  });
  std::vector<Expected> best;
  std::set<Degrees> seen;
  for (const Expected& each : fitting)
    if (static_cast<int>(best.size()) < top && seen.insert(degrees(each.strategy)).second)
      best.push_back(each);
  return best;
}

std::vector<Expected> found(const SearchResult& result) {
  std::vector<Expected> all;
  for (const Found& each : result.top) {
    Strategy strategy = each.strategy;
    EXPECT_FALSE(strategy.stages.empty());
    strategy.stages.clear();
    all.push_back({each.evaluation.step_ns, peak(each.evaluation), strategy});
  }
  return all;
}

test::Sizes random_sizes(std::mt19937& random) {
  const auto pick = [&](std::vector<int> values) { return values[random() % values.size()]; };
  test::Sizes sizes;
  sizes.layers = pick({1, 2, 3, 4, 6, 7});
  sizes.heads = pick({1, 2, 4, 6, 8});
  sizes.kv_heads = sizes.heads % 2 == 0 ? pick({sizes.heads, sizes.heads / 2}) : sizes.heads;
  sizes.sequence = pick({6, 16});
  sizes.batch = pick({1, 4, 6, 12});
  sizes.gpus = pick({1, 2, 3, 4, 6, 8, 12});
  sizes.experts = pick({0, 0, 4, 6});
  return sizes;
}

TEST(Search, EqualsBruteForceOnRandomSpaces) {
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const JobSpec job = test::job_of(random_sizes(random));
    const bool by_memory = random() % 3 == 0;
    const Bytes limit(static_cast<std::int64_t>(random() % 4) * 300);
    MadeUpCost cost(seed, limit, by_memory);
    const int top = 1 + static_cast<int>(random() % 6);
    const SearchResult result = search(job, cost.callbacks, {.top = top});
    const auto legal = static_cast<std::int64_t>(test::all_legal(job).size());
    EXPECT_EQ(result.counts.space, legal);
    EXPECT_EQ(result.counts.space,
              result.counts.over_memory + result.counts.bounded + result.counts.evaluated);
    if (legal == 0) {
      EXPECT_FALSE(result.infeasible.empty() && result.errors.empty());
      continue;
    }
    EXPECT_EQ(found(result), brute_force(job, cost, top));
    EXPECT_EQ(result.top.empty(), !result.infeasible.empty());
    EXPECT_TRUE(result.counts.proven_optimal);
    EXPECT_EQ(result.counts.gap, 0);
  }
}

TEST(Search, BoundsSaveMostEvaluations) {
  const JobSpec job =
      test::job_of({.layers = 12, .heads = 8, .kv_heads = 8, .batch = 64, .gpus = 16});
  MadeUpCost cost(7, Bytes(0), false);
  const SearchResult result = search(job, cost.callbacks, {.top = 1});
  EXPECT_GT(result.counts.space, 500);
  EXPECT_LT(cost.evaluations, result.counts.space / 10);
}

TEST(Search, ABudgetStopsWithAGapThatHolds) {
  const JobSpec job =
      test::job_of({.layers = 6, .heads = 8, .kv_heads = 8, .batch = 16, .gpus = 8});
  MadeUpCost cost(3, Bytes(0), false);
  const std::int64_t optimum = brute_force(job, cost, 1)[0].step_ns;
  std::int64_t unproven = 0;
  for (std::int64_t budget = 1; budget <= 30; ++budget) {
    cost.evaluations = 0;
    const SearchResult result = search(job, cost.callbacks, {.top = 1, .budget = budget});
    ASSERT_LE(cost.evaluations, budget);
    if (result.top.empty()) continue;
    const auto best = static_cast<double>(result.top[0].evaluation.step_ns);
    EXPECT_LE(best * (1 - result.counts.gap), static_cast<double>(optimum) + 1e-9);
    if (result.counts.proven_optimal) {
      EXPECT_EQ(result.top[0].evaluation.step_ns, optimum);
      EXPECT_EQ(result.counts.gap, 0);
    } else {
      ++unproven;
    }
  }
  EXPECT_GT(unproven, 0);
}

TEST(Search, StopsWhenToldAndSaysWhatIsLeft) {
  const JobSpec job = test::job_of({.gpus = 8});
  MadeUpCost cost(5, Bytes(0), false);
  SearchOptions options;
  std::int64_t calls = 0;
  options.keep_going = [&](std::int64_t evaluated, std::int64_t left, std::int64_t best_ns) {
    EXPECT_EQ(evaluated, calls);
    EXPECT_GT(left, 0);
    EXPECT_EQ(best_ns < 0, cost.evaluations == 0);
    return ++calls < 3;
  };
  const SearchResult result = search(job, cost.callbacks, options);
  EXPECT_EQ(cost.evaluations, 2);
  EXPECT_FALSE(result.top.empty());
  EXPECT_TRUE(result.infeasible.empty());
}

TEST(Search, StoppedBeforeAnythingIsFoundProvesNothing) {
  MadeUpCost cost(5, Bytes(0), false);
  SearchOptions options;
  options.keep_going = [](std::int64_t, std::int64_t, std::int64_t) { return false; };
  const SearchResult result = search(test::job_of({.gpus = 8}), cost.callbacks, options);
  EXPECT_TRUE(result.top.empty());
  EXPECT_FALSE(result.counts.proven_optimal);
  EXPECT_EQ(result.counts.gap, 1);
  EXPECT_TRUE(result.infeasible.empty());
}

// Bounds of many layouts take a while, too.
TEST(Search, IsInterruptedWhileItComputesBounds) {
  MadeUpCost cost(5, Bytes(0), false);
  SearchOptions options;
  int asked = 0;
  options.interrupted = [&] { return ++asked > 4; };
  const SearchResult whole = search(test::job_of({.gpus = 8}), cost.callbacks, {});
  const SearchResult result = search(test::job_of({.gpus = 8}), cost.callbacks, options);
  EXPECT_EQ(asked, 5);
  EXPECT_EQ(result.counts.space, whole.counts.space);
  EXPECT_LE(result.counts.evaluated + result.counts.bounded + result.counts.over_memory, 4);
  EXPECT_FALSE(result.top.empty());
  EXPECT_FALSE(result.counts.proven_optimal);
  EXPECT_EQ(result.counts.gap, 1);
}

TEST(Search, NothingFitsTellsTheSmallestPeakAndAWayOut) {
  JobSpec job = test::job_of({.gpus = 2});
  MadeUpCost cost(5, Bytes(900), false);
  // 1,600 bytes over the ranks of a layout, whatever it is.
  cost.callbacks.bounds = [](const Strategy& s) { return Bounds{1, Bytes(1600 / (s.tp * s.pp))}; };
  cost.callbacks.evaluate = [&](const Strategy& s) {
    Evaluation evaluation = cost.evaluate(s);
    evaluation.memory[0].total = Bytes(1600 / (s.tp * s.pp) + 150);
    evaluation.peak_at = "stage 0";
    return evaluation;
  };
  const SearchResult result = search(job, cost.callbacks, {});
  EXPECT_TRUE(result.top.empty());
  EXPECT_EQ(result.counts.over_memory, result.counts.space);
  ASSERT_EQ(result.infeasible.size(), 1U);
  EXPECT_EQ(result.infeasible[0].rule, "memory");
  EXPECT_NE(result.infeasible[0].message.find("peaks at 950 B"), std::string::npos)  // 800 + 150
      << result.infeasible[0].message;
  EXPECT_NE(result.infeasible[0].nearest.find("search.memory_margin of at most 50 B"),
            std::string::npos)
      << result.infeasible[0].nearest;
  EXPECT_NE(result.infeasible[0].nearest.find("4 GPUs would do"), std::string::npos);
}

TEST(Search, ValuesThatBreakARuleByThemselvesAreErrors) {
  JobSpec job = test::job_of({.heads = 4, .gpus = 6});
  job.layout.tp = 3;
  MadeUpCost cost(5, Bytes(0), false);
  const SearchResult result = search(job, cost.callbacks, {});
  ASSERT_FALSE(result.errors.empty());
  EXPECT_NE(result.errors[0].message.find("heads"), std::string::npos) << result.errors[0].message;
}

TEST(Search, RulesThatNoFreeValueMendsAreNamed) {
  // 7 GPUs, 1 head, 1 layer, a batch of 1: no axis takes the seven ranks.
  const JobSpec job = test::job_of({.layers = 1, .heads = 1, .kv_heads = 1, .batch = 1, .gpus = 7});
  MadeUpCost cost(5, Bytes(0), false);
  const SearchResult result = search(job, cost.callbacks, {});
  EXPECT_TRUE(result.errors.empty());
  ASSERT_FALSE(result.infeasible.empty());
  EXPECT_FALSE(result.infeasible[0].rule.empty());
  EXPECT_FALSE(result.infeasible[0].message.empty());
}

TEST(Search, NeedsAClusterAndRefusesWhatIsNotBuilt) {
  JobSpec job = test::job_of({});
  job.cluster.reset();
  job.search.max_gpus = 4;
  MadeUpCost cost(5, Bytes(0), false);
  const SearchResult result = search(job, cost.callbacks, {});
  ASSERT_EQ(result.errors.size(), 2U);
  EXPECT_NE(result.errors[0].message.find("needs a cluster"), std::string::npos);
  EXPECT_NE(result.errors[1].message.find("search.max_gpus"), std::string::npos);
}

}  // namespace
}  // namespace mega::planner
