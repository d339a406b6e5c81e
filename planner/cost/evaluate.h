// What a layout costs: the one function that the search ranks by, and that the plan keeps.
//
// evaluate() composes block costs; lowering and simulating the plan must give the same step time
// and the same arena. The predictions in a plan are durations().
//
// Compute is priced at the peak of the job's precision, and bytes as fp32 whatever the precision:
// the graph has no casts yet, so this is what a plan holds and moves.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/schedule.h"
#include "planner/cost/costs.h"
#include "planner/strategy.h"

namespace mega::planner {

// Between neighbours along the ring of pipeline ranks; zeros without a cluster.
std::vector<std::int64_t> transfers_ns(Costs& costs, const Strategy& strategy);

// Of every segment and transfer of the plan; zeros without a cluster. `stages` must be set.
Durations durations(Costs& costs, const Strategy& strategy);

// Time terms are those of the rank with the largest compute.
Evaluation evaluate(Costs& costs, const Strategy& strategy);

}  // namespace mega::planner
