#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "planner/cost/stage_cut.h"

namespace mega::planner {
namespace {

// Equal ranks of one chunk; the embedding weighs `first`, the head `last`.
StageLines plain(int layers, int pp, int vpp, std::int64_t first, std::int64_t last) {
  StageLines lines;
  lines.layers = layers;
  lines.layer_time = 10;
  lines.ranks.resize(static_cast<std::size_t>(pp));
  for (RankLine& rank : lines.ranks) {
    rank.layer_memory.assign(static_cast<std::size_t>(vpp), Bytes(1));
  }
  lines.ranks.front().fixed_time += first;
  lines.ranks.back().fixed_time += last;
  return lines;
}

struct Figures {
  std::int64_t time = 0, memory = 0;  // largest of a rank
};
Figures figures(const StageLines& lines, const std::vector<int>& cut) {
  Figures most;
  for (std::size_t r = 0; r < lines.ranks.size(); ++r) {
    std::int64_t time = lines.ranks[r].fixed_time;
    std::int64_t memory = lines.ranks[r].fixed_memory.count();
    for (std::size_t c = 0; c < lines.ranks[r].layer_memory.size(); ++c) {
      const int n = cut[c * lines.ranks.size() + r];
      time += n * lines.layer_time;
      memory += n * lines.ranks[r].layer_memory[c].count();
    }
    most.time = std::max(most.time, time);
    most.memory = std::max(most.memory, memory);
  }
  return most;
}

// Every cut, in lexicographic order.
template <class Visit>
void for_each_cut(std::vector<int>& cut, std::size_t stages, int layers, const Visit& visit) {
  const int left = static_cast<int>(stages - cut.size());
  if (left == 1) {
    cut.push_back(layers);
    visit(cut);
    cut.pop_back();
    return;
  }
  for (int n = 1; n <= layers - left + 1; ++n) {
    cut.push_back(n);
    for_each_cut(cut, stages, layers - n, visit);
    cut.pop_back();
  }
}

// Case A02: 30 layers on 4 stages are cut unevenly, and none is lost.
TEST(StageCut, CaseA02ThirtyLayersOnFourStages) {
  EXPECT_EQ(best_cut(plain(30, 4, 1, 10, 10), Bytes()), (std::vector<int>{7, 8, 8, 7}));
  EXPECT_EQ(best_cut(plain(30, 4, 1, 0, 0), Bytes()), (std::vector<int>{6, 8, 8, 8}));
}

TEST(StageCut, AHeavyHeadGetsFewerLayers) {
  // 16 layers of 10 and a head of 40: 50 per rank.
  EXPECT_EQ(best_cut(plain(16, 4, 1, 0, 40), Bytes()), (std::vector<int>{5, 5, 5, 1}));
}

TEST(StageCut, MemoryMovesLayers) {
  StageLines lines = plain(8, 2, 1, 0, 0);
  lines.ranks[0].layer_memory = {Bytes(3)};
  EXPECT_EQ(best_cut(lines, Bytes()), (std::vector<int>{4, 4}));
  EXPECT_EQ(best_cut(lines, Bytes(11)), (std::vector<int>{3, 5}));
  EXPECT_EQ(best_cut(lines, Bytes(3)), std::nullopt);  // 1 and 3 layers at most
}

TEST(StageCut, EqualsBruteForce) {
  std::mt19937 random(20240601);
  const auto up_to = [&](int most) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(most + 1));
  };
  for (int trial = 0; trial < 400; ++trial) {
    const int pp = 1 + static_cast<int>(up_to(2));
    const int vpp = pp == 1 ? 1 : 1 + static_cast<int>(up_to(1));
    const auto stages = static_cast<std::size_t>(pp * vpp);
    StageLines lines;
    lines.layers = static_cast<int>(stages) + static_cast<int>(up_to(5));
    lines.layer_time = up_to(9);
    lines.ranks.resize(static_cast<std::size_t>(pp));
    for (RankLine& rank : lines.ranks) {
      rank.fixed_time = up_to(20);
      rank.fixed_memory = Bytes(up_to(20));
      for (int c = 0; c < vpp; ++c) rank.layer_memory.emplace_back(up_to(6));
    }
    const Bytes limit(trial % 3 == 0 ? 0 : 10 + up_to(30));
    std::optional<std::vector<int>> best;
    std::int64_t least = 0, least_any = -1, least_bytes = -1;
    std::vector<int> start;
    for_each_cut(start, stages, lines.layers, [&](const std::vector<int>& cut) {
      const Figures f = figures(lines, cut);
      least_any = least_any < 0 ? f.time : std::min(least_any, f.time);
      least_bytes = least_bytes < 0 ? f.memory : std::min(least_bytes, f.memory);
      if (limit > Bytes() && f.memory > limit.count()) return;
      if (best && f.time >= least) return;
      best = cut;
      least = f.time;
    });
    SCOPED_TRACE("trial " + std::to_string(trial));
    EXPECT_EQ(best_cut(lines, limit), best);
    EXPECT_EQ(least_time(lines), least_any);
    EXPECT_EQ(least_memory(lines), Bytes(least_bytes));
  }
}

}  // namespace
}  // namespace mega::planner
