// The plan as text: what megaplan writes and megarun reads.
#pragma once

#include <string>

#include "ir/base/result.h"
#include "ir/plan.h"

namespace mega {

// parse_plan(file, print_plan(plan)) == plan, for every plan and any printable names.
std::string print_plan(const Plan& plan);

// `file` names the text in diagnostics. Reports every bad line; refuses texts over
// kMaxPlanBytes, unknown versions, duplicate names, sizes that overflow and arenas over 2^47
// bytes. A plan that parses is well-formed (ids in range), not yet verified.
Result<Plan> parse_plan(const std::string& file, const std::string& text);

inline constexpr std::int64_t kMaxPlanBytes = std::int64_t{256} << 20;
inline constexpr std::int64_t kMaxArenaBytes = std::int64_t{1} << 47;

}  // namespace mega
