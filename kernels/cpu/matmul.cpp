#include "kernels/cpu/matmul.h"

#include "kernels/cpu/blas.h"
#include "kernels/cpu/launch.h"
#include "kernels/matmul.h"
#include "kernels/operand.h"

namespace mega::kernels {
namespace {

// c = bias in each of the M rows, or += : the product is then added to it.
struct BiasRows {
  const float* bias;
  float* c;
  std::int64_t columns;
  bool is_transposed;  // a row of memory holds one entry of the bias
  bool accumulate;
  template <class Lanes>
  MEGA_HD void operator()(std::int64_t row, Lanes lanes) const {
    float* out = c + row * columns;
    if (is_transposed) {
      lanes.for_each(columns, [=, value = bias[row], add_to = accumulate](std::int64_t i) {
        put(out[i], value, add_to);
      });
    } else {
      lanes.for_each(columns, [=, in = bias, add_to = accumulate](std::int64_t i) {
        put(out[i], in[i], add_to);
      });
    }
  }
};

}  // namespace

void matmul(CpuStream& stream, const Call& call) {
  set_blas_threads(stream.threads);
  const Product p = product_of(*call.index, call.extents);
  const float* a = floats(call.inputs[0]);
  const float* b = floats(call.inputs[1]);
  float* c = mutable_floats(call.outputs[0]);
  bool accumulate = accumulates(call, 0);
  if (call.index->inputs.size() == 3) {
    const std::int64_t rows = p.c_is_transposed ? p.n : p.m;
    const std::int64_t columns = p.c_is_transposed ? p.m : p.n;
    launch_rows(stream, rows,
                BiasRows{floats(call.inputs[2]), c, columns, p.c_is_transposed, accumulate});
    accumulate = true;
  }
  const Factor left{a, p.a_is_transposed ? p.m : p.k, p.a_is_transposed};
  const Factor right{b, p.b_is_transposed ? p.k : p.n, p.b_is_transposed};
  if (!p.c_is_transposed) {
    gemm(p.m, p.n, p.k, 1.0F, left, right, c, p.n, accumulate);
    return;
  }
  // c^T = b^T a^T
  gemm(p.n, p.m, p.k, 1.0F, {right.data, right.stride, !right.is_transposed},
       {left.data, left.stride, !left.is_transposed}, c, p.m, accumulate);
}

}  // namespace mega::kernels
