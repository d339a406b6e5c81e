#include "kernels/cpu/blas.h"

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <string>

#include "ir/base/check.h"

namespace mega::kernels {
namespace {

int narrow(std::int64_t value) {
  MEGA_CHECK(value >= 0 && value <= std::numeric_limits<int>::max(), std::to_string(value));
  return static_cast<int>(value);
}

}  // namespace

void set_blas_threads(int threads) {
  // A process-wide limit, lower than this only when the environment said so.
  if (threads > 1 && openblas_get_num_threads() < threads) {
    static std::mutex mutex;
    const std::lock_guard<std::mutex> lock(mutex);
    openblas_set_num_threads(threads);
  }
  omp_set_num_threads(std::max(threads, 1));
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, float scale, Factor a, Factor b, float* c,
          std::int64_t c_stride, bool accumulate) {
  cblas_sgemm(CblasRowMajor, a.is_transposed ? CblasTrans : CblasNoTrans,
              b.is_transposed ? CblasTrans : CblasNoTrans, narrow(m), narrow(n), narrow(k), scale,
              a.data, narrow(a.stride), b.data, narrow(b.stride), accumulate ? 1.0F : 0.0F, c,
              narrow(c_stride));
}

}  // namespace mega::kernels
