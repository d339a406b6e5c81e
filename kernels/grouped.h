// Work on rows that lie in groups, one group per expert: of a buffer of c rows only the first
// (sum of the counts) hold anything; the rest is neither read nor written.
//   counts [y,x]: rows of expert x from source y; rows of expert 0 first, by source
//   grouped_matmul           rows [c,p], weights [x,q,p] or [x,p,q], counts -> rows [c,q]
//                            rows [c,p], rows [c,q], counts -> weights' gradient [x,p,q]
//   grouped_swiglu           gate, up [c,m], counts -> silu(gate) * up
//   grouped_swiglu_backward  dy, gate, up, counts -> dgate, dup; dgate may be dy's buffer
//   grouped_geglu, grouped_geglu_backward   likewise with gelu_tanh(gate)
#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/operand.h"
#include "kernels/portable.h"

namespace mega::kernels {

// Reads the counts: on a machine whose memory the host can't read, after they have come over.
inline std::int64_t rows_of(const Operand& counts, std::int64_t expert) {
  const std::int64_t experts = last_dimension(counts);
  std::int64_t rows = 0;
  for (std::int64_t i = expert; i < count_of(counts); i += experts) rows += ints(counts)[i];
  return rows;
}
inline std::int64_t all_rows(const Operand& counts) {
  std::int64_t rows = 0;
  for (std::int64_t i = 0; i < count_of(counts); ++i) rows += ints(counts)[i];
  return rows;
}

template <class Kernel, class Stream>
void grouped_gated(Stream& stream, const Call& call) {
  launch_elements(
      stream, all_rows(call.inputs[2]) * last_dimension(call.outputs[0]),
      Kernel{floats(call.inputs[0]), floats(call.inputs[1]), mutable_floats(call.outputs[0])});
}

template <class Kernel, class Stream>
void grouped_gated_backward(Stream& stream, const Call& call) {
  launch_elements(stream, all_rows(call.inputs[3]) * last_dimension(call.outputs[0]),
                  Kernel{floats(call.inputs[0]), floats(call.inputs[1]), floats(call.inputs[2]),
                         mutable_floats(call.outputs[0]), mutable_floats(call.outputs[1])});
}

}  // namespace mega::kernels
