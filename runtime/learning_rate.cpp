#include "runtime/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mega::runtime {

double learning_rate(const LearningRateSchedule& schedule, std::int64_t step) {
  const double peak = schedule.learning_rate;
  const double least = schedule.min_learning_rate;
  const auto at = static_cast<double>(step);
  const auto warmup = static_cast<double>(schedule.warmup_steps);
  if (step <= schedule.warmup_steps) return peak * at / warmup;
  if (schedule.kind == "constant") return peak;
  const bool has_end = schedule.decay_steps > 0;
  if (has_end && step > schedule.decay_steps) return least;
  if (schedule.kind == "inverse_sqrt") {
    return std::max(least, peak * std::sqrt(std::max(warmup, 1.0)) / std::sqrt(at));
  }
  if (!has_end) return peak;
  // warmup < step <= decay_steps here, so the divisor is positive.
  const double done = (at - warmup) / (static_cast<double>(schedule.decay_steps) - warmup);
  if (schedule.kind == "linear") return peak - (peak - least) * done;
  return least + (peak - least) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace mega::runtime
