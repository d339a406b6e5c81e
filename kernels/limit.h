// Bounds and factors, element by element.
//   scale              x -> y = value x; its own backward
//   clip               x -> y = x within [-value, value]
//   clip_backward      dy, x -> dx = dy where x is inside, else 0
//   soft_cap           x -> y = value tanh(x / value)
//   soft_cap_backward  dy, y -> dx = dy (1 - (y / value)^2)
// value is attributes.value. Every output may be the very buffer of any input.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/operand.h"
#include "kernels/portable.h"
#include "kernels/real.h"

namespace mega::kernels {

struct ScaleEach {
  const float* x;
  float* y;
  float value;
  MEGA_HD void operator()(std::int64_t i) const { y[i] = x[i] * value; }
};

// Written so that a NaN stays one.
struct ClipEach {
  const float* x;
  float* y;
  float value;
  MEGA_HD void operator()(std::int64_t i) const {
    y[i] = x[i] > value ? value : x[i] < -value ? -value : x[i];
  }
};

// tanh(u) = 2 sigmoid(2u) - 1
struct SoftCapEach {
  const float* x;
  float* y;
  float value;
  MEGA_HD void operator()(std::int64_t i) const {
    const Sigmoid s = Sigmoid::at(2 * x[i] / value);
    y[i] = value * (s.value - s.complement);
  }
};

struct ClipBackwardEach {
  const float* dy;
  const float* x;
  float* dx;
  float value;
  MEGA_HD void operator()(std::int64_t i) const {
    dx[i] = x[i] >= -value && x[i] <= value ? dy[i] : 0.0F;
  }
};

struct SoftCapBackwardEach {
  const float* dy;
  const float* y;
  float* dx;
  float value;
  MEGA_HD void operator()(std::int64_t i) const {
    const float t = y[i] / value;
    dx[i] = dy[i] * (1 - t * t);
  }
};

template <class Kernel, class Stream>
void limit(Stream& stream, const Call& call) {
  launch_elements(stream, count_of(call.outputs[0]),
                  Kernel{floats(call.inputs[0]), mutable_floats(call.outputs[0]),
                         static_cast<float>(call.attributes.value)});
}

template <class Kernel, class Stream>
void limit_backward(Stream& stream, const Call& call) {
  launch_elements(
      stream, count_of(call.outputs[0]),
      Kernel{floats(call.inputs[0]), floats(call.inputs[1]), mutable_floats(call.outputs[0]),
             static_cast<float>(call.attributes.value)});
}

}  // namespace mega::kernels
