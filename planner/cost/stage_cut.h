// Cuts a model into pipeline stages: the best cut, and what no cut can beat.
//
// The embedding rides on the first virtual stage and the head on the last. Layers of one kind are
// equal, so time and memory of a rank are sums over the layers that its chunks get.
//   one kind of layers   only counts matter, and how many each rank can hold decides:
//                        within time T and memory M, rank r holds between vpp and cap_r(T, M)
//                        layers; a cut exists  <=>  sum of cap_r >= layers
//   several kinds        which layers a chunk gets matters, too (planner/cost/stage_cut_mixed.h)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/base/units.h"
#include "ir/schedule_order.h"

namespace mega::planner {

// One pipeline rank. `fixed` is without layers.
struct RankLine {
  std::int64_t fixed_time = 0;
  std::vector<std::int64_t> chunk_time;  // the part of fixed_time of each chunk
  Bytes fixed_memory;
  Bytes scratch;  // of the embedding and the head, where the rank has them
  std::vector<std::vector<Bytes>> layer_memory;  // per chunk, then kind of layer
};

struct StageLines {
  std::vector<int> layers;               // the kind of each layer, in model order
  std::vector<std::int64_t> layer_time;  // per kind
  std::vector<Bytes> layer_scratch;      // per kind; of all on a rank the largest counts
  std::vector<RankLine> ranks;
  ScheduleKind schedule = ScheduleKind::OneFOneB;  // decides where each virtual stage is
};

// What a rank, and each of its virtual stages, may take.
struct CutLimits {
  std::int64_t time = 0, memory = 0, stage_time = 0;
};

// The cut that minimises the largest time of a rank among those whose ranks stay within `limit`
// (0: no limit), every virtual stage with at least one layer. Ties go to the one whose largest
// virtual stage takes the least time: an interleaved pipeline is as slow as that; then to the
// lexicographically least. None when nothing fits. Exact, save where ranks have several chunks of
// several kinds of layers: that search gives up after a fixed number of tries and takes the best it
// has.
std::optional<std::vector<int>> best_cut(const StageLines& lines, Bytes limit);

// The least over all cuts of the largest time, or memory, of a rank; never more than that where
// ranks have several chunks of several kinds.
std::int64_t least_time(const StageLines& lines);
Bytes least_memory(const StageLines& lines);

// Whether a virtual stage takes no longer than `most` with so many layers' time.
bool stage_fits(const RankLine& rank, std::size_t chunk, std::int64_t layers_time,
                std::int64_t most);

// The least value up to `most` for which `holds`, which stays true from there on.
template <class Holds>
std::int64_t least_value(std::int64_t most, Holds holds) {
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

}  // namespace mega::planner
