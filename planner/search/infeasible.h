// Why a search found nothing, and the nearest thing to relax.
#pragma once

#include <vector>

#include "planner/search/search.h"
#include "planner/search/space.h"

namespace mega::planner {

// No combination is legal. Errors when the user's own values break the rules whatever the free
// fields are; else which rules stand in the way of the combination that breaks the fewest.
struct NoLegal {
  Errors errors;
  std::vector<Infeasible> reasons;
};
NoLegal explain_illegal(const JobSpec& job, const Choices& choices);

// Legal combinations exist, none fits: the figure of the smallest, and what would do.
Infeasible explain_memory(const JobSpec& job, const Choices& choices,
                          const SearchCallbacks& callbacks);

}  // namespace mega::planner
