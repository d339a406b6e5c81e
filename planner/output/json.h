// The JSON documents of the command line (README of planner/, section on JSON, has the keys).
// Doubles have at most nine decimals; what is not known is null.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "planner/output/estimate.h"
#include "planner/output/explain.h"
#include "planner/search/search.h"

namespace mega::planner {

std::string json_of(const Estimate& estimate);
// `top` are the estimates of result.top, in its order.
std::string json_of(const SearchResult& result, const std::vector<Estimate>& top);
std::string json_of(const Explanation& explanation);
std::string json_of(const Errors& errors);

// What a search took, for --stats: never part of the documents, which are the same in every run.
std::string stats_json(const SearchCounts& counts, double wall_seconds);

}  // namespace mega::planner
