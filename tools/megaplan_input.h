// Jobs and plans as the commands take them.
#pragma once

#include <string>
#include <vector>

#include "ir/base/result.h"
#include "ir/plan.h"
#include "planner/spec/read_spec.h"
#include "tools/megaplan_commands.h"

namespace mega::tool {

// The job of the options, with `more` settings over theirs.
planner::ReadJob read_job(const Options& options, const std::vector<std::string>& more = {});

struct ReadPlan {
  Result<Plan> plan;
  Sources sources;
};
ReadPlan read_plan(const std::string& path);

// "tp=8,stages=[3,5]" as settings of the job: "layout.tp=8", "layout.stages=[3,5]".
Result<std::vector<std::string>> layout_settings(const std::string& option,
                                                 const std::string& text);

// The job with these settings of its layout over it; errors in them are located in `option`.
planner::ReadJob read_layout(const Options& options, const std::string& option,
                             const std::vector<std::string>& settings);

std::string specs_directory(const Options& options);

// Refuses outputs that would replace the input or one another.
Status no_overwriting(const Options& options);

Diagnostic usage_error(const std::string& message, const std::string& help);

}  // namespace mega::tool
