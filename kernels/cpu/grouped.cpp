#include "kernels/cpu/grouped.h"

#include <algorithm>

#include "kernels/cpu/blas.h"
#include "kernels/grouped.h"
#include "kernels/operand.h"

namespace mega::kernels {
namespace {

// rows [c,p] times weights of each expert -> rows [c,q].
void rows_product(const Call& call, bool is_transposed) {
  const Operand& counts = call.inputs[2];
  const std::int64_t p = last_dimension(call.inputs[0]);
  const std::int64_t q = last_dimension(call.outputs[0]);
  const float* rows = floats(call.inputs[0]);
  const float* weights = floats(call.inputs[1]);
  float* out = mutable_floats(call.outputs[0]);
  for (std::int64_t expert = 0; expert < last_dimension(counts); ++expert) {
    const std::int64_t count = rows_of(counts, expert);
    if (count > 0) {
      gemm(count, q, p, 1.0F, {rows, p}, {weights, is_transposed ? p : q, is_transposed}, out, q,
           accumulates(call, 0));
    }
    rows += count * p;
    out += count * q;
    weights += p * q;
  }
}

// rows [c,p], rows [c,q] -> [x,p,q].
void weights_product(const Call& call) {
  const Operand& counts = call.inputs[2];
  const std::int64_t p = last_dimension(call.inputs[0]);
  const std::int64_t q = last_dimension(call.inputs[1]);
  const float* left = floats(call.inputs[0]);
  const float* right = floats(call.inputs[1]);
  float* out = mutable_floats(call.outputs[0]);
  for (std::int64_t expert = 0; expert < last_dimension(counts); ++expert) {
    const std::int64_t count = rows_of(counts, expert);
    if (count > 0) {
      gemm(p, q, count, 1.0F, {left, p, true}, {right, q}, out, q, accumulates(call, 0));
    } else if (!accumulates(call, 0)) {
      std::fill_n(out, p * q, 0.0F);  // an expert without rows
    }
    left += count * p;
    right += count * q;
    out += p * q;
  }
}

}  // namespace

void grouped_matmul(CpuStream& stream, const Call& call) {
  set_blas_threads(stream.threads);
  const std::string& second = call.index->inputs[1];
  // The weights are the operand of three dimensions.
  if (call.outputs[0].shape.size() == 3) return weights_product(call);
  rows_product(call, second.back() == call.index->inputs[0].back());
}

}  // namespace mega::kernels
