// Gives each local tensor of a block its home, and packs what lives inside one run.
#pragma once

#include "ir/partitioned_graph.h"

namespace mega::planner {

// Lets elementwise ops write over an input that ends with them: both tensors become one.
void reuse_buffers(PartitionedBlock& block);

// Sets home, offset and the block's byte counts. Scratch is packed by live ranges, largest
// first at the lowest free offset (greedy by size; Pisarchyk & Lee 2020, section 4.2).
void assign_homes(PartitionedBlock& block);

}  // namespace mega::planner
