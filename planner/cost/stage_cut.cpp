#include "planner/cost/stage_cut.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "ir/base/check.h"

namespace mega::planner {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// How many more layers fit into the rank's chunks from `first` on, each with at least one, when
// `time` and `memory` are left for them; -1 when not even the one does.
std::int64_t capacity(const StageLines& lines, const RankLine& rank, std::size_t first,
                      std::int64_t time, std::int64_t memory) {
  const auto chunks = static_cast<std::int64_t>(rank.layer_memory.size() - first);
  if (chunks == 0) return time >= 0 && memory >= 0 ? 0 : -1;
  std::int64_t needed = 0, cheapest = kNoLimit;
  for (std::size_t c = first; c < rank.layer_memory.size(); ++c) {
    needed += rank.layer_memory[c].count();
    cheapest = std::min(cheapest, rank.layer_memory[c].count());
  }
  time -= chunks * lines.layer_time;
  memory -= needed;
  if (time < 0 || memory < 0) return -1;
  std::int64_t more = lines.layers;
  if (lines.layer_time > 0) more = std::min(more, time / lines.layer_time);
  if (cheapest > 0) more = std::min(more, memory / cheapest);
  return chunks + more;
}

// Layers that all ranks hold together within `time` and `memory` each; -1 when one can't do its
// part.
std::int64_t capacity(const StageLines& lines, std::int64_t time, std::int64_t memory) {
  std::int64_t total = 0;
  for (const RankLine& rank : lines.ranks) {
    const std::int64_t own =
        capacity(lines, rank, 0, time - rank.fixed_time, memory - rank.fixed_memory.count());
    if (own < 0) return -1;
    total += own;
  }
  return total;
}

// The least value for which `holds`, which stays true from there on.
template <class Holds>
std::int64_t least(std::int64_t most, Holds holds) {
  std::int64_t low = 0, high = most;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Time that holds every cut; likewise memory.
std::int64_t most_time(const StageLines& lines) {
  std::int64_t most = 0;
  for (const RankLine& rank : lines.ranks) most = std::max(most, rank.fixed_time);
  return most + lines.layers * lines.layer_time;
}

std::int64_t most_memory(const StageLines& lines) {
  std::int64_t most = 0;
  for (const RankLine& rank : lines.ranks) {
    std::int64_t layer = 0;
    for (const Bytes bytes : rank.layer_memory) layer = std::max(layer, bytes.count());
    most = std::max(most, rank.fixed_memory.count() + lines.layers * layer);
  }
  return most;
}

// Gives each virtual stage in turn the fewest layers with which the rest can still be placed.
std::vector<int> least_cut(const StageLines& lines, std::int64_t time, std::int64_t memory) {
  struct Left {
    std::int64_t time, memory, capacity;
  };
  std::vector<Left> left;
  std::int64_t total = 0;  // capacity of all that is not placed
  for (const RankLine& rank : lines.ranks) {
    Left own{time - rank.fixed_time, memory - rank.fixed_memory.count(), 0};
    own.capacity = capacity(lines, rank, 0, own.time, own.memory);
    total += own.capacity;
    left.push_back(own);
  }
  std::vector<int> cut;
  std::int64_t layers = lines.layers;
  const std::size_t chunks = lines.ranks[0].layer_memory.size();
  for (std::size_t c = 0; c < chunks; ++c) {
    for (std::size_t r = 0; r < lines.ranks.size(); ++r) {
      const RankLine& rank = lines.ranks[r];
      const std::int64_t others = total - left[r].capacity;
      for (int n = 1;; ++n) {
        MEGA_CHECK(n <= lines.layers, "a cut that exists was not found");
        const std::int64_t time_left = left[r].time - n * lines.layer_time;
        const std::int64_t memory_left = left[r].memory - n * rank.layer_memory[c].count();
        const std::int64_t rest = capacity(lines, rank, c + 1, time_left, memory_left);
        if (rest < 0 || n + rest + others < layers) continue;
        left[r] = {time_left, memory_left, rest};
        total = others + rest;
        layers -= n;
        cut.push_back(n);
        break;
      }
    }
  }
  return cut;
}

}  // namespace

std::optional<std::vector<int>> best_cut(const StageLines& lines, Bytes limit) {
  // Not the largest integer: sums of it must not overflow.
  const std::int64_t memory = limit > Bytes() ? limit.count() : kNoLimit / 4;
  const std::int64_t most = most_time(lines);
  if (capacity(lines, most, memory) < lines.layers) return std::nullopt;
  const std::int64_t time = least(most, [&](std::int64_t candidate) {
    return capacity(lines, candidate, memory) >= lines.layers;
  });
  return least_cut(lines, time, memory);
}

std::int64_t least_time(const StageLines& lines) {
  return least(most_time(lines), [&](std::int64_t time) {
    return capacity(lines, time, kNoLimit / 4) >= lines.layers;
  });
}

Bytes least_memory(const StageLines& lines) {
  return Bytes(least(most_memory(lines), [&](std::int64_t memory) {
    return capacity(lines, kNoLimit / 4, memory) >= lines.layers;
  }));
}

}  // namespace mega::planner
