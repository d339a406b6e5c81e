// Writes the plan: one program per pipeline rank from its blocks, schedule and memory.
#pragma once

#include <vector>

#include "ir/partitioned_graph.h"
#include "ir/plan.h"
#include "ir/schedule.h"
#include "planner/spec/job_spec.h"
#include "planner/strategy.h"

namespace mega::planner {

// All but Header::entries and the predictions that the caller knows (job, fingerprint, sizes and
// optimizer schedule are filled in from the job). Segment names: "init", "begin" (zero the
// gradients, count the tokens), "f<chunk>", "b<chunk>", "w<chunk>", "gather<chunk>",
// "reduce<chunk>", "tied", "update".
Plan emit_plan(const JobSpec& job, const PartitionedGraph& graph, const Strategy& strategy,
               const Schedule& schedule, const Durations& durations);

// Folds runs of instructions that repeat with micro-batches a constant step apart.
std::vector<Step> compress(std::vector<Instruction> instructions);

}  // namespace mega::planner
