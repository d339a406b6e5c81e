// What no cut into stages can beat, and the cut that `stages: auto` stands for. Both see the ranks
// as lines in the number of layers (planner/cost/stage_cut.h).
#pragma once

#include "planner/cost/costs.h"
#include "planner/cost/stage_cut.h"
#include "planner/strategy.h"

namespace mega::planner {

// Never above what evaluate() reports for any cut of the strategy; its `stages` are not looked at.
// The search relies on it. Where no cut stays within `limit` (0: no limit) the time is left out.
Bounds lower_bounds(Costs& costs, const Strategy& strategy, Bytes limit = {});

// Sets `stages` to the cut that minimises the largest forward + backward time of a rank among
// those that stay within `limit` (0: no limit). False when none does: then `stages` is the best
// cut without limit. The model has at least pp * vpp layers.
bool balance_stages(Costs& costs, Strategy& strategy, Bytes limit);

// Bytes and forward + backward time of one micro-batch (FLOPs without a cluster) of each rank.
StageLines stage_lines(Costs& costs, const Strategy& strategy);

}  // namespace mega::planner
