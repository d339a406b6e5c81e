// The nearest legal neighbour of an illegal layout: one key changed, all rules asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/rules_table.h"

namespace mega::planner {

// "layout.tp", "training.global_batch", "cluster.nodes", ...: the numeric keys that rules name.
std::int64_t value_of(const Facts& facts, const std::string& key);
// Gives the key another value; dp follows the world where the user left it free.
void assign(Facts& facts, const std::string& key, std::int64_t value);

std::string number(std::int64_t value);

// "layout.tp 8"
std::string shown(const Facts& facts, const std::string& key);

// "layout.tp: 4, or training.global_batch: 1008 or 1056": for each key the nearest values on both
// sides of the present one that make all rules hold. Where no key alone can do that, the nearest
// that mend the rule called `id` and break no other, so that the user gets one step further.
std::string nearest(const Facts& facts, std::string_view id, const std::vector<std::string>& keys);

}  // namespace mega::planner
