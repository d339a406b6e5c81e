// Sums and fills, element by element: add, add_bias, bias_backward, copy, fill.
// Every output may be the very buffer of an input of the same shape.
#pragma once

#include <cstdint>

#include "kernels/operand.h"
#include "kernels/portable.h"

namespace mega::kernels {

// out = value; fp32, and fp64 for the scalars of a step
template <class T>
struct FillEach {
  T* out;
  T value;
  MEGA_HD void operator()(std::int64_t i) const { out[i] = value; }
};

template <class Stream>
void fill(Stream& stream, const Call& call) {
  const Operand& out = call.outputs[0];
  const double value = call.attributes.value;
  if (out.dtype == DType::Fp64) {
    launch_elements(stream, count_of(out), FillEach<double>{mutable_doubles(out), value});
  } else {
    launch_elements(stream, count_of(out),
                    FillEach<float>{mutable_floats(out), static_cast<float>(value)});
  }
}

// c = a + b, or c += a + b
struct AddEach {
  const float* a;
  const float* b;
  float* c;
  bool accumulate;
  MEGA_HD void operator()(std::int64_t i) const { put(c[i], a[i] + b[i], accumulate); }
};

template <class Stream>
void add(Stream& stream, const Call& call) {
  launch_elements(stream, count_of(call.outputs[0]),
                  AddEach{floats(call.inputs[0]), floats(call.inputs[1]),
                          mutable_floats(call.outputs[0]), accumulates(call, 0)});
}

struct CopyEach {
  const float* x;
  float* y;
  MEGA_HD void operator()(std::int64_t i) const { y[i] = x[i]; }
};

template <class Stream>
void copy(Stream& stream, const Call& call) {
  launch_elements(stream, count_of(call.outputs[0]),
                  CopyEach{floats(call.inputs[0]), mutable_floats(call.outputs[0])});
}

// y = x + bias, whose letters are the last ones of x
struct AddBiasRows {
  const float* x;
  const float* bias;
  float* y;
  std::int64_t columns;
  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    const float* in = x + row * columns;
    float* out = y + row * columns;
    const float* shift = bias;
    lanes.for_each(columns, [=](std::int64_t i) { out[i] = in[i] + shift[i]; });
  }
};

template <class Stream>
void add_bias(Stream& stream, const Call& call) {
  const std::int64_t columns = count_of(call.inputs[1]);
  launch_rows(stream, count_of(call.outputs[0]) / columns,
              AddBiasRows{floats(call.inputs[0]), floats(call.inputs[1]),
                          mutable_floats(call.outputs[0]), columns});
}

// dbias = sum of dy over the rows; one launch row is a block of columns.
struct BiasBackwardColumns {
  const float* dy;
  float* dbias;
  std::int64_t rows, columns;
  bool accumulate;
  template <class Lanes>
  MEGA_HD void operator()(std::int64_t block, Lanes lanes) const {
    const std::int64_t start = block * kColumnBlock;
    const std::int64_t width = columns - start < kColumnBlock ? columns - start : kColumnBlock;
    lanes.column_sums(
        width, rows,
        [in = dy + start, stride = columns](std::int64_t row, std::int64_t i) {
          return in[row * stride + i];
        },
        [out = dbias + start, add_to = accumulate](std::int64_t i, double total) {
          put(out[i], static_cast<float>(total), add_to);
        });
  }
};

template <class Stream>
void bias_backward(Stream& stream, const Call& call) {
  const std::int64_t columns = count_of(call.outputs[0]);
  launch_rows(
      stream, column_blocks(columns),
      BiasBackwardColumns{floats(call.inputs[0]), mutable_floats(call.outputs[0]),
                          count_of(call.inputs[0]) / columns, columns, accumulates(call, 0)});
}

}  // namespace mega::kernels
