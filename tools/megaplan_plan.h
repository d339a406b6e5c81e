// From a chosen layout to a plan on disk.
#pragma once

#include <string>

#include "ir/base/result.h"
#include "planner/compile.h"

namespace mega::tool {

// Compiles, proves and writes. A plan of ours that doesn't verify is our bug and stops the program.
Status write_plan(planner::Planner& planner, const planner::Strategy& strategy,
                  const std::string& path);

}  // namespace mega::tool
