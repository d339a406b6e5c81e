// Tokens as rows in the order of their experts, and back.
//   sort_rows              experts [s,b,k] -> place of each choice among the rows [s,b,k], rows of
//                          each expert [z,e] (z is 1): by expert, then token, then choice
//   take_rows              x [s,b,h], places -> rows [a,h], a = s b k
//   combine_rows           rows [u,h], places, weights [s,b,k] -> y [s,b,h]: each token's rows,
//                          weighted; u holds one or more whole copies of the rows, addends
//   combine_rows_backward  dy, rows, places, weights -> drows [a,h], dweights
//   sum_rows               rows [u,h], places -> y: as combine_rows with weights 1
#pragma once

#include <cstdint>

#include "kernels/operand.h"
#include "kernels/portable.h"

namespace mega::kernels {

// A single row: what comes before in the order decides where each choice goes.
struct SortRows {
  const std::int32_t* chosen;
  std::int32_t* places;
  std::int32_t* counts;
  std::int64_t choices, experts;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t, Lanes lanes) const {
    lanes.at(0, [=, this](std::int64_t) {
      for (std::int64_t e = 0; e < experts; ++e) counts[e] = 0;
      for (std::int64_t i = 0; i < choices; ++i) ++counts[chosen[i]];
      // Counts become the ends of the experts before, then their own, then counts again.
      std::int32_t begin = 0;
      for (std::int64_t e = 0; e < experts; ++e) {
        const std::int32_t count = counts[e];
        counts[e] = begin;
        begin += count;
      }
      for (std::int64_t i = 0; i < choices; ++i) places[i] = counts[chosen[i]]++;
      for (std::int64_t e = experts - 1; e > 0; --e) counts[e] -= counts[e - 1];
    });
  }
};

template <class Stream>
void sort_rows(Stream& stream, const Call& call) {
  launch_rows(
      stream, 1,
      SortRows{ints(call.inputs[0]), mutable_ints(call.outputs[0]), mutable_ints(call.outputs[1]),
               count_of(call.inputs[0]), count_of(call.outputs[1])});
}

struct TakeRows {
  const float* x;
  const std::int32_t* places;
  float* rows;
  std::int64_t choices, columns;
  template <class Lanes>
  MEGA_HD void operator()(std::int64_t choice, Lanes lanes) const {
    const float* in = x + choice / choices * columns;
    float* out = rows + places[choice] * columns;
    lanes.for_each(columns, [=](std::int64_t i) { out[i] = in[i]; });
  }
};

template <class Stream>
void take_rows(Stream& stream, const Call& call) {
  const Operand& places = call.inputs[1];
  launch_rows(stream, count_of(places),
              TakeRows{floats(call.inputs[0]), ints(places), mutable_floats(call.outputs[0]),
                       last_dimension(places), last_dimension(call.inputs[0])});
}

// Where the rows of a token lie.
struct RowsOfToken {
  const float* rows;
  const std::int32_t* places;
  std::int64_t choices, copies, stride, columns;  // elements between copies

  static RowsOfToken of(const Operand& rows, const Operand& places) {
    const std::int64_t columns = last_dimension(rows);
    const std::int64_t one = count_of(places) * columns;
    return {floats(rows), ints(places), last_dimension(places), count_of(rows) / one, one, columns};
  }
  MEGA_HD const float* row(std::int64_t token, std::int64_t choice) const {
    return rows + places[token * choices + choice] * columns;
  }
  MEGA_HD float sum(const float* row, std::int64_t column) const {
    float total = row[column];
    for (std::int64_t copy = 1; copy < copies; ++copy) total += row[copy * stride + column];
    return total;
  }
};

struct CombineRows {
  RowsOfToken from;
  const float* weights;  // nullptr: 1
  float* y;
  bool accumulate;
  template <class Lanes>
  MEGA_HD void operator()(std::int64_t token, Lanes lanes) const {
    float* out = y + token * from.columns;
    for (std::int64_t k = 0; k < from.choices; ++k) {
      const float* in = from.row(token, k);
      const float weight = weights == nullptr ? 1.0F : weights[token * from.choices + k];
      lanes.for_each(from.columns, [=, all = from, add_to = accumulate || k > 0](std::int64_t i) {
        put(out[i], weight * all.sum(in, i), add_to);
      });
    }
  }
};

template <class Stream>
void combine_rows(Stream& stream, const Call& call) {
  const RowsOfToken from = RowsOfToken::of(call.inputs[0], call.inputs[1]);
  launch_rows(stream, count_of(call.inputs[1]) / from.choices,
              CombineRows{from, floats(call.inputs[2]), mutable_floats(call.outputs[0]), false});
}

template <class Stream>
void sum_rows(Stream& stream, const Call& call) {
  const RowsOfToken from = RowsOfToken::of(call.inputs[0], call.inputs[1]);
  launch_rows(stream, count_of(call.inputs[1]) / from.choices,
              CombineRows{from, nullptr, mutable_floats(call.outputs[0]), accumulates(call, 0)});
}

struct CombineRowsBackward {
  const float* dy;
  RowsOfToken from;
  const float* weights;
  float* drows;
  float* dweights;
  template <class Lanes>
  MEGA_HD void operator()(std::int64_t token, Lanes lanes) const {
    const float* gradient = dy + token * from.columns;
    for (std::int64_t k = 0; k < from.choices; ++k) {
      const std::int64_t choice = token * from.choices + k;
      const float* in = from.row(token, k);
      float* out = drows + from.places[choice] * from.columns;
      const float weight = weights[choice];
      const float dot = lanes.sum(
          from.columns, [=, all = from](std::int64_t i) { return gradient[i] * all.sum(in, i); });
      lanes.for_each(from.columns, [=](std::int64_t i) { out[i] = weight * gradient[i]; });
      lanes.at(0, [=, to = dweights](std::int64_t) { to[choice] = dot; });
    }
  }
};

template <class Stream>
void combine_rows_backward(Stream& stream, const Call& call) {
  const RowsOfToken from = RowsOfToken::of(call.inputs[1], call.inputs[2]);
  launch_rows(
      stream, count_of(call.inputs[2]) / from.choices,
      CombineRowsBackward{floats(call.inputs[0]), from, floats(call.inputs[3]),
                          mutable_floats(call.outputs[0]), mutable_floats(call.outputs[1])});
}

}  // namespace mega::kernels
