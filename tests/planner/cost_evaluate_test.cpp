// Laws of evaluate(): its terms add up, bounds stay below it, memory composes block by block.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "planner/cost/bounds.h"
#include "planner/cost/evaluate.h"
#include "planner/lower/assign_memory.h"
#include "planner/lower/partition.h"
#include "tests/support/small_jobs.h"

namespace mega::planner {
namespace {

TEST(Evaluate, TimeTermsAddUpToTheStep) {
  for_each_strategy([](Setting& setting, Strategy strategy) {
    ASSERT_TRUE(balance_stages(setting.costs, strategy, Bytes()));
    const Evaluation e = evaluate(setting.costs, strategy);
    const TimeTerms& t = e.time;
    EXPECT_EQ(t.compute_ns + t.recompute_ns + t.exposed_tp_ns + t.exposed_cp_ns + t.exposed_ep_ns +
                  t.exposed_pp_ns + t.exposed_dp_ns + t.bubble_ns + t.optimizer_ns + t.other_ns,
              e.step_ns);
    EXPECT_GT(t.compute_ns, 0);
    EXPECT_EQ(t.exposed_tp_ns > 0, strategy.tp > 1);
    EXPECT_GE(t.bubble_ns, 0);
  });
}

TEST(Evaluate, BoundsStayBelowEveryCut) {
  std::mt19937 random(7);
  for_each_strategy([&](Setting& setting, Strategy strategy) {
    const Bounds bounds = lower_bounds(setting.costs, strategy);
    for (int trial = 0; trial < 6; ++trial) {
      const int layers = setting.graph.layers;
      if (trial == 0) {
        balance_stages(setting.costs, strategy, Bytes());
      } else {
        strategy.stages = random_cut(random, layers, strategy.pp * strategy.vpp);
      }
      const Evaluation e = evaluate(setting.costs, strategy);
      EXPECT_LE(bounds.step_ns, e.step_ns);
      EXPECT_LE(bounds.peak, peak(e));
    }
  });
}

TEST(Evaluate, BoundsAreNearTheBestCut) {
  // Without them the search would look at everything.
  double worst = 1;
  for_each_strategy([&](Setting& setting, Strategy strategy) {
    if (strategy.vpp > 1) return;
    balance_stages(setting.costs, strategy, Bytes());
    const auto bound = static_cast<double>(lower_bounds(setting.costs, strategy).step_ns);
    worst = std::min(worst, bound / static_cast<double>(evaluate(setting.costs, strategy).step_ns));
  });
  EXPECT_GT(worst, 0.6);
}

TEST(Evaluate, MemoryComposesBlockByBlock) {
  std::mt19937 random(11);
  for_each_strategy([&](Setting& setting, Strategy strategy) {
    strategy.stages = random_cut(random, setting.graph.layers, strategy.pp * strategy.vpp);
    const StageLines lines = stage_lines(setting.costs, strategy);
    const Evaluation e = evaluate(setting.costs, strategy);
    ASSERT_EQ(e.memory.size(), lines.ranks.size());
    for (std::size_t r = 0; r < lines.ranks.size(); ++r) {
      const RankLine& rank = lines.ranks[r];
      Bytes bytes = rank.fixed_memory, scratch = rank.scratch;
      std::size_t layer = 0;
      for (std::size_t stage = 0; stage < strategy.stages.size(); ++stage) {
        const StagePlace place =
            place_of_stage(strategy.schedule, strategy.pp, static_cast<int>(stage));
        for (int n = 0; n < strategy.stages[stage]; ++n, ++layer) {
          if (static_cast<std::size_t>(place.rank) != r) continue;
          const auto kind = static_cast<std::size_t>(lines.layers[layer]);
          bytes += rank.layer_memory[static_cast<std::size_t>(place.chunk)][kind];
          scratch = std::max(scratch, lines.layer_scratch[kind]);
        }
      }
      bytes += scratch;
      EXPECT_EQ(bytes, e.memory[r].total) << "rank " << r;
    }
  });
}

TEST(Evaluate, BlocksOfAReducedMeshEqualThoseOfTheWhole) {
  // Costs are shared between strategies that differ in pp and dp; the parts must not.
  for_each_strategy([](Setting& setting, Strategy strategy) {
    if (strategy.vpp > 1 || strategy.micro_batch > 1) return;
    balance_stages(setting.costs, strategy, Bytes());
    const PartitionedGraph whole = partition(setting.graph, strategy);
    const auto states = optimizer_states(setting.job.training.optimizer);
    const auto chunks = chunks_of_rank(strategy, strategy.pp - 1);
    EXPECT_EQ(lay_out_rank(whole, chunks, states),
              lay_out_rank(setting.costs.blocks(strategy).graph, chunks, states));
  });
}

TEST(Evaluate, WithoutAClusterThereIsMemoryAndNoTime) {
  JobSpec job = small_job(false);
  job.cluster.reset();
  Setting setting(std::move(job));
  Strategy strategy;
  strategy.pp = 4;
  ASSERT_TRUE(balance_stages(setting.costs, strategy, Bytes()));
  const Evaluation e = evaluate(setting.costs, strategy);
  EXPECT_EQ(e.step_ns, 0);
  EXPECT_EQ(e.time, TimeTerms());
  EXPECT_GT(peak(e), Bytes(0));
  // Balanced by FLOPs: the head weighs about as much as one layer, so 14 over 4 are at most 4 each.
  EXPECT_EQ(strategy.stages, (std::vector<int>{2, 4, 4, 3}));
}

TEST(Evaluate, SequenceParallelismSavesMemory) {
  Setting setting(small_job(false));
  Strategy strategy;
  strategy.tp = 4;
  strategy.stages = {13};
  const Evaluation without = evaluate(setting.costs, strategy);
  strategy.sequence_parallel = true;
  EXPECT_LT(peak(evaluate(setting.costs, strategy)), peak(without));
}

TEST(Evaluate, TensorGroupsOverTheNetworkCostMore) {
  Setting setting(small_job(false));
  Strategy strategy;
  strategy.tp = 2;
  strategy.stages = {13};
  const std::int64_t inside = evaluate(setting.costs, strategy).time.exposed_tp_ns;
  strategy.dp = 4;
  strategy.rank_order = "dp-tp-cp-ep-pp";  // tensor neighbours are four ranks apart: on other nodes
  const std::int64_t outside = evaluate(setting.costs, strategy).time.exposed_tp_ns;
  EXPECT_GT(outside / 6, inside / 24 * 4);  // per micro-batch: 6 of them instead of 24
}

TEST(Evaluate, BalanceMovesLayersAwayFromAFullRank) {
  Setting setting(small_job(true));
  Strategy strategy;
  strategy.pp = 4;
  ASSERT_TRUE(balance_stages(setting.costs, strategy, Bytes()));
  const std::vector<int> free_cut = strategy.stages;
  const Bytes full = peak(evaluate(setting.costs, strategy));
  const Bytes least = lower_bounds(setting.costs, strategy).peak;
  ASSERT_LT(least, full);
  ASSERT_TRUE(balance_stages(setting.costs, strategy, least));
  EXPECT_NE(strategy.stages, free_cut);
  EXPECT_EQ(peak(evaluate(setting.costs, strategy)), least);
  EXPECT_FALSE(balance_stages(setting.costs, strategy, least - Bytes(1)));
  EXPECT_EQ(strategy.stages, free_cut);  // a layout that does not fit still has a cut
}

}  // namespace
}  // namespace mega::planner
