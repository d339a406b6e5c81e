#include "kernels/dispatch.h"

#include "kernels/cpu/attention.h"
#include "kernels/cpu/grouped.h"
#include "kernels/cpu/launch.h"
#include "kernels/cpu/matmul.h"
#include "kernels/dispatch_on.h"

namespace mega::kernels {

void dispatch(CpuStream& stream, const Call& call) {
  dispatch_on(stream, call);
}

}  // namespace mega::kernels
