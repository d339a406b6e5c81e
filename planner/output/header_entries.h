// The candidate inside a plan: what megaplan predicted travels with the program, so that
// `estimate` reads a plan alone. The runtime prints these entries and never looks into them.
#pragma once

#include <string>
#include <vector>

#include "ir/base/result.h"
#include "ir/plan.h"
#include "planner/output/estimate.h"

namespace mega::planner {

// The JSON object of a candidate as "layout.tp", "memory.peak_bytes", ..., less what the header
// says by itself and the per-stage table.
std::vector<HeaderEntry> header_entries(const Candidate& candidate);

// The inverse. `file` names the plan in errors: a plan written by hand carries no estimate.
Result<Estimate> read_estimate(const std::string& file, const Header& header);

}  // namespace mega::planner
