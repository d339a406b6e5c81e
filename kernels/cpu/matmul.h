// kernels/matmul.h on the CPU.
#pragma once

#include "kernels/call.h"
#include "kernels/dispatch.h"

namespace mega::kernels {

void matmul(CpuStream& stream, const Call& call);

}  // namespace mega::kernels
