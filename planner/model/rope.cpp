#include "planner/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace mega::planner {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

// YaRN's magnitude (Peng et al. 2023, section 3.4, with DeepSeek's weight `a`).
double magnitude(double factor, double a) {
  return factor > 1 ? 0.1 * a * std::log(factor) + 1 : 1;
}

// Between the frequencies whose wave lengths are original_max_position over the two factors.
void set_llama3(const RopeScaling& scaling, Attributes& attributes) {
  const auto original = static_cast<double>(scaling.original_max_position);
  attributes.ramp_begin = scaling.low_frequency_factor * kTurn / original;
  attributes.ramp_end = scaling.high_frequency_factor * kTurn / original;
  attributes.by_frequency = true;
}

// Between the pairs that turn beta_fast and beta_slow times within original_max_position.
void set_yarn(const ModelSpec& model, std::int64_t dims, Attributes& attributes) {
  const RopeScaling& scaling = model.rope_scaling;
  const auto size = static_cast<double>(dims);
  const auto pair = [&](double turns) {
    const auto original = static_cast<double>(scaling.original_max_position);
    return size * std::log(original / (turns * kTurn)) / (2 * std::log(model.rope_theta));
  };
  attributes.ramp_begin = std::max(0.0, std::floor(pair(scaling.beta_fast)));
  attributes.ramp_end = std::min(size - 1, std::ceil(pair(scaling.beta_slow)));
  if (attributes.ramp_end <= attributes.ramp_begin) {
    attributes.ramp_end = attributes.ramp_begin + 0.001;
  }
  attributes.scale =
      magnitude(scaling.factor, scaling.mscale) / magnitude(scaling.factor, scaling.mscale_all_dim);
}

}  // namespace

Attributes rope_attributes(const ModelSpec& model, std::int64_t dims) {
  Attributes attributes{.theta = model.rope_theta, .interleaved = model.rope_interleaved};
  if (model.rope_scaling.kind == RopeScalingKind::None) return attributes;
  attributes.factor = model.rope_scaling.factor;
  switch (model.rope_scaling.kind) {
    case RopeScalingKind::None:
      break;
    case RopeScalingKind::Linear:  // every pair
      attributes.ramp_begin = -2;
      attributes.ramp_end = -1;
      break;
    case RopeScalingKind::Llama3:
      set_llama3(model.rope_scaling, attributes);
      break;
    case RopeScalingKind::Yarn:
      set_yarn(model, dims, attributes);
      break;
  }
  return attributes;
}

double attention_scale(const ModelSpec& model) {
  double scale = 1 / std::sqrt(static_cast<double>(model.head_dim));
  if (model.mla && model.rope_scaling.kind == RopeScalingKind::Yarn) {
    const double m = magnitude(model.rope_scaling.factor, model.rope_scaling.mscale_all_dim);
    scale *= m * m;
  }
  return scale;
}

}  // namespace mega::planner
