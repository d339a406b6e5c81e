#include "planner/spec/job_spec.h"

namespace mega::planner {

Bytes memory_margin(const JobSpec& job) {
  if (job.search.memory_margin) return *job.search.memory_margin;
  if (!job.cluster || job.cluster->gpu.is_cpu) return {};
  return job.cluster->gpu.memory / 25;
}

}  // namespace mega::planner
