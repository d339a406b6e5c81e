// The update of flat parts of the parameters, in one pass over memory.
//   square_sum  x -> sum of squares in double; 0 where another rank owns this part
//   adamw       gradient, square_sum -> weight, m, v, all read and written
//   sgd         gradient, square_sum -> weight, velocity; velocity isn't touched without momentum
// attributes.clip > 0 scales gradients by min(1, clip / (norm + 1e-6)), norm the root of the
// square_sum of the whole model; at clip 0 square_sum isn't read. attributes.decay applies
// scalars.weight_decay: to the weight in adamw (decoupled), to the gradient in sgd, as PyTorch's
// AdamW and SGD. A gradient that is NaN or infinite makes the weight NaN.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/operand.h"
#include "kernels/portable.h"

namespace mega::kernels {

struct SquareSum {
  const float* x;
  double* result;
  bool is_owner, accumulate;
  MEGA_HD double operator()(std::int64_t i) const {
    return static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  MEGA_HD void finish(double total) const {
    const double share = is_owner ? total : 0.0;
    *result = accumulate ? *result + share : share;
  }
};

template <class Stream>
void square_sum(Stream& stream, const Call& call) {
  launch_total(stream, call.is_owner ? count_of(call.inputs[0]) : 0,
               SquareSum{floats(call.inputs[0]), mutable_doubles(call.outputs[0]), call.is_owner,
                         accumulates(call, 0)});
}

struct Clip {
  const double* square_sum;  // null for none
  double limit;
  MEGA_HD float factor() const {
    if (square_sum == nullptr) return 1.0F;
    const double ratio = limit / (std::sqrt(*square_sum) + 1e-6);
    return static_cast<float>(ratio > 1 ? 1.0 : ratio);  // a NaN stays
  }
  static Clip of(const Call& call) {
    if (call.attributes.clip == 0) return {nullptr, 0};
    return {doubles(call.inputs[1]), call.attributes.clip};
  }
};

// A row of an optimizer kernel: what a core updates at a time.
inline constexpr std::int64_t kUpdateChunk = 8192;
MEGA_HD inline std::int64_t chunk_size(std::int64_t count, std::int64_t row) {
  const std::int64_t rest = count - row * kUpdateChunk;
  return rest < kUpdateChunk ? rest : kUpdateChunk;
}

//   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2
//   weight = weight (1 - lr decay) - lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon)
struct AdamWChunks {
  const float* gradient;
  float* weight;
  float* m;
  float* v;
  std::int64_t count;
  Clip clip;
  float beta1, beta2, rest1, rest2;  // betas and 1 - betas
  float keep;                        // 1 - lr decay
  float step_size;                   // lr / (1 - b1^t)
  float root_correction;             // 1 / sqrt(1 - b2^t)
  float epsilon;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    const float factor = clip.factor();
    const std::int64_t start = row * kUpdateChunk;
    lanes.for_each(chunk_size(count, row),
                   [=, g = gradient + start, w = weight + start, first = m + start,
                    second = v + start, a = *this](std::int64_t i) {
                     const float grad = g[i] * factor;
                     const float m_new = a.beta1 * first[i] + a.rest1 * grad;
                     const float v_new = a.beta2 * second[i] + a.rest2 * grad * grad;
                     const float root = std::sqrt(v_new) * a.root_correction + a.epsilon;
                     first[i] = m_new;
                     second[i] = v_new;
                     w[i] = w[i] * a.keep - a.step_size * (m_new / root);
                   });
  }
};

template <class Stream>
void adamw(Stream& stream, const Call& call) {
  const Attributes& a = call.attributes;
  const auto step = static_cast<double>(call.scalars.step);
  const double rate = call.scalars.learning_rate;
  const std::int64_t count = count_of(call.inputs[0]);
  const auto real = [](double x) { return static_cast<float>(x); };
  launch_rows(
      stream, (count + kUpdateChunk - 1) / kUpdateChunk,
      AdamWChunks{floats(call.inputs[0]), mutable_floats(call.outputs[0]),
                  mutable_floats(call.outputs[1]), mutable_floats(call.outputs[2]), count,
                  Clip::of(call), real(a.beta1), real(a.beta2), real(1 - a.beta1),
                  real(1 - a.beta2), real(a.decay ? 1 - rate * call.scalars.weight_decay : 1),
                  real(rate / (1 - std::pow(a.beta1, step))),
                  real(1 / std::sqrt(1 - std::pow(a.beta2, step))), real(a.epsilon)});
}

//   g = gradient + decay weight,  velocity = momentum velocity + g,  weight -= lr velocity
struct SgdChunks {
  const float* gradient;
  float* weight;
  float* velocity;  // null without momentum
  std::int64_t count;
  Clip clip;
  float learning_rate, decay, momentum;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    const float factor = clip.factor();
    const std::int64_t start = row * kUpdateChunk;
    lanes.for_each(
        chunk_size(count, row),
        [=, g = gradient + start, w = weight + start,
         speed = velocity == nullptr ? nullptr : velocity + start, a = *this](std::int64_t i) {
          float change = g[i] * factor + a.decay * w[i];
          if (speed != nullptr) {
            change = a.momentum * speed[i] + change;
            speed[i] = change;
          }
          w[i] = w[i] - a.learning_rate * change;
        });
  }
};

template <class Stream>
void sgd(Stream& stream, const Call& call) {
  const Attributes& a = call.attributes;
  const std::int64_t count = count_of(call.inputs[0]);
  launch_rows(stream, (count + kUpdateChunk - 1) / kUpdateChunk,
              SgdChunks{floats(call.inputs[0]), mutable_floats(call.outputs[0]),
                        a.beta1 == 0 ? nullptr : mutable_floats(call.outputs[1]), count,
                        Clip::of(call), static_cast<float>(call.scalars.learning_rate),
                        static_cast<float>(a.decay ? call.scalars.weight_decay : 0.0),
                        static_cast<float>(a.beta1)});
}

}  // namespace mega::kernels
