// rope: rotary positions.
//   x [s,b,...,d] -> y: in each head of row s at position P (kernels/sequence.h), pair j is turned
//   by the angle P theta^(-2j/D), where D = attributes.limit dimensions turn (0: all d) and the
//   rest pass. Pairs are (j, j + D/2), or (2j, 2j + 1) when attributes.interleaved;
//   attributes.inverse turns back, which is the backward. y may be x's buffer.
// Longer contexts (attributes.factor): a pair of frequency f turns by f (1 - p + p / factor), where
// p falls from 1 to 0 between attributes.ramp_begin and ramp_end as the frequency grows: along f
// when by_frequency (Llama 3), else p grows along the pair's number j (YaRN; Peng et al. 2023). The
// turned dimensions are multiplied by attributes.scale (0: 1). Angles in double: at position
// 100,000 a float's angle is off by 0.004.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "kernels/operand.h"
#include "kernels/portable.h"
#include "kernels/sequence.h"

namespace mega::kernels {

// Frequencies of long contexts.
struct RopeScaling {
  double factor;  // 0: as they are
  double begin, end;
  bool by_frequency;

  MEGA_HD double of(double frequency, double pair) const {
    if (factor == 0) return frequency;
    const double at = ((by_frequency ? frequency : pair) - begin) / (end - begin);
    const double within = at < 0 ? 0 : at > 1 ? 1 : at;
    const double slowed = by_frequency ? 1 - within : within;
    return frequency * (slowed / factor + (1 - slowed));
  }
};

struct RopeRows {
  static constexpr std::int64_t kMaxPairs = 512;

  const float* x;
  float* y;
  Sequence sequence;
  std::int64_t heads;  // per position: all dimensions between s and d
  std::int64_t columns, pairs;
  double log2_ratio;  // of the frequencies of neighbouring pairs
  bool inverse, interleaved;
  RopeScaling scaling;
  double gain;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    float cosines[kMaxPairs];
    float sines[kMaxPairs];
    const auto position = static_cast<double>(sequence.position(row));
    lanes.for_each(pairs, [&, this](std::int64_t j) {
      const auto pair = static_cast<double>(j);
      const double angle = position * scaling.of(std::exp2(pair * log2_ratio), pair);
      cosines[j] = static_cast<float>(gain * std::cos(angle));
      sines[j] = static_cast<float>(gain * (inverse ? -std::sin(angle) : std::sin(angle)));
    });
    for (std::int64_t head = row * heads; head < (row + 1) * heads; ++head) {
      const float* in = x + head * columns;
      float* out = y + head * columns;
      if (interleaved) {
        lanes.for_each(pairs, [&, in, out](std::int64_t j) {
          turn(in[2 * j], in[2 * j + 1], cosines[j], sines[j], out[2 * j], out[2 * j + 1]);
        });
      } else {
        lanes.for_each(pairs, [&, in, out, half = pairs](std::int64_t j) {
          turn(in[j], in[j + half], cosines[j], sines[j], out[j], out[j + half]);
        });
      }
      lanes.for_each(columns - 2 * pairs, [in = in + 2 * pairs, out = out + 2 * pairs](
                                              std::int64_t i) { out[i] = in[i]; });
    }
  }

 private:
  // By value, so that `first` may be where a is.
  MEGA_HD static void turn(float a, float b, float cosine, float sine, float& first,
                           float& second) {
    first = a * cosine - b * sine;
    second = b * cosine + a * sine;
  }
};

template <class Stream>
void rope(Stream& stream, const Call& call) {
  const Operand& x = call.inputs[0];
  const std::int64_t columns = last_dimension(x);
  const std::int64_t turned = call.attributes.limit == 0 ? columns : call.attributes.limit;
  MEGA_CHECK(turned % 2 == 0 && turned <= columns && turned <= 2 * RopeRows::kMaxPairs,
             "cannot rotate " + std::to_string(turned) + " of " + std::to_string(columns));
  launch_rows(stream, x.shape[0],
              RopeRows{floats(x), mutable_floats(call.outputs[0]), sequence_of(call),
                       count_of(x) / x.shape[0] / columns, columns, turned / 2,
                       -2 * std::log2(call.attributes.theta) / static_cast<double>(turned),
                       call.attributes.inverse, call.attributes.interleaved,
                       RopeScaling{call.attributes.factor, call.attributes.ramp_begin,
                                   call.attributes.ramp_end, call.attributes.by_frequency},
                       call.attributes.scale == 0 ? 1.0 : call.attributes.scale});
}

}  // namespace mega::kernels
