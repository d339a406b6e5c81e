// Cuts a model into pipeline stages: the exact best cut, and what no cut can beat.
//
// All layers are equal, the embedding rides on the first virtual stage and the head on the last.
// So time and memory of a rank are linear in how many layers its chunks get, and both the best
// cut and the bounds need only count how many layers each rank can hold:
//
//   within time T and memory M, rank r holds between vpp and cap_r(T, M) layers
//   a cut exists  <=>  sum of cap_r >= layers
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/base/units.h"

namespace mega::planner {

// One pipeline rank. `fixed` is without layers.
struct RankLine {
  std::int64_t fixed_time = 0;
  Bytes fixed_memory;
  std::vector<Bytes> layer_memory;  // per chunk
};

struct StageLines {
  int layers = 0;
  std::int64_t layer_time = 0;
  std::vector<RankLine> ranks;
};

// The cut that minimises the largest time of a rank among those whose ranks stay within `limit`
// (0: no limit), every virtual stage with at least one layer; ties go to the lexicographically
// least. None when nothing fits.
std::optional<std::vector<int>> best_cut(const StageLines& lines, Bytes limit);

// The least over all cuts of the largest time, or memory, of a rank.
std::int64_t least_time(const StageLines& lines);
Bytes least_memory(const StageLines& lines);

}  // namespace mega::planner
