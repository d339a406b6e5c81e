// The activation functions and their backwards: gelu, gelu_tanh, relu2, swiglu, geglu.
// Every output may be the very buffer of any input.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/operand.h"
#include "kernels/portable.h"
#include "kernels/real.h"

namespace mega::kernels {

// x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3), is x sigmoid(2u): no tanh, and no
// cancellation where x is negative.
struct TanhGate {
  Sigmoid gate;      // of 2u
  float derivative;  // of 2u by x

  MEGA_HD static TanhGate at(float x) {
    constexpr float kTwoSlope = 1.59576912F;  // 2 sqrt(2/pi)
    constexpr float kCubic = 0.044715F;
    const float square = x * x;
    return {Sigmoid::at(kTwoSlope * x * multiply_add(kCubic, square, 1.0F)),
            kTwoSlope * multiply_add(3 * kCubic, square, 1.0F)};
  }
};

struct GeluTanhEach {
  const float* x;
  float* y;
  MEGA_HD void operator()(std::int64_t i) const { y[i] = x[i] * TanhGate::at(x[i]).gate.value; }
};

struct GeluTanhBackwardEach {
  const float* dy;
  const float* x;
  float* dx;
  MEGA_HD void operator()(std::int64_t i) const {
    const TanhGate at = TanhGate::at(x[i]);
    const float slope = x[i] * at.derivative * at.gate.complement;
    dx[i] = dy[i] * at.gate.value * (1.0F + slope);
  }
};

// Phi(x) = erfc(-x / sqrt 2) / 2, the normal distribution; also gives its density's factor.
struct NormalGate {
  float gate;     // Phi(x)
  float density;  // e^(-x^2/2) / sqrt(2 pi)

  MEGA_HD static NormalGate at(float x) {
    const float z = std::fabs(x) * 0.707106781F;
    const float bell = exponential(-0.5F * x * x);
    const float tail = 0.5F * bell * scaled_erfc(z);  // Phi(-|x|)
    return {x < 0 ? tail : 1.0F - tail, 0.398942280F * bell};
  }
};

struct GeluEach {
  const float* x;
  float* y;
  MEGA_HD void operator()(std::int64_t i) const { y[i] = x[i] * NormalGate::at(x[i]).gate; }
};

struct GeluBackwardEach {
  const float* dy;
  const float* x;
  float* dx;
  MEGA_HD void operator()(std::int64_t i) const {
    const NormalGate at = NormalGate::at(x[i]);
    dx[i] = dy[i] * (at.gate + x[i] * at.density);
  }
};

// y = max(x, 0)^2 (So et al. 2021)
struct Relu2Each {
  const float* x;
  float* y;
  MEGA_HD void operator()(std::int64_t i) const {
    const float positive = x[i] < 0 ? 0.0F : x[i];  // of a NaN, the NaN
    y[i] = positive * positive;
  }
};

struct Relu2BackwardEach {
  const float* dy;
  const float* x;
  float* dx;
  MEGA_HD void operator()(std::int64_t i) const { dx[i] = x[i] > 0 ? 2 * x[i] * dy[i] : 0.0F; }
};

// y = silu(gate) * up, silu(x) = x sigmoid(x)
struct SwiGluEach {
  const float* gate;
  const float* up;
  float* y;
  MEGA_HD void operator()(std::int64_t i) const {
    y[i] = gate[i] * Sigmoid::at(gate[i]).value * up[i];
  }
};

struct SwiGluBackwardEach {
  const float* dy;
  const float* gate;
  const float* up;
  float* dgate;
  float* dup;
  MEGA_HD void operator()(std::int64_t i) const {
    const float x = gate[i];
    const float u = up[i];
    const float d = dy[i];
    const Sigmoid s = Sigmoid::at(x);
    dgate[i] = d * u * s.value * (1.0F + x * s.complement);
    dup[i] = d * x * s.value;
  }
};

// y = gelu_tanh(gate) * up
struct GeGluEach {
  const float* gate;
  const float* up;
  float* y;
  MEGA_HD void operator()(std::int64_t i) const {
    y[i] = gate[i] * TanhGate::at(gate[i]).gate.value * up[i];
  }
};

struct GeGluBackwardEach {
  const float* dy;
  const float* gate;
  const float* up;
  float* dgate;
  float* dup;
  MEGA_HD void operator()(std::int64_t i) const {
    const float x = gate[i];
    const float u = up[i];
    const float d = dy[i];
    const TanhGate at = TanhGate::at(x);
    dgate[i] = d * u * at.gate.value * (1.0F + x * at.derivative * at.gate.complement);
    dup[i] = d * x * at.gate.value;
  }
};

template <class Kernel, class Stream>
void activation(Stream& stream, const Call& call) {
  launch_elements(stream, count_of(call.outputs[0]),
                  Kernel{floats(call.inputs[0]), mutable_floats(call.outputs[0])});
}

// dy, x -> dx; also gate, up -> y.
template <class Kernel, class Stream>
void activation_of_two(Stream& stream, const Call& call) {
  launch_elements(
      stream, count_of(call.outputs[0]),
      Kernel{floats(call.inputs[0]), floats(call.inputs[1]), mutable_floats(call.outputs[0])});
}

// dy, gate, up -> dgate, dup
template <class Kernel, class Stream>
void gated_backward(Stream& stream, const Call& call) {
  launch_elements(stream, count_of(call.outputs[0]),
                  Kernel{floats(call.inputs[0]), floats(call.inputs[1]), floats(call.inputs[2]),
                         mutable_floats(call.outputs[0]), mutable_floats(call.outputs[1])});
}

}  // namespace mega::kernels
