// Takes a block's backward apart for schedules that run weight gradients on their own.
#pragma once

#include "ir/partitioned_graph.h"

namespace mega::planner {

// Moves what only gradients of parameters need from `backward` to `weight_gradient`, order kept:
// ops that write nothing else, and those that only feed them (a gathered input, a recomputed
// activation). An op whose input changes later in backward stays: the gradient of the stream is
// added to in place, here and in the blocks before.
// Call before buffers are reused and homes assigned.
void split_backward(PartitionedBlock& block);

}  // namespace mega::planner
