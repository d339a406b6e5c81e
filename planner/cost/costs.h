// What all evaluations of one job share: the time and memory of each kind of block, the slots and
// the event graph of each schedule. Filled in on demand; asking again is cheap.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/model_graph.h"
#include "ir/partitioned_graph.h"
#include "ir/schedule.h"
#include "planner/cost/simulate.h"
#include "planner/cost/topology.h"
#include "planner/spec/job_spec.h"
#include "planner/strategy.h"

namespace mega::planner {

// One block on one rank, one micro-batch.
struct BlockCost {
  std::int64_t forward_ns = 0, backward_ns = 0, weight_ns = 0;  // all ops of each pass
  // Of all, collectives: of activations, of rows for experts, of parts of the sequence, of buckets
  // of weights and gradients; and forward ops that backward does again.
  std::int64_t tensor_ns = 0, expert_ns = 0, context_ns = 0, data_ns = 0, recompute_ns = 0;
  double flops = 0;  // forward and backward
  Bytes slot;        // what it adds to a slot: its input stream and what it saves
  Bytes scratch;     // in either direction
  std::vector<std::pair<BucketClass, std::int64_t>> buckets;  // elements of each class
  // What its parameters add at least to a step, whatever else shares their buckets: launches are
  // left out, and the rounding of each piece is given away.
  std::int64_t zero_ns = 0, update_ns = 0;
  std::int64_t shift_ns = 0;  // of update_ns: parameters that no optimizer updates
};

// The kinds of blocks of a model for one degree of splitting.
struct BlockCosts {
  PartitionedGraph graph;  // of one pipeline rank: right in all but the mesh's pp and dp
  Table<BlockKindId, BlockCost> kinds;
  std::vector<BlockKindId> layer_kinds;    // of the layers, each once, in order of first use
  std::vector<std::int64_t> layer_counts;  // layers of each of them

  const BlockCost& embedding() const { return kinds[graph.chain.front()]; }
  const BlockCost& head() const { return kinds[graph.chain.back()]; }
};

class Costs {
 public:
  // Keeps references to both.
  Costs(const JobSpec& job, const ModelGraph& graph) : job_(job), graph_(graph) {}
  Costs(JobSpec&&, const ModelGraph&) = delete;
  Costs(const JobSpec&, ModelGraph&&) = delete;

  const JobSpec& job() const { return job_; }
  const ModelGraph& graph() const { return graph_; }

  const BlockCosts& blocks(const Strategy& strategy);
  const std::vector<std::vector<int>>& slots(const ScheduleShape& shape);
  const Simulator& simulator(const ScheduleShape& shape);
  // Time of a collective on this job's cluster; 0 without one.
  std::int64_t collective_ns(OpKind kind, Bytes whole, const Mesh& mesh, const Group& group);
  // Time of an op on this job's GPU; 0 without a cluster.
  std::int64_t compute_ns(OpKind kind, const std::string& index, std::vector<Shape> inputs,
                          std::vector<Shape> outputs, const Attributes& attributes = {}) const;

 private:
  std::int64_t collective_of(const PartitionedGraph& graph, const PartitionedBlock& block,
                             const LocalOp& op);
  BlockCost cost_of(const PartitionedGraph& graph, const PartitionedBlock& block);

  const JobSpec& job_;
  const ModelGraph& graph_;
  std::map<Strategy, BlockCosts> blocks_;
  std::map<ScheduleShape, std::vector<std::vector<int>>> slots_;
  std::map<ScheduleShape, Simulator> simulators_;
  std::int64_t simulated_ = 0;  // size of simulators_, in instructions
  std::map<std::pair<std::vector<int>, Group>, GroupSpan> spans_;
};

// The schedule that a strategy stands for; flags without effect are off.
ScheduleShape schedule_shape(Costs& costs, const Strategy& strategy);

}  // namespace mega::planner
