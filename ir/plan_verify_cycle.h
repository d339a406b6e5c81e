// Finds a circle among things that wait for each other. Internal to plan_verify.
#pragma once

#include <utility>
#include <vector>

namespace mega::verifying {

// An edge {a, b} says that b can't happen before a. The nodes of one circle, each before the one
// that needs it, in short form; empty when there is an order in which all can happen.
std::vector<int> find_cycle(int nodes, const std::vector<std::pair<int, int>>& edges);

}  // namespace mega::verifying
