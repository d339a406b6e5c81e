// Proves, before anything starts, that a plan can only run to its end and compute one thing:
// shapes and types match; buffers stay in the arena and live ranges don't overlap; every read
// waits for its write; all members of a group issue the same collectives in the same order with
// the same sizes; sends match receives; nothing waits in a circle even with unbuffered sends.
#pragma once

#include <string>

#include "ir/base/diagnostic.h"
#include "ir/plan.h"

namespace mega {

// All violations, each naming program or rank, instruction and reason; empty means proved.
// Works per program and group signature, so its cost is that of the text times loop counts.
std::vector<Diagnostic> verify(const Plan& plan, const std::string& file);

}  // namespace mega
