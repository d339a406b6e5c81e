// Looking up tokens in a table, and the gradient of that.
//   embedding           tokens [s,b], table [v,h] -> y [s,b,h]: rows of the vocabulary's part
//                       [origin, origin + v); another part's tokens give zeros, so that the
//                       parts add up to the whole
//   embedding_backward  tokens, dy -> dtable, tokens in order, so that the sum has one order
#pragma once

#include <cstdint>

#include "kernels/operand.h"
#include "kernels/portable.h"

namespace mega::kernels {

struct EmbeddingRows {
  const std::int32_t* tokens;
  const float* table;
  float* y;
  std::int64_t origin, vocabulary, columns;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    const std::int64_t entry = tokens[row] - origin;
    float* out = y + row * columns;
    if (entry < 0 || entry >= vocabulary) {
      lanes.for_each(columns, [=](std::int64_t i) { out[i] = 0; });
      return;
    }
    const float* in = table + entry * columns;
    lanes.for_each(columns, [=](std::int64_t i) { out[i] = in[i]; });
  }
};

template <class Stream>
void embedding(Stream& stream, const Call& call) {
  const Operand& table = call.inputs[1];
  const std::int64_t columns = last_dimension(table);
  launch_rows(stream, count_of(call.inputs[0]),
              EmbeddingRows{ints(call.inputs[0]), floats(table), mutable_floats(call.outputs[0]),
                            call.origin, count_of(table) / columns, columns});
}

// One launch row is a block of columns, for which it walks all tokens.
struct EmbeddingBackwardColumns {
  const std::int32_t* tokens;
  const float* dy;
  float* dtable;
  std::int64_t origin, vocabulary, columns, token_count, block_width;
  bool accumulate;

  template <class Lanes>
  MEGA_HD void operator()(std::int64_t block, Lanes lanes) const {
    const std::int64_t start = block * block_width;
    const std::int64_t width = columns - start < block_width ? columns - start : block_width;
    if (!accumulate) {
      for (std::int64_t entry = 0; entry < vocabulary; ++entry) {
        float* out = dtable + entry * columns + start;
        lanes.for_each(width, [=](std::int64_t i) { out[i] = 0; });
      }
    }
    for (std::int64_t token = 0; token < token_count; ++token) {
      const std::int64_t entry = tokens[token] - origin;
      if (entry < 0 || entry >= vocabulary) continue;
      const float* in = dy + token * columns + start;
      float* out = dtable + entry * columns + start;
      lanes.for_each(width, [=](std::int64_t i) { out[i] += in[i]; });
    }
  }
};

template <class Stream>
void embedding_backward(Stream& stream, const Call& call) {
  const Operand& table = call.outputs[0];
  const std::int64_t columns = last_dimension(table);
  const std::int64_t width = columns < 512 ? columns : 512;
  launch_rows(
      stream, (columns + width - 1) / width,
      EmbeddingBackwardColumns{ints(call.inputs[0]), floats(call.inputs[1]), mutable_floats(table),
                               call.origin, count_of(table) / columns, columns,
                               count_of(call.inputs[0]), width, accumulates(call, 0)});
}

}  // namespace mega::kernels
