// Runs one op on the CPU. Collectives are the runtime's, not kernels.
//
// What each op reads, writes and may do in place stands in the header of its kernel:
//   input.h embedding.h position.h norm.h norm_backward.h matmul.h elementwise.h activation.h
//   rope.h attention.h loss.h random.h optimizer.h
#pragma once

#include "kernels/call.h"

namespace mega::kernels {

// State of one CPU compute queue. `threads` is how many threads its ops may use: those of the BLAS
// and of the loops. One thread means the calling thread alone; several streams then run side by
// side from their own threads. With more, GEMMs of different streams take turns.
struct CpuStream {
  int threads = 1;
};

// Returns when the op is done. Takes nothing from the heap; the BLAS keeps one buffer per thread
// that has called it.
void dispatch(CpuStream& stream, const Call& call);

}  // namespace mega::kernels
