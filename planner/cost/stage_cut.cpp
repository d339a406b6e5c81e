#include "planner/cost/stage_cut.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "ir/base/check.h"
#include "planner/cost/stage_cut_mixed.h"

namespace mega::planner {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

int layer_count(const StageLines& lines) {
  return static_cast<int>(lines.layers.size());
}

// ---- layers of one kind -------------------------------------------------------------------------

bool has_one_kind(const StageLines& lines) {
  return lines.layer_time.size() == 1;
}

std::int64_t fixed_memory(const StageLines& lines, const RankLine& rank) {
  return (rank.fixed_memory + std::max(rank.scratch, lines.layer_scratch[0])).count();
}

// How many more layers fit into the rank's chunks from `first` on, each with at least one, when
// `time` and `memory` are left for them; -1 when not even the one does.
std::int64_t capacity(const StageLines& lines, const RankLine& rank, std::size_t first,
                      std::int64_t time, std::int64_t memory) {
  const auto chunks = static_cast<std::int64_t>(rank.layer_memory.size() - first);
  if (chunks == 0) return time >= 0 && memory >= 0 ? 0 : -1;
  std::int64_t needed = 0, cheapest = kNoLimit;
  for (std::size_t c = first; c < rank.layer_memory.size(); ++c) {
    needed += rank.layer_memory[c][0].count();
    cheapest = std::min(cheapest, rank.layer_memory[c][0].count());
  }
  time -= chunks * lines.layer_time[0];
  memory -= needed;
  if (time < 0 || memory < 0) return -1;
  std::int64_t more = layer_count(lines);
  if (lines.layer_time[0] > 0) more = std::min(more, time / lines.layer_time[0]);
  if (cheapest > 0) more = std::min(more, memory / cheapest);
  return chunks + more;
}

// Layers that all ranks hold together within `time` and `memory` each; -1 when one can't do its
// part.
std::int64_t capacity(const StageLines& lines, std::int64_t time, std::int64_t memory) {
  std::int64_t total = 0;
  for (const RankLine& rank : lines.ranks) {
    const std::int64_t own =
        capacity(lines, rank, 0, time - rank.fixed_time, memory - fixed_memory(lines, rank));
    if (own < 0) return -1;
    total += own;
  }
  return total;
}

// Gives each virtual stage in turn the fewest layers with which the rest can still be placed.
std::vector<int> least_cut(const StageLines& lines, std::int64_t time, std::int64_t memory) {
  struct Left {
    std::int64_t time, memory, capacity;
  };
  std::vector<Left> left;
  std::int64_t total = 0;  // capacity of all that is not placed
  for (const RankLine& rank : lines.ranks) {
    Left own{time - rank.fixed_time, memory - fixed_memory(lines, rank), 0};
    own.capacity = capacity(lines, rank, 0, own.time, own.memory);
    total += own.capacity;
    left.push_back(own);
  }
  std::vector<int> cut;
  std::int64_t layers = layer_count(lines);
  const int ranks = static_cast<int>(lines.ranks.size());
  const int stages = ranks * static_cast<int>(lines.ranks[0].layer_memory.size());
  for (int stage = 0; stage < stages; ++stage) {
    const StagePlace place = place_of_stage(lines.schedule, ranks, stage);
    const auto r = static_cast<std::size_t>(place.rank), c = static_cast<std::size_t>(place.chunk);
    const RankLine& rank = lines.ranks[r];
    const std::int64_t others = total - left[r].capacity;
    for (int n = 1;; ++n) {
      MEGA_CHECK(n <= layer_count(lines), "a cut that exists was not found");
      const std::int64_t time_left = left[r].time - n * lines.layer_time[0];
      const std::int64_t memory_left = left[r].memory - n * rank.layer_memory[c][0].count();
      const std::int64_t rest = capacity(lines, rank, c + 1, time_left, memory_left);
      if (rest < 0 || n + rest + others < layers) continue;
      left[r] = {time_left, memory_left, rest};
      total = others + rest;
      layers -= n;
      cut.push_back(n);
      break;
    }
  }
  return cut;
}

// ---- any layers ---------------------------------------------------------------------------------

// Time that holds every cut; likewise memory.
std::int64_t most_time(const StageLines& lines) {
  std::int64_t most = 0;
  for (const RankLine& rank : lines.ranks) most = std::max(most, rank.fixed_time);
  for (const int kind : lines.layers) most += lines.layer_time[static_cast<std::size_t>(kind)];
  return most;
}

std::int64_t most_memory(const StageLines& lines) {
  Bytes most;
  const Bytes scratch = *std::max_element(lines.layer_scratch.begin(), lines.layer_scratch.end());
  for (const RankLine& rank : lines.ranks) {
    Bytes all = rank.fixed_memory + std::max(rank.scratch, scratch);
    for (const int kind : lines.layers) {
      Bytes layer;
      for (const auto& chunk : rank.layer_memory) {
        layer = std::max(layer, chunk[static_cast<std::size_t>(kind)]);
      }
      all += layer;
    }
    most = std::max(most, all);
  }
  return most.count();
}

bool may_exist(const StageLines& lines, std::int64_t time, std::int64_t memory) {
  if (has_one_kind(lines)) return capacity(lines, time, memory) >= layer_count(lines);
  return mixed_cut_may_exist(lines, time, memory);
}

// The best cut of layers of several kinds.
std::optional<std::vector<int>> best_mixed_cut(const StageLines& lines, std::int64_t memory) {
  std::optional<std::vector<int>> best = mixed_cut(lines, most_time(lines), memory);
  if (!best) return std::nullopt;
  least_value(most_time(lines), [&](std::int64_t time) {
    if (!mixed_cut_may_exist(lines, time, memory)) return false;
    auto cut = mixed_cut(lines, time, memory);
    if (!cut) return false;
    best = std::move(cut);
    return true;
  });
  return best;
}

}  // namespace

std::optional<std::vector<int>> best_cut(const StageLines& lines, Bytes limit) {
  // Not the largest integer: sums of it must not overflow.
  const std::int64_t memory = limit > Bytes() ? limit.count() : kNoLimit / 4;
  if (!has_one_kind(lines)) return best_mixed_cut(lines, memory);
  const std::int64_t most = most_time(lines);
  if (!may_exist(lines, most, memory)) return std::nullopt;
  const std::int64_t time = least_value(
      most, [&](std::int64_t candidate) { return may_exist(lines, candidate, memory); });
  return least_cut(lines, time, memory);
}

std::int64_t least_time(const StageLines& lines) {
  return least_value(most_time(lines),
                     [&](std::int64_t time) { return may_exist(lines, time, kNoLimit / 4); });
}

Bytes least_memory(const StageLines& lines) {
  return Bytes(least_value(most_memory(lines), [&](std::int64_t memory) {
    return may_exist(lines, kNoLimit / 4, memory);
  }));
}

}  // namespace mega::planner
