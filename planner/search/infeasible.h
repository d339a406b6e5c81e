// Why a search found nothing, and the nearest thing to relax.
#pragma once

#include <vector>

#include "planner/search/search.h"
#include "planner/search/space.h"

namespace mega::planner {

// Fills `infeasible` and `nearest` of a result that found nothing legal; `errors` too when the
// user's own values break the rules whatever the free fields are. Named are the broken rules of
// the combination that breaks the fewest.
void explain_illegal(const JobSpec& job, const Choices& choices, SearchResult& result);

// Legal combinations exist, none fits: the figure of the smallest, and what would do.
void explain_memory(const JobSpec& job, const Choices& choices, const SearchCallbacks& callbacks,
                    SearchResult& result);

}  // namespace mega::planner
