#include "planner/cost/stage_cut.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

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

CutLimits left_without_layers(const StageLines& lines, const RankLine& rank, CutLimits limits) {
  limits.time -= rank.fixed_time;
  limits.memory -= fixed_memory(lines, rank);
  return limits;
}

// How many more layers fit into the rank's chunks from `first` on, each with at least one, when
// `left` is left for them; -1 when not even the one does.
std::int64_t capacity(const StageLines& lines, const RankLine& rank, std::size_t first,
                      CutLimits left) {
  const std::int64_t layer_time = lines.layer_time[0];
  std::vector<std::pair<std::int64_t, std::int64_t>> chunks;  // memory of a layer, how many more
  for (std::size_t c = first; c < rank.layer_memory.size(); ++c) {
    if (!stage_fits(rank, c, layer_time, left.stage_time)) return -1;
    const std::int64_t own = rank.chunk_time.empty() ? 0 : rank.chunk_time[c];
    const std::int64_t most = layer_time > 0 ? (left.stage_time - own) / layer_time - 1 : kNoLimit;
    chunks.emplace_back(rank.layer_memory[c][0].count(), most);
    left.time -= layer_time;
    left.memory -= chunks.back().first;
  }
  if (left.time < 0 || left.memory < 0) return -1;
  if (chunks.empty()) return 0;
  std::sort(chunks.begin(), chunks.end());
  std::int64_t more = 0;  // the cheapest chunks first
  for (auto [memory, most] : chunks) {
    most = std::min<std::int64_t>(most, layer_count(lines));
    if (memory > 0) most = std::min(most, left.memory / memory);
    left.memory -= most * memory;
    more += most;
  }
  if (layer_time > 0) more = std::min(more, left.time / layer_time);
  return static_cast<std::int64_t>(chunks.size()) + more;
}

// Layers that all ranks hold together within `limits` each; -1 when one can't do its part.
std::int64_t capacity(const StageLines& lines, const CutLimits& limits) {
  std::int64_t total = 0;
  for (const RankLine& rank : lines.ranks) {
    const std::int64_t own = capacity(lines, rank, 0, left_without_layers(lines, rank, limits));
    if (own < 0) return -1;
    total += own;
  }
  return total;
}

// Gives each virtual stage in turn the fewest layers with which the rest can still be placed.
std::vector<int> least_cut(const StageLines& lines, const CutLimits& limits) {
  struct Left {
    CutLimits limits;
    std::int64_t capacity;
  };
  std::vector<Left> left;
  std::int64_t total = 0;  // capacity of all that is not placed
  for (const RankLine& rank : lines.ranks) {
    Left own{left_without_layers(lines, rank, limits), 0};
    own.capacity = capacity(lines, rank, 0, own.limits);
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
      CutLimits now = left[r].limits;
      now.time -= n * lines.layer_time[0];
      now.memory -= n * rank.layer_memory[c][0].count();
      const std::int64_t rest = capacity(lines, rank, c + 1, now);
      if (rest < 0 || n + rest + others < layers) continue;
      left[r] = {now, rest};
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
  if (has_one_kind(lines))
    return capacity(lines, {time, memory, kNoLimit / 4}) >= layer_count(lines);
  return mixed_cut_may_exist(lines, time, memory);
}

// The best cut of layers of several kinds.
std::optional<std::vector<int>> best_mixed_cut(const StageLines& lines, std::int64_t memory) {
  const std::int64_t most = most_time(lines);
  std::optional<std::vector<int>> best = mixed_cut(lines, {most, memory, most});
  if (!best) return std::nullopt;
  const auto improves = [&](const CutLimits& limits) {
    if (!mixed_cut_may_exist(lines, limits.time, memory)) return false;
    auto cut = mixed_cut(lines, limits);
    if (!cut) return false;
    best = std::move(cut);
    return true;
  };
  const std::int64_t least = least_value(most, [&](std::int64_t time) {
    return improves({time, memory, most});
  });
  if (lines.ranks[0].layer_memory.size() > 1) {
    least_value(least, [&](std::int64_t stage) { return improves({least, memory, stage}); });
  }
  return best;
}

}  // namespace

bool stage_fits(const RankLine& rank, std::size_t chunk, std::int64_t layers_time,
                std::int64_t most) {
  const std::int64_t own = rank.chunk_time.empty() ? 0 : rank.chunk_time[chunk];
  return own + layers_time <= most;
}

std::optional<std::vector<int>> best_cut(const StageLines& lines, Bytes limit) {
  // Not the largest integer: sums of it must not overflow.
  const std::int64_t memory = limit > Bytes() ? limit.count() : kNoLimit / 4;
  if (!has_one_kind(lines)) return best_mixed_cut(lines, memory);
  const std::int64_t most = most_time(lines);
  if (!may_exist(lines, most, memory)) return std::nullopt;
  const std::int64_t time = least_value(
      most, [&](std::int64_t candidate) { return may_exist(lines, candidate, memory); });
  const std::int64_t stage_time = least_value(time, [&](std::int64_t candidate) {
    return capacity(lines, {time, memory, candidate}) >= layer_count(lines);
  });
  return least_cut(lines, {time, memory, stage_time});
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
