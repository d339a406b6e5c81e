// The one layout that a job file describes: what `layout:` gives, defaults for the rest. For the
// commands that take one layout; search leaves open what is absent.
//
//   cp, vpp, ep, etp 1 (vpp 2 with a V, or as many as given stages ask for) · schedule 1f1b ·
//   recompute none · zero 0 · context ring · dp from the world (1 without a cluster: the least
//   world) · sequence_parallel where tp > 1 · overlap of gradients where dp > 1 and of the pipeline
//   where pp > 1 · micro_batch must be given
#pragma once

#include <string>
#include <vector>

#include "ir/base/result.h"
#include "planner/spec/job_spec.h"
#include "planner/strategy.h"

namespace mega::planner {

// Normalised; `stages` is empty for auto, which the caller balances. All broken rules at once.
Result<Strategy> complete_layout(const JobSpec& job);

// The fields of the layout that have their default, in the order of Strategy, for printing.
std::vector<std::string> defaulted_fields(const JobSpec& job);

}  // namespace mega::planner
