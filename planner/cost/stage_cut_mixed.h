// Cutting a model whose layers are of several kinds.
//
// A search in model order: each virtual stage in turn gets one layer, two, ... while its rank can
// hold them. With one chunk per rank, whether the rest can be placed depends only on where it
// begins, so a failure is remembered and the search is a dynamic program over positions. With
// several chunks it depends on what every rank has left; then what the ranks have left together
// must hold the rest, whole layers or not, and tries are counted.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/cost/stage_cut.h"

namespace mega::planner {

// The lexicographically least cut within `limits` on every rank.
std::optional<std::vector<int>> mixed_cut(const StageLines& lines, const CutLimits& limits);

// Whether some cut may stay within both, however long its stages: true whenever one does; exact
// with one chunk per rank.
bool mixed_cut_may_exist(const StageLines& lines, std::int64_t time, std::int64_t memory);

}  // namespace mega::planner
