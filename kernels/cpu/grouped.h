// kernels/grouped.h on the CPU: one product of the BLAS per expert.
#pragma once

#include "kernels/call.h"
#include "kernels/dispatch.h"

namespace mega::kernels {

void grouped_matmul(CpuStream& stream, const Call& call);

}  // namespace mega::kernels
