// layer_norm and rms_norm over the last dimension of x.
//   layer_norm  x, weight, bias -> y, mean, rstd   y = (x - mean) rstd w + bias; bias may lack
//   rms_norm    x, weight -> y, rstd               y = x rstd w
// w = weight + attributes.value: Gemma and Nemotron store the distance from 1.
// rstd = 1 / sqrt(mean of (x - mean)^2 + attributes.epsilon), the mean being 0 in rms_norm.
// y may be x's buffer.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/operand.h"
#include "kernels/portable.h"
#include "kernels/real.h"

namespace mega::kernels {

struct NormRows {
  const float* x;
  const float* weight;
  const float* bias;  // null for rms_norm
  float* y;
  float* mean;  // null for rms_norm
  float* rstd;
  std::int64_t columns;
  float epsilon, offset;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    const float* in = x + row * columns;
    float* out = y + row * columns;
    const auto size = static_cast<float>(columns);
    float center = 0;
    if (mean != nullptr) {
      center = lanes.sum(columns, [=](std::int64_t i) { return in[i]; }) / size;
      lanes.at(0, [=, m = mean](std::int64_t) { m[row] = center; });
    }
    const float square = lanes.sum(columns, [=](std::int64_t i) {
      const float from_center = in[i] - center;
      return from_center * from_center;
    });
    const float scale = 1.0F / std::sqrt(square / size + epsilon);
    lanes.at(0, [=, r = rstd](std::int64_t) { r[row] = scale; });
    if (bias != nullptr) {
      lanes.for_each(columns, [=, w = weight, b = bias, shift = offset](std::int64_t i) {
        out[i] = multiply_add((in[i] - center) * scale, w[i] + shift, b[i]);
      });
    } else {
      lanes.for_each(columns, [=, w = weight, shift = offset](std::int64_t i) {
        out[i] = (in[i] - center) * scale * (w[i] + shift);
      });
    }
  }
};

template <class Stream>
void layer_norm(Stream& stream, const Call& call) {
  const std::int64_t columns = last_dimension(call.inputs[0]);
  const float* bias = call.index->inputs.size() == 3 ? floats(call.inputs[2]) : nullptr;
  launch_rows(stream, count_of(call.inputs[0]) / columns,
              NormRows{floats(call.inputs[0]), floats(call.inputs[1]), bias,
                       mutable_floats(call.outputs[0]), mutable_floats(call.outputs[1]),
                       mutable_floats(call.outputs[2]), columns,
                       static_cast<float>(call.attributes.epsilon),
                       static_cast<float>(call.attributes.value)});
}

template <class Stream>
void rms_norm(Stream& stream, const Call& call) {
  const std::int64_t columns = last_dimension(call.inputs[0]);
  launch_rows(stream, count_of(call.inputs[0]) / columns,
              NormRows{floats(call.inputs[0]), floats(call.inputs[1]), nullptr,
                       mutable_floats(call.outputs[0]), nullptr, mutable_floats(call.outputs[1]),
                       columns, static_cast<float>(call.attributes.epsilon),
                       static_cast<float>(call.attributes.value)});
}

}  // namespace mega::kernels
