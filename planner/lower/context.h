// Attention over a sequence whose parts are on different ranks (context parallelism).
//
// Queries stay where they are; what each kind moves is written out as collectives along `cp`:
//   all_gather  keys and values of all ranks are gathered, in either direction; their gradients
//               are reduce_scattered
//   ring        keys and values go around the ring, one member a step; each step adds to the
//               output by online softmax (Liu et al. 2023). In backward the gradients of keys and
//               values travel with them, and one step more brings them home
//   ulysses     rows are exchanged for heads before attention and back after it (Jacobs et al.
//               2023); the forms by heads are kept for backward
// Under ring and all_gather ranks hold zig-zag parts (kernels/sequence.h), under ulysses
// consecutive ones.
#pragma once

#include <map>
#include <vector>

#include "ir/partitioned_graph.h"
#include "planner/lower/sharding.h"

namespace mega::planner {

// Says in the op where its rows of the sequence are; `rows` are the axes that split them.
void place_rows(const Placement& placement, AxisSet rows, LocalOp& op);

class ContextAttention {
 public:
  // Keeps references to both.
  ContextAttention(PartitionedBlock& block, const Placement& placement)
      : block_(block), place_(placement) {}

  // `op` is attention or its backward on this rank's rows of all operands, the outputs' tensors
  // declared likewise. Appends what computes them.
  void lower(const LocalOp& op, std::vector<LocalOp>& ops);

 private:
  void gathered(const LocalOp& op);
  void ring(const LocalOp& op);
  void ring_backward(const LocalOp& op);
  void by_heads(const LocalOp& op);

  TensorId like(TensorId id, const std::string& suffix);
  TensorId collective(OpKind kind, TensorId in, TensorId out);
  TensorId whole_rows(TensorId id);  // gathered along cp
  TensorId moved_on(TensorId id);    // from the neighbour
  TensorId as_heads(TensorId id);    // all rows of some heads, declared
  TensorId to_heads(TensorId id);    // and filled from all heads of some rows
  void from_heads(TensorId heads, TensorId rows);
  TensorId packed(TensorId rows);

  PartitionedBlock& block_;
  const Placement& place_;
  std::map<TensorId, TensorId> heads_;  // form by rows -> form by heads
  std::vector<LocalOp>* ops_ = nullptr;
};

}  // namespace mega::planner
