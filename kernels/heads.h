// Heads in two parts: one of each head, one that all heads may share.
//   join_heads   a [s,b,g,o], c [s,b,g,i] or [s,b,i] -> y [s,b,g,d], d = o + i: a, then c
//   split_heads  y -> a, c; of a shared part the sum over the heads
// Letters between may differ; the last of each operand is the part.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/operand.h"
#include "kernels/portable.h"

namespace mega::kernels {

// Sizes of the parts, and how many heads share a second one.
struct HeadParts {
  std::int64_t first, second, sharers;

  static HeadParts of(const Operand& whole, const Operand& first, const Operand& second) {
    const HeadParts parts{
        last_dimension(first), last_dimension(second),
        count_of(first) / last_dimension(first) * last_dimension(second) / count_of(second)};
    MEGA_CHECK(parts.first + parts.second == last_dimension(whole),
               "a head of " + std::to_string(last_dimension(whole)) + " in parts of " +
                   std::to_string(parts.first) + " and " + std::to_string(parts.second));
    return parts;
  }
};

struct JoinHeadsRows {
  const float* first;
  const float* second;
  float* y;
  HeadParts parts;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    const float* a = first + row * parts.first;
    const float* c = second + row / parts.sharers * parts.second;
    float* out = y + row * (parts.first + parts.second);
    float* tail = out + parts.first;
    lanes.for_each(parts.first, [=](std::int64_t i) { out[i] = a[i]; });
    lanes.for_each(parts.second, [=](std::int64_t i) { tail[i] = c[i]; });
  }
};

// One launch row is a second part with the heads that share it.
struct SplitHeadsRows {
  const float* y;
  float* first;
  float* second;
  HeadParts parts;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    const std::int64_t size = parts.first + parts.second;
    const float* in = y + row * parts.sharers * size;
    for (std::int64_t head = 0; head < parts.sharers; ++head) {
      const float* from = in + head * size;
      float* to = first + (row * parts.sharers + head) * parts.first;
      lanes.for_each(parts.first, [=](std::int64_t i) { to[i] = from[i]; });
    }
    lanes.column_sums(
        parts.second, parts.sharers,
        [tails = in + parts.first, size](std::int64_t head, std::int64_t i) {
          return tails[head * size + i];
        },
        [out = second + row * parts.second](std::int64_t i, double total) {
          out[i] = static_cast<float>(total);
        });
  }
};

template <class Stream>
void join_heads(Stream& stream, const Call& call) {
  const HeadParts parts = HeadParts::of(call.outputs[0], call.inputs[0], call.inputs[1]);
  launch_rows(stream, count_of(call.inputs[0]) / parts.first,
              JoinHeadsRows{floats(call.inputs[0]), floats(call.inputs[1]),
                            mutable_floats(call.outputs[0]), parts});
}

template <class Stream>
void split_heads(Stream& stream, const Call& call) {
  const HeadParts parts = HeadParts::of(call.inputs[0], call.outputs[0], call.outputs[1]);
  launch_rows(stream, count_of(call.outputs[1]) / parts.second,
              SplitHeadsRows{floats(call.inputs[0]), mutable_floats(call.outputs[0]),
                             mutable_floats(call.outputs[1]), parts});
}

}  // namespace mega::kernels
