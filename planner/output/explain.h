// Why a layout is as it is: every rule with pass or fail, and two layouts term by term.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/base/result.h"
#include "planner/output/estimate.h"
#include "planner/rules.h"

namespace mega::planner {

// One layout: the best that the job's free fields allow. When none is legal or fits, the nearest
// that was found, and the rule that it breaks.
struct Explained {
  std::optional<Estimate> estimate;  // absent when a rule of the layout is broken
  std::vector<RuleResult> rules;     // the last is "memory"
  std::string summary;               // "tp2 pp2 dp2 mb1"
};

struct Difference {
  std::string term;  // "step_time_s", "memory.activations_bytes"
  double a = 0, b = 0;
};

struct Explanation {
  std::vector<Explained> layouts;  // one or two
  std::vector<Difference> differences;
};

// Errors only when there is nothing to explain (no cluster, values that no field has).
Result<Explained> explain(Planner& planner);

Explanation compare(std::vector<Explained> layouts);

}  // namespace mega::planner
