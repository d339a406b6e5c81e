// Parameters and gradients that a rank holds only a part of (ZeRO 2 and 3).
#pragma once

#include "ir/partitioned_graph.h"

namespace mega::planner {

// What of a bucket is cut into BucketClass::parts at each level (Rajbhandari et al. 2020, section
// 5): 1 the optimizer's state, 2 gradients too, 3 weights too.
bool splits_gradients(int zero, const BucketClass& bucket);
bool splits_weights(int zero, const BucketClass& bucket);

// Rewrites the block for such buckets; their whole lives in scratch only.
//
//   forward    all_gather weights ─► ops
//   backward   all_gather weights, fill gradients 0 ─► ops ─► reduce_scatter, add to the own part
//
// The gathers of one block don't overlap the ops of another: a segment is a straight line. So one
// buffer is enough where prefetching would rotate two. Comes before assign_homes.
void shard_parameters(PartitionedBlock& block, int zero);

}  // namespace mega::planner
