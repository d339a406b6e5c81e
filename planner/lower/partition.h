// From whole tensors to one rank's parts, with the collectives that this takes.
#pragma once

#include "ir/partitioned_graph.h"
#include "planner/lower/sharding.h"
#include "planner/strategy.h"

namespace mega::planner {

// Shardings spread from parameters and inputs through the ops by their letters:
//   an operand's split letter          splits that letter of the op
//   one axis on two letters            the sequence is gathered (sequence parallelism's
//                                      all_gather, forward and backward)
//   a split letter that an output lacks  leaves addends; a linear op passes them on, any other use
//                                      combines them first: all_reduce, or reduce_scatter over
//                                      the sequence for the residual stream under sequence
//                                      parallelism
// Gradients of parameters stay addends; their axes become the bucket's.
// Tensors then get their home, elementwise ops reuse their input's buffer where it ends there,
// and scratch is packed by live ranges. Weight gradients are apart where the schedule says so. The
// strategy's stages play no part.
PartitionedGraph partition(const ModelGraph& graph, const Strategy& strategy);

}  // namespace mega::planner
