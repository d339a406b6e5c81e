#include "planner/output/estimate.h"

#include <algorithm>
#include <utility>

#include "ir/base/check.h"
#include "ir/base/text.h"

namespace mega::planner {
namespace {

constexpr std::int64_t kWeightBytes = 4;  // a fp32 working weight, which is its own master

// Weights, gradients and optimizer state are buckets over the same parameters, so their sizes
// have the ratio of the recipe whatever the layout.
std::string byte_recipe(const Evaluation& evaluation) {
  if (evaluation.memory.empty() || evaluation.memory[0].parameters == Bytes(0)) return "unknown";
  const StageMemory& stage = evaluation.memory[0];
  const auto per_parameter = [&](Bytes bytes) {
    return static_cast<double>(bytes.count()) * kWeightBytes /
           static_cast<double>(stage.parameters.count());
  };
  const double gradient = per_parameter(stage.gradients);
  const double optimizer = per_parameter(stage.optimizer);
  return format_real(kWeightBytes + gradient + optimizer) + ": " + std::to_string(kWeightBytes) +
         " weight + " + format_real(gradient) + " gradient + " + format_real(optimizer) +
         " optimizer (fp32)";
}

}  // namespace

Estimate estimate_of(Candidate candidate) {
  Estimate estimate;
  estimate.bytes_per_parameter = byte_recipe(candidate.evaluation);
  estimate.candidate = std::move(candidate);
  return estimate;
}

Rates rates_of(const Candidate& candidate) {
  Rates rates;
  if (!candidate.has_times || candidate.evaluation.step_ns <= 0) return rates;
  const double gpu_seconds = static_cast<double>(candidate.evaluation.step_ns) / 1e9 *
                             static_cast<double>(candidate.world);
  rates.tokens_per_s_per_gpu = static_cast<double>(candidate.tokens_per_step) / gpu_seconds;
  rates.model_tflops_per_gpu = candidate.model_flops_per_step / gpu_seconds / 1e12;
  rates.hardware_tflops_per_gpu = candidate.hardware_flops_per_step / gpu_seconds / 1e12;
  if (candidate.peak_per_rank.count() > 0)
    rates.mfu = candidate.model_flops_per_step / gpu_seconds / candidate.peak_per_rank.count();
  return rates;
}

const std::vector<TimeTerm>& time_terms() {
  static const std::vector<TimeTerm> terms = {
      {"compute", "compute", &TimeTerms::compute_ns},
      {"recompute", "recomputation", &TimeTerms::recompute_ns},
      {"exposed_tp", "tp communication, exposed", &TimeTerms::exposed_tp_ns},
      {"exposed_cp", "cp communication, exposed", &TimeTerms::exposed_cp_ns},
      {"exposed_ep", "ep communication, exposed", &TimeTerms::exposed_ep_ns},
      {"exposed_pp", "pp transfers, exposed", &TimeTerms::exposed_pp_ns},
      {"exposed_dp", "dp reduction, exposed", &TimeTerms::exposed_dp_ns},
      {"bubble", "pipeline bubble", &TimeTerms::bubble_ns},
      {"optimizer", "optimizer", &TimeTerms::optimizer_ns},
      {"other", "other", &TimeTerms::other_ns},
  };
  return terms;
}

const std::vector<MemoryTerm>& memory_terms() {
  static const std::vector<MemoryTerm> terms = {
      {"parameters", &StageMemory::parameters}, {"gradients", &StageMemory::gradients},
      {"optimizer", &StageMemory::optimizer},   {"activations", &StageMemory::activations},
      {"temporary", &StageMemory::temporary},   {"communication", &StageMemory::communication},
      {"overhead", &StageMemory::overhead},
  };
  return terms;
}

const StageMemory& fullest_stage(const Evaluation& evaluation) {
  MEGA_CHECK(!evaluation.memory.empty(), "an evaluation without memory");
  return *std::max_element(
      evaluation.memory.begin(), evaluation.memory.end(),
      [](const StageMemory& a, const StageMemory& b) { return a.total < b.total; });
}

}  // namespace mega::planner
