// Proves, before anything starts, that a plan can only run to its end and compute one thing:
// shapes and types match; buffers stay in the arena and live ranges don't overlap; every read
// finds what was written for it (the right micro-batch, too) and waits for that write; all
// members of a group issue the same collectives in the same order with the same sizes; sends match
// receives; nothing waits in a circle even with unbuffered sends; collectives of the same ranks on
// two queues have an order. ir/README.md tells how.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/plan.h"

namespace mega {

// All violations (the first fifty in full), each naming program or rank, instruction and reason;
// empty means proved. Works per program and class of ranks, so its cost is that of the text times
// its loops, whatever the number of ranks.
std::vector<Diagnostic> verify(const Plan& plan, const std::string& file);

}  // namespace mega
