// Flat buckets of parameters: what of them a rank holds, and how gradients and weights travel.
//
//   zero  weights  gradients  state   a step's way of a gradient
//   0     whole    whole      whole   all_reduce
//   1     whole    whole      part    reduce_scatter, update of the part, all_gather of weights
//   2     whole    part       part    the same, reduce_scatter after every micro-batch
//   3     part     part       part    all_gather in forward and in backward, too
//
// A part is 1/BucketClass::parts. What travels inside forward and backward is in the partitioned
// graph (lower/shard_parameters.h); here is what travels once a step.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/partitioned_graph.h"

namespace mega::planner {

struct BucketLayout {
  int chunk = 0;
  int block = -1;  // position in the chain where gradients are cut: one block at a time is whole
  BucketClass bucket;
  std::int64_t elements = 0;  // of the whole, padding included
  bool operator==(const BucketLayout&) const = default;
};

// Elements that a rank holds between steps; `state` of each optimizer state.
struct BucketShare {
  std::int64_t weights = 0, gradients = 0, state = 0;
  bool operator==(const BucketShare&) const = default;
};
BucketShare share_of(int zero, const BucketClass& bucket, std::int64_t elements);

struct BucketCollective {
  OpKind kind = OpKind::AllReduce;
  AxisSet along;
  std::int64_t elements = 0;  // of the operand that is whole
};
// Of the gradient after the last micro-batch, in order: an all_reduce, or a reduce_scatter and an
// all_reduce of the part along the other axes. Under zero 2 the scatter has been.
std::vector<BucketCollective> reductions_of(int zero, const BucketClass& bucket,
                                            std::int64_t elements);
// Of the weights after the update; none where they stay as they are.
std::vector<BucketCollective> gathers_of(int zero, const BucketClass& bucket,
                                         std::int64_t elements);

// Gradients that are addends along more than the data axes (norms under sequence parallelism,
// replicated kv heads) are reduced at the start of the update: a reduction beside backward, on a
// queue of its own, would race with backward's collectives among the same ranks.
bool is_reduced_in_update(const PartitionedGraph& graph, const BucketClass& bucket);

}  // namespace mega::planner
