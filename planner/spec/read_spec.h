// Reads a job file: the one way from a user's YAML to a JobSpec.
//
//   ReadJob read = read_job("job.yaml", {"layout.tp=8"}, specs_directory);
//   if (!read.job.ok()) std::cerr << render(read.job.errors(), read.sources);
//
// Strict, located, all errors at once. What keys there are, specs/README.md says.
#pragma once

#include <string>
#include <vector>

#include "ir/base/result.h"
#include "planner/spec/job_spec.h"

namespace mega::planner {

struct ReadJob {
  Result<JobSpec> job;
  Sources sources;  // also when the job has errors, to render them
};

// `path_or_dash`: "-" is the standard input. `sets`: KEY=VALUE each, applied over the file.
ReadJob read_job(const std::string& path_or_dash, const std::vector<std::string>& sets,
                 const std::string& specs_directory);

}  // namespace mega::planner
