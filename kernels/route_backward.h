// The gradient of routing; kernels/route.h says what route_backward computes.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/operand.h"
#include "kernels/portable.h"
#include "kernels/real.h"
#include "kernels/route.h"

namespace mega::kernels {

struct RouteBackwardRows {
  const float* dweights;
  const float* logits;
  const std::int32_t* chosen;
  const float* load;  // [b,e]: tokens of each expert; nullptr for none
  float* dlogits;
  std::int64_t experts, choices, batch;
  float scale, balance, z;
  bool sigmoid, normalize;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    lanes.at(0, [=, this](std::int64_t) {
      const Scores scores = Scores::of(logits + row * experts, nullptr, experts, sigmoid);
      float* out = dlogits + row * experts;
      balance_gradient(scores, out);
      add_weights_gradient(scores, row, out);
      // From the scores' gradient to that of the logits.
      float mean = 0;
      for (std::int64_t e = 0; !sigmoid && e < experts; ++e) mean += out[e] * scores.softmax(e);
      const float pull = 2 * z * (scores.top + std::log(scores.total));
      for (std::int64_t e = 0; e < experts; ++e) {
        const Sigmoid s = Sigmoid::at(scores.logits[e]);
        out[e] = sigmoid ? out[e] * s.value * s.complement : scores.softmax(e) * (out[e] - mean);
        if (z != 0) out[e] += pull * scores.softmax(e);
      }
    });
  }

 private:
  // Of the scores: balance * load, through their division by their sum where they are sigmoids.
  MEGA_HD void balance_gradient(const Scores& scores, float* out) const {
    for (std::int64_t e = 0; e < experts; ++e) {
      out[e] = 0;
      for (std::int64_t b = 0; load != nullptr && b < batch; ++b) {
        out[e] += balance * load[b * experts + e];
      }
    }
    if (load == nullptr || !sigmoid) return;
    const float sum = scores.sum();
    float mean = 0;
    for (std::int64_t e = 0; e < experts; ++e) mean += out[e] * scores.of(e) / sum;
    for (std::int64_t e = 0; e < experts; ++e) out[e] = (out[e] - mean) / sum;
  }

  MEGA_HD void add_weights_gradient(const Scores& scores, std::int64_t row, float* out) const {
    const float* in = dweights + row * choices;
    const std::int32_t* expert = chosen + row * choices;
    float sum = 1e-20F, mean = 0;
    for (std::int64_t i = 0; i < choices; ++i) sum += scores.of(expert[i]);
    for (std::int64_t i = 0; i < choices; ++i) mean += in[i] * scores.of(expert[i]) / sum;
    for (std::int64_t i = 0; i < choices; ++i) {
      out[expert[i]] += normalize ? scale * (in[i] - mean) / sum : scale * in[i];
    }
  }
};

template <class Stream>
void route_backward(Stream& stream, const Call& call) {
  const Attributes& a = call.attributes;
  const Operand& logits = call.inputs[1];
  const Operand& chosen = call.inputs[2];
  const bool has_load = call.index->inputs.size() == 4;
  launch_rows(stream, count_of(chosen) / last_dimension(chosen),
              RouteBackwardRows{
                  floats(call.inputs[0]), floats(logits), ints(chosen),
                  has_load ? floats(call.inputs[3]) : nullptr, mutable_floats(call.outputs[0]),
                  last_dimension(logits), last_dimension(chosen), logits.shape[1],
                  static_cast<float>(a.scale), static_cast<float>(a.balance),
                  static_cast<float>(a.z), a.sigmoid, a.normalize || (!a.sigmoid && !a.over_all)});
}

}  // namespace mega::kernels
