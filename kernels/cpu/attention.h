// kernels/attention.h on the CPU: tile products by the BLAS.
#pragma once

#include "kernels/call.h"
#include "kernels/dispatch.h"

namespace mega::kernels {

void attention(CpuStream& stream, const Call& call);
void attention_backward(CpuStream& stream, const Call& call);

}  // namespace mega::kernels
