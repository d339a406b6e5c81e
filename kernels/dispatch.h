// Runs one op on the CPU. Collectives are the runtime's, not kernels.
#pragma once

#include "kernels/call.h"

namespace mega::kernels {

// State of one CPU compute queue. `threads` is the number of BLAS threads that its GEMMs use.
struct CpuStream {
  int threads = 1;
};

void dispatch(CpuStream& stream, const Call& call);

}  // namespace mega::kernels
