#include "planner/spec/job_spec.h"

namespace mega::planner {

bool is_gated(ActivationKind kind) {
  return kind == ActivationKind::SwiGlu || kind == ActivationKind::GeGlu;
}

std::int64_t rotated_dims(const ModelSpec& model) {
  const double dims = model.rope_fraction * static_cast<double>(model.head_dim);
  return static_cast<std::int64_t>(dims) / 2 * 2;
}

Bytes memory_margin(const JobSpec& job) {
  if (job.search.memory_margin) return *job.search.memory_margin;
  if (!job.cluster || job.cluster->gpu.is_cpu) return {};
  return job.cluster->gpu.memory / 25;
}

}  // namespace mega::planner
