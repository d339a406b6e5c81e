// Backward of layer_norm and rms_norm.
//   layer_norm_backward  dy, x, weight, mean, rstd -> dx, dweight, dbias (which may lack)
//   rms_norm_backward    dy, x, weight, rstd -> dx, dweight
// dx may be the buffer of dy or x unless it accumulates: the weights' gradients are taken first.
#pragma once

#include <cstdint>

#include "kernels/elementwise.h"
#include "kernels/operand.h"
#include "kernels/portable.h"

namespace mega::kernels {

// With n = (x - mean) rstd and g = dy weight:
//   dx = rstd (g - mean(g) - n mean(g n));  rms_norm lacks the middle term.
struct NormBackwardRows {
  const float* dy;
  const float* x;
  const float* weight;
  const float* mean;  // null for rms_norm
  const float* rstd;
  float* dx;
  std::int64_t columns;
  float offset;  // of the weight
  bool accumulate;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    const float* gradient = dy + row * columns;
    const float* in = x + row * columns;
    float* out = dx + row * columns;
    const float* w = weight;
    const float more = offset;
    const auto size = static_cast<float>(columns);
    const float center = mean != nullptr ? mean[row] : 0.0F;
    const float scale = rstd[row];
    const float along = scale * lanes.sum(columns, [=](std::int64_t i) {
      return gradient[i] * (w[i] + more) * (in[i] - center);
    }) / size;
    const float shift = mean == nullptr ? 0.0F : lanes.sum(columns, [=](std::int64_t i) {
      return gradient[i] * (w[i] + more);
    }) / size;
    lanes.for_each(columns, [=, add_to = accumulate](std::int64_t i) {
      const float normal = (in[i] - center) * scale;
      put(out[i], scale * (gradient[i] * (w[i] + more) - shift - normal * along), add_to);
    });
  }
};

// dweight = sum over rows of dy n; one launch row is a block of columns.
struct NormWeightColumns {
  const float* dy;
  const float* x;
  const float* mean;  // null for rms_norm
  const float* rstd;
  float* dweight;
  std::int64_t rows, columns;
  bool accumulate;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t block, Lanes lanes) const {
    const std::int64_t start = block * kColumnBlock;
    const std::int64_t width = columns - start < kColumnBlock ? columns - start : kColumnBlock;
    lanes.column_sums(
        width, rows,
        [g = dy + start, in = x + start, m = mean, r = rstd, stride = columns](std::int64_t row,
                                                                               std::int64_t i) {
          const float center = m != nullptr ? m[row] : 0.0F;
          return g[row * stride + i] * ((in[row * stride + i] - center) * r[row]);
        },
        [out = dweight + start, add_to = accumulate](std::int64_t i, double total) {
          put(out[i], static_cast<float>(total), add_to);
        });
  }
};

template <class Stream>
void layer_norm_backward(Stream& stream, const Call& call) {
  const Operand &dy = call.inputs[0], &x = call.inputs[1], &weight = call.inputs[2],
                &mean = call.inputs[3], &rstd = call.inputs[4];
  const std::int64_t columns = last_dimension(x);
  const std::int64_t rows = count_of(x) / columns;
  const std::int64_t blocks = column_blocks(columns);
  launch_rows(
      stream, blocks,
      NormWeightColumns{floats(dy), floats(x), floats(mean), floats(rstd),
                        mutable_floats(call.outputs[1]), rows, columns, accumulates(call, 1)});
  if (call.index->outputs.size() == 3) {
    launch_rows(stream, blocks,
                BiasBackwardColumns{floats(dy), mutable_floats(call.outputs[2]), rows, columns,
                                    accumulates(call, 2)});
  }
  launch_rows(stream, rows,
              NormBackwardRows{floats(dy), floats(x), floats(weight), floats(mean), floats(rstd),
                               mutable_floats(call.outputs[0]), columns,
                               static_cast<float>(call.attributes.value), accumulates(call, 0)});
}

template <class Stream>
void rms_norm_backward(Stream& stream, const Call& call) {
  const Operand &dy = call.inputs[0], &x = call.inputs[1], &weight = call.inputs[2],
                &rstd = call.inputs[3];
  const std::int64_t columns = last_dimension(x);
  const std::int64_t rows = count_of(x) / columns;
  launch_rows(
      stream, column_blocks(columns),
      NormWeightColumns{floats(dy), floats(x), nullptr, floats(rstd),
                        mutable_floats(call.outputs[1]), rows, columns, accumulates(call, 1)});
  launch_rows(stream, rows,
              NormBackwardRows{floats(dy), floats(x), floats(weight), nullptr, floats(rstd),
                               mutable_floats(call.outputs[0]), columns,
                               static_cast<float>(call.attributes.value), accumulates(call, 0)});
}

}  // namespace mega::kernels
