// Attention without the score matrix.
//   attention           q [s,b,g,r,d], k [t,b,g,d], v [t,b,g,j] -> o [s,b,g,r,j], lse [s,b,g,r]
//   attention_backward  do, q, k, v, o, lse -> dq, dk, dv
// r query heads share each of the g key and value heads. Scores are attributes.scale q.k; when
// attributes.causal, a query sees keys up to its own position (kernels/sequence.h has those of
// queries and keys). Outputs that accumulate go on from what other keys have left there. lse is the
// log of the sum of a query's exponentiated scores; of no visible key it is -inf, and o is 0.
// Outputs may not be the buffers of inputs.
//
// Queries and keys are taken in tiles (Dao et al. 2022): the forward keeps a running maximum and
// sum per query and rescales its output when the maximum grows; the backward recomputes
// probabilities as e^(score - lse). Memory beside the operands, on the stack:
//   2 tiles of kQueryTile x kKeyTile floats and two floats per query of a tile, 33 KiB.
// The structs below are the parts between a tile's matrix products; a row is a query of the tile.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/portable.h"
#include "kernels/real.h"
#include "kernels/sequence.h"

namespace mega::kernels {

inline constexpr std::int64_t kQueryTile = 64;
inline constexpr std::int64_t kKeyTile = 64;

// How many of a tile's keys each query sees.
struct Visibility {
  std::int64_t keys;   // of the tile
  std::int64_t first;  // visible to row 0; each further row sees one more, within [0, keys]
  MEGA_HD std::int64_t of(std::int64_t row) const {
    const std::int64_t count = first + row;
    return count < 0 ? 0 : count < keys ? count : keys;
  }
};

// scores -> e^(score - top), with the running top and total, and the output so far rescaled.
struct SoftmaxTileRows {
  float* scores;  // [queries, kKeyTile]
  float* top;
  float* total;
  float* output;
  std::int64_t output_stride, head_dim;
  Visibility visibility;
  bool is_first;  // tile of keys: the output holds nothing yet

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    float* p = scores + row * kKeyTile;
    const std::int64_t visible = visibility.of(row);
    lanes.for_each(visibility.keys - visible, [=](std::int64_t i) { p[visible + i] = 0; });
    if (visible == 0) return;
    const float before = top[row];
    const float here = lanes.max(visible, [=](std::int64_t i) { return p[i]; });
    const float now = here > before || std::isnan(here) ? here : before;
    lanes.for_each(visible, [=](std::int64_t i) { p[i] = exponential(p[i] - now); });
    const float sum = lanes.sum(visible, [=](std::int64_t i) { return p[i]; });
    const float keep = exponential(before - now);
    lanes.at(0, [=, t = top, s = total](std::int64_t) {
      t[row] = now;
      s[row] = s[row] * keep + sum;
    });
    if (is_first) return;
    float* out = output + row * output_stride;
    lanes.for_each(head_dim, [=](std::int64_t i) { out[i] *= keep; });
  }
};

// The output divided by the total, and the log-sum-exp.
struct SoftmaxFinishRows {
  const float* top;
  const float* total;
  float* output;
  float* lse;
  std::int64_t output_stride, head_dim, lse_stride;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    const float sum = total[row];
    float* out = output + row * output_stride;
    const float factor = sum == 0 ? 0.0F : 1.0F / sum;
    lanes.for_each(head_dim, [=](std::int64_t i) { out[i] *= factor; });
    const float log_sum = top[row] + static_cast<float>(std::log(static_cast<double>(sum)));
    lanes.at(0, [=, this](std::int64_t) { lse[row * lse_stride] = log_sum; });
  }
};

// delta = sum of do o over the head: what the softmax's backward subtracts from each score's
// gradient.
struct DeltaRows {
  const float* output_gradient;
  const float* output;
  float* delta;
  std::int64_t stride, head_dim;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    const float* a = output_gradient + row * stride;
    const float* b = output + row * stride;
    const float sum = lanes.sum(head_dim, [=](std::int64_t i) { return a[i] * b[i]; });
    lanes.at(0, [=, out = delta](std::int64_t) { out[row] = sum; });
  }
};

// scores -> probabilities, gradient of the probabilities -> gradient of q.k.
struct ScoreBackwardRows {
  float* scores;  // [queries, kKeyTile], likewise
  float* gradient;
  const float* lse;
  const float* delta;
  std::int64_t lse_stride;
  float scale;
  Visibility visibility;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    float* p = scores + row * kKeyTile;
    float* g = gradient + row * kKeyTile;
    const std::int64_t visible = visibility.of(row);
    const float log_sum = lse[row * lse_stride];
    const float shift = delta[row];
    const float factor = scale;
    lanes.for_each(visible, [=](std::int64_t i) {
      const float probability = exponential(p[i] - log_sum);
      p[i] = probability;
      g[i] = probability * (g[i] - shift) * factor;
    });
    lanes.for_each(visibility.keys - visible, [=](std::int64_t i) {
      p[visible + i] = 0;
      g[visible + i] = 0;
    });
  }
};

}  // namespace mega::kernels
