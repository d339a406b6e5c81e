#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <tuple>

#include "planner/cost/stage_cut.h"

namespace mega::planner {
namespace {

// Equal ranks of one chunk; the embedding weighs `first`, the head `last`.
StageLines plain(int layers, int pp, int vpp, std::int64_t first, std::int64_t last) {
  StageLines lines;
  lines.layers.assign(static_cast<std::size_t>(layers), 0);
  lines.layer_time = {10};
  lines.layer_scratch = {Bytes()};
  lines.ranks.resize(static_cast<std::size_t>(pp));
  for (RankLine& rank : lines.ranks) {
    rank.layer_memory.assign(static_cast<std::size_t>(vpp), {Bytes(1)});
  }
  lines.ranks.front().fixed_time += first;
  lines.ranks.back().fixed_time += last;
  return lines;
}

struct Figures {
  std::int64_t time = 0, memory = 0;  // largest of a rank
  std::int64_t stage_time = 0;        // largest of a virtual stage
};
Figures figures(const StageLines& lines, const std::vector<int>& cut) {
  Figures most;
  for (std::size_t r = 0; r < lines.ranks.size(); ++r) {
    const RankLine& rank = lines.ranks[r];
    std::int64_t time = rank.fixed_time;
    Bytes memory = rank.fixed_memory, scratch = rank.scratch;
    std::size_t layer = 0;
    for (std::size_t s = 0; s < cut.size(); ++s) {
      const int ranks = static_cast<int>(lines.ranks.size());
      const StagePlace place = place_of_stage(lines.schedule, ranks, static_cast<int>(s));
      const auto chunk = static_cast<std::size_t>(place.chunk);
      std::int64_t stage_time = rank.chunk_time.empty() ? 0 : rank.chunk_time[chunk];
      for (int n = 0; n < cut[s]; ++n, ++layer) {
        if (static_cast<std::size_t>(place.rank) != r) continue;
        const auto kind = static_cast<std::size_t>(lines.layers[layer]);
        time += lines.layer_time[kind];
        stage_time += lines.layer_time[kind];
        memory += rank.layer_memory[chunk][kind];
        scratch = std::max(scratch, lines.layer_scratch[kind]);
      }
      if (static_cast<std::size_t>(place.rank) == r) {
        most.stage_time = std::max(most.stage_time, stage_time);
      }
    }
    most.time = std::max(most.time, time);
    most.memory = std::max(most.memory, (memory + scratch).count());
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

// Case H04: 94 layers on 8 ranks of 4 chunks, where embedding and head weigh a layer each: 3 layers
// a stage, and one fewer at both ends. On 4 ranks of 12: 2, and 1.
TEST(StageCut, CaseH04InterleavedStagesAreEven) {
  const auto ends = [](StageLines lines) {
    lines.ranks.front().chunk_time.assign(lines.ranks[0].layer_memory.size(), 0);
    lines.ranks.back().chunk_time = lines.ranks.front().chunk_time;
    lines.ranks.front().chunk_time.front() = lines.ranks.back().chunk_time.back() = 10;
    return lines;
  };
  const auto expected = [](std::size_t stages, int layers) {
    std::vector<int> cut(stages, layers);
    cut.front() = cut.back() = layers - 1;
    return cut;
  };
  EXPECT_EQ(best_cut(ends(plain(94, 8, 4, 10, 10)), Bytes()), expected(32, 3));
  EXPECT_EQ(best_cut(ends(plain(94, 4, 12, 10, 10)), Bytes()), expected(48, 2));
  EXPECT_EQ(best_cut(ends(plain(94, 8, 3, 10, 10)), Bytes()), expected(24, 4));
}

// Case A13: 46 layers, embedding and head: 48 = 4 * 12.
TEST(StageCut, CaseA13FortySixLayersOnFourStages) {
  EXPECT_EQ(best_cut(plain(46, 4, 1, 10, 10), Bytes()), (std::vector<int>{11, 12, 12, 11}));
}

TEST(StageCut, AHeavyHeadGetsFewerLayers) {
  // 16 layers of 10 and a head of 40: 50 per rank.
  EXPECT_EQ(best_cut(plain(16, 4, 1, 0, 40), Bytes()), (std::vector<int>{5, 5, 5, 1}));
}

TEST(StageCut, MemoryMovesLayers) {
  StageLines lines = plain(8, 2, 1, 0, 0);
  lines.ranks[0].layer_memory = {{Bytes(3)}};
  EXPECT_EQ(best_cut(lines, Bytes()), (std::vector<int>{4, 4}));
  EXPECT_EQ(best_cut(lines, Bytes(11)), (std::vector<int>{3, 5}));
  EXPECT_EQ(best_cut(lines, Bytes(3)), std::nullopt);  // 1 and 3 layers at most
}

// Layers 0 to 2 are light: the first rank takes them all and one heavy one.
TEST(StageCut, LightLayersCountLess) {
  StageLines lines = plain(9, 2, 1, 0, 0);
  lines.layers = {0, 0, 0, 1, 1, 1, 1, 1, 1};
  lines.layer_time = {10, 30};
  lines.layer_scratch = {Bytes(), Bytes()};
  for (RankLine& rank : lines.ranks) rank.layer_memory = {{Bytes(1), Bytes(3)}};
  // 210 in all: 3 * 10 + 3 * 30 = 120 against 3 * 30 = 90; 3 + 2 layers: 90 against 120.
  EXPECT_EQ(best_cut(lines, Bytes()), (std::vector<int>{5, 4}));
  EXPECT_EQ(least_time(lines), 120);
  EXPECT_EQ(best_cut(lines, Bytes(9)), std::nullopt);
  EXPECT_EQ(best_cut(lines, Bytes(12)), (std::vector<int>{5, 4}));
  // A light layer is first on its own where the second rank's layers are the dear ones.
  lines.ranks[0].layer_memory = {{Bytes(4), Bytes(1)}};
  EXPECT_EQ(best_cut(lines, Bytes(15)), (std::vector<int>{5, 4}));
}

class StageCutLaw : public ::testing::TestWithParam<int> {};

// With kinds of layers as the parameter. Several chunks of several kinds bound, and are exact here.
TEST_P(StageCutLaw, EqualsBruteForce) {
  const int kinds = GetParam();
  std::mt19937 random(20240601);
  const auto up_to = [&](int most) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(most + 1));
  };
  for (int trial = 0; trial < 400; ++trial) {
    const int pp = 1 + static_cast<int>(up_to(2));
    const int vpp = pp == 1 ? 1 : 1 + static_cast<int>(up_to(1));
    const auto stages = static_cast<std::size_t>(pp * vpp);
    StageLines lines;
    if (vpp == 2 && trial % 2 == 1) lines.schedule = ScheduleKind::ZbV;
    lines.layers.resize(stages + static_cast<std::size_t>(up_to(5)));
    for (int& kind : lines.layers) kind = static_cast<int>(up_to(kinds - 1));
    for (int k = 0; k < kinds; ++k) {
      lines.layer_time.push_back(up_to(9));
      lines.layer_scratch.emplace_back(up_to(9));
    }
    lines.ranks.resize(static_cast<std::size_t>(pp));
    for (RankLine& rank : lines.ranks) {
      for (int c = 0; c < vpp; ++c) rank.chunk_time.push_back(up_to(20));
      rank.fixed_time = std::accumulate(rank.chunk_time.begin(), rank.chunk_time.end(), 0L);
      rank.fixed_memory = Bytes(up_to(20));
      rank.scratch = Bytes(up_to(9));
      rank.layer_memory.resize(static_cast<std::size_t>(vpp));
      for (auto& chunk : rank.layer_memory) {
        for (int k = 0; k < kinds; ++k) chunk.emplace_back(up_to(6));
      }
    }
    const Bytes limit(trial % 3 == 0 ? 0 : 10 + up_to(30));
    std::optional<std::vector<int>> best;
    std::int64_t least = 0, least_stage = 0, least_any = -1, least_bytes = -1;
    std::vector<int> start;
    for_each_cut(start, stages, static_cast<int>(lines.layers.size()),
                 [&](const std::vector<int>& cut) {
                   const Figures f = figures(lines, cut);
                   least_any = least_any < 0 ? f.time : std::min(least_any, f.time);
                   least_bytes = least_bytes < 0 ? f.memory : std::min(least_bytes, f.memory);
                   if (limit > Bytes() && f.memory > limit.count()) return;
                   if (best && std::tie(f.time, f.stage_time) >= std::tie(least, least_stage)) {
                     return;
                   }
                   best = cut;
                   least = f.time;
                   least_stage = f.stage_time;
                 });
    SCOPED_TRACE("trial " + std::to_string(trial));
    EXPECT_EQ(best_cut(lines, limit), best);
    EXPECT_LE(least_time(lines), least_any);
    EXPECT_LE(least_memory(lines), Bytes(least_bytes));
    if (kinds > 1 && vpp > 1) continue;
    EXPECT_EQ(least_time(lines), least_any);
    EXPECT_EQ(least_memory(lines), Bytes(least_bytes));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, StageCutLaw, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace mega::planner
