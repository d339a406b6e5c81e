// Names for messages: ranks with their coordinates, instructions with their numbers.
#pragma once

#include <cstdint>
#include <string>

#include "ir/plan.h"

namespace mega::runtime {

// "rank 3 (a=1,b=1)": axes of the first mesh longer than one.
std::string describe_rank(const Plan& plan, int rank);

// "run f0 mb=3 slot=1" or "exchange along a: send x mb=3, receive y mb=4"; `turn` of its loop.
std::string describe(const Plan& plan, const Program& program, const Instruction& instruction,
                     std::int64_t turn);

}  // namespace mega::runtime
