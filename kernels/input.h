// What a rank reads of the global batch.
//   input_tokens, input_labels  -> int32 [s,b]. Column b is sample
//       scalars.micro_batch * attributes.stride + origin + b
//     of the batch; its tokens start at batch.windows[sample], its labels one further. Where ranks
//     hold parts of the sequence, attributes.length says how long it is, and origin counts tokens:
//     first sample * length + first row (kernels/sequence.h).
//   count_tokens  -> the labels that this rank's step trains on: attributes.limit, or 0 where
//     another rank owns them
#pragma once

#include <cstdint>
#include <string>

#include "kernels/operand.h"
#include "kernels/portable.h"
#include "kernels/sequence.h"

namespace mega::kernels {

struct InputRows {
  const std::uint8_t* tokens;   // at the token (or label) of position 0 of window 0
  const std::int64_t* windows;  // of column 0
  std::int32_t* out;
  std::int64_t batch;
  Sequence sequence;
  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    std::int32_t* line = out + row * batch;
    lanes.for_each(batch,
                   [=, in = tokens + sequence.position(row), starts = windows](std::int64_t b) {
                     line[b] = static_cast<std::int32_t>(in[starts[b]]);
                   });
  }
};

template <class Stream>
void input(Stream& stream, const Call& call, std::int64_t shift) {
  const Operand& out = call.outputs[0];
  const std::int64_t columns = out.shape[1];
  const std::int64_t length = call.attributes.length;
  const std::int64_t first = length == 0 ? call.origin : call.origin / length;
  const std::int64_t sample = call.scalars.micro_batch * call.attributes.stride + first;
  MEGA_CHECK(
      sample >= 0 && sample + columns <= static_cast<std::int64_t>(call.batch.windows.size()),
      "samples " + std::to_string(sample) + " to " + std::to_string(sample + columns) +
          " of a batch of " + std::to_string(call.batch.windows.size()));
  launch_rows(
      stream, out.shape[0],
      InputRows{call.batch.tokens + shift, call.batch.windows.data() + sample, mutable_ints(out),
                columns, sequence_at(call.attributes, length == 0 ? 0 : call.origin % length)});
}

struct CountTokens {
  double* count;
  double value;
  MEGA_HD void operator()(std::int64_t) const { *count = value; }
};

template <class Stream>
void count_tokens(Stream& stream, const Call& call) {
  const double labels = static_cast<double>(call.attributes.limit);
  launch_elements(stream, 1,
                  CountTokens{mutable_doubles(call.outputs[0]), call.is_owner ? labels : 0.0});
}

}  // namespace mega::kernels
