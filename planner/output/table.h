// What people read: tables within 80 columns, every figure with its unit.
#pragma once

#include <string>
#include <vector>

#include "planner/output/estimate.h"
#include "planner/output/explain.h"
#include "planner/search/search.h"

namespace mega::planner {

// "gpt3-175b on dgx-a100-80g, 1024 GPUs; sequence 2048, global batch 1536, bf16".
std::string title_of(const JobSpec& job);
std::string title_of(const Header& header);

std::string table_of(const Estimate& estimate);
// `top` are the estimates of result.top, in its order. The best one in full, the others a line.
std::string table_of(const SearchResult& result, const std::vector<Estimate>& top);
std::string table_of(const Explanation& explanation);

}  // namespace mega::planner
