// The one BLAS routine that the CPU kernels use, and how many threads it may take.
//
// Ranks are threads of one process, and each calls the BLAS with its own number of threads. The
// OpenMP flavour of OpenBLAS takes that number from the calling thread's OpenMP setting; at one
// thread it neither starts a team nor takes a lock that another call holds for long, so calls run
// side by side and the bits depend on the operands only. With more threads per rank, calls of
// different ranks in one process take turns.
#pragma once

#include <cstdint>

namespace mega::kernels {

// Sets the number of threads of this thread's next GEMMs.
void set_blas_threads(int threads);

// A row-major matrix as it lies in memory; `is_transposed` when the product wants it the other
// way round.
struct Factor {
  const float* data;
  std::int64_t stride;  // elements between rows as they lie
  bool is_transposed = false;
};

// c[m,n] = scale a[m,k] b[k,n], or += when `accumulate`; c is not read otherwise.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, float scale, Factor a, Factor b, float* c,
          std::int64_t c_stride, bool accumulate);

}  // namespace mega::kernels
