// Learned positions. Row s of the activations is at position P(s), see kernels/sequence.h.
//   add_position           x [s,b,h], table [p,h] -> y = x + table[P(s)]
//   add_position_backward  dy -> dtable
// y may be x's buffer.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/operand.h"
#include "kernels/portable.h"
#include "kernels/sequence.h"

namespace mega::kernels {

struct AddPositionRows {
  const float* x;
  const float* table;
  float* y;
  Sequence sequence;
  std::int64_t batch, columns;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    const float* shift = table + sequence.position(row) * columns;
    for (std::int64_t b = 0; b < batch; ++b) {
      const float* in = x + (row * batch + b) * columns;
      float* out = y + (row * batch + b) * columns;
      lanes.for_each(columns, [=](std::int64_t i) { out[i] = in[i] + shift[i]; });
    }
  }
};

// Writes the rows of dtable that are looked up here; unless it accumulates, the others are zeroed.
struct AddPositionBackwardRows {
  const float* dy;
  float* dtable;
  Sequence sequence;
  std::int64_t positions, batch, columns;
  bool accumulate;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    const std::int64_t position = sequence.row(row);
    const bool is_used = position >= 0 && position < positions;
    if (!is_used && accumulate) return;
    lanes.column_sums(
        columns, is_used ? batch : 0,
        [in = dy + (is_used ? position * batch * columns : 0), stride = columns](
            std::int64_t b, std::int64_t i) { return in[b * stride + i]; },
        [out = dtable + row * columns, add_to = accumulate](std::int64_t i, double total) {
          put(out[i], static_cast<float>(total), add_to);
        });
  }
};

inline void check_positions(const Call& call, std::int64_t rows, std::int64_t table) {
  const std::int64_t most = call.attributes.parts > 0 ? call.attributes.length : call.origin + rows;
  MEGA_CHECK(call.origin >= 0 && most <= table,
             "positions up to " + std::to_string(most) + " of a table of " + std::to_string(table));
}

template <class Stream>
void add_position(Stream& stream, const Call& call) {
  const Operand& x = call.inputs[0];
  const Operand& table = call.inputs[1];
  const std::int64_t columns = last_dimension(x);
  const std::int64_t positions = x.shape[0];
  check_positions(call, positions, table.shape[0]);
  launch_rows(stream, positions,
              AddPositionRows{floats(x), floats(table), mutable_floats(call.outputs[0]),
                              sequence_of(call), x.shape[1], columns});
}

template <class Stream>
void add_position_backward(Stream& stream, const Call& call) {
  const Operand& dy = call.inputs[0];
  const Operand& table = call.outputs[0];
  check_positions(call, dy.shape[0], table.shape[0]);
  launch_rows(
      stream, table.shape[0],
      AddPositionBackwardRows{floats(dy), mutable_floats(table), sequence_of(call), dy.shape[0],
                              dy.shape[1], last_dimension(dy), accumulates(call, 0)});
}

}  // namespace mega::kernels
