// The learning rate of a step: a pure function of the plan's schedule.
//
// Steps count from 1. Warm-up rises linearly from 0 and reaches the peak at its last step; then
//   constant      peak
//   linear        peak down to the minimum, over the steps up to decay_steps
//   cosine        min + (peak - min) * (1 + cos(pi r)) / 2, r the part of the decay that is done
//   inverse_sqrt  peak * sqrt(warmup / step), not below the minimum
// After decay_steps the minimum stays. Without decay_steps linear and cosine stay at the peak.
#pragma once

#include <cstdint>

#include "ir/plan.h"

namespace mega::runtime {

double learning_rate(const LearningRateSchedule& schedule, std::int64_t step);

}  // namespace mega::runtime
