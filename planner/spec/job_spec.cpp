#include "planner/spec/job_spec.h"

namespace mega::planner {

bool is_gated(ActivationKind kind) {
  return kind == ActivationKind::SwiGlu || kind == ActivationKind::GeGlu;
}

bool has_experts(const MoeSpec& moe, int layer) {
  if (layer < moe.first_dense_layers) return false;
  if (moe.layer_pattern.empty()) return true;
  const auto position = static_cast<std::size_t>(layer - moe.first_dense_layers);
  return moe.layer_pattern[position % moe.layer_pattern.size()] == 'e';
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
