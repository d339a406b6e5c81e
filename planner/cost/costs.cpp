#include "planner/cost/costs.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ir/base/check.h"
#include "planner/cost/collective_time.h"
#include "planner/cost/op_time.h"
#include "planner/cost/step_work.h"
#include "planner/lower/assign_memory.h"
#include "planner/lower/partition.h"

namespace mega::planner {
namespace {

// The strategies whose blocks cost the same share this one. Without zero only whether there is
// data parallelism matters to a block, not its degree, and stages don't at all, as long as the
// tensor groups stay where they are: innermost.
Strategy key_of(const Strategy& strategy) {
  Strategy key = strategy;
  key.vpp = 1;
  key.stages.clear();
  key.schedule = splits_backward(strategy.schedule) ? ScheduleKind::ZbH1 : ScheduleKind::OneFOneB;
  key.overlap = {};
  if (strategy.rank_order.starts_with("tp-cp")) {
    key.pp = 1;
    // Experts need all the ranks of a stage; how finely buckets are cut matters to their padding
    // and to what travels inside a block.
    if (strategy.ep * strategy.etp == 1 && strategy.zero == 0) key.dp = std::min(strategy.dp, 2);
  }
  return key;
}

// The share of a piece that grows with its size, rounded so that shares never add up to more than
// the piece of their sum takes.
std::int64_t floor_of(std::int64_t ns, std::int64_t ns_of_nothing) {
  return std::max<std::int64_t>(ns - ns_of_nothing - 1, 0);
}

// Local sizes, but of rows that go to experts as many as the busiest rank is expected to get.
Shape expected_shape(const PartitionedGraph& graph, const LocalTensor& tensor) {
  Shape shape = tensor.shape;
  if (tensor.letters.starts_with('c')) {
    shape[0] = std::llround(std::ceil(graph.expected_rows * static_cast<double>(shape[0])));
  }
  return shape;
}

// Instructions of all simulators that are kept at once: some hundred megabytes.
constexpr std::int64_t kMostSimulated = 4'000'000;

std::int64_t instructions(const Schedule& schedule) {
  std::int64_t count = 0;
  for (const auto& rank : schedule.ranks) count += static_cast<std::int64_t>(rank.size());
  return count;
}

}  // namespace

const BlockCosts& Costs::blocks(const Strategy& strategy) {
  const Strategy key = key_of(strategy);
  const auto found = blocks_.find(key);
  if (found != blocks_.end()) return found->second;
  BlockCosts costs;
  costs.graph = partition(graph_, key);
  for (const PartitionedBlock& block : costs.graph.kinds) {
    costs.kinds.add(cost_of(costs.graph, block));
  }
  costs.layer_kinds = layer_kinds(graph_);
  for (const BlockKindId kind : costs.layer_kinds) {
    costs.layer_counts.push_back(
        std::count(costs.graph.chain.begin(), costs.graph.chain.end(), kind));
  }
  return blocks_.emplace(key, std::move(costs)).first->second;
}

std::int64_t Costs::collective_of(const PartitionedGraph& graph, const PartitionedBlock& block,
                                  const LocalOp& op) {
  const LocalTensor& in = block.tensors[op.inputs[0]];
  const LocalTensor& out = block.tensors[op.outputs[0]];
  Bytes whole = std::max(bytes_of(in.dtype, in.shape), bytes_of(out.dtype, out.shape));
  if (op.kind == OpKind::AllToAllV) {
    const LocalTensor& held = op.attributes.inverse ? in : out;
    whole = bytes_of(held.dtype, expected_shape(graph, held));
  }
  return collective_ns(op.kind, whole, mesh_of(graph, op.group->mesh), *op.group);
}

BlockCost Costs::cost_of(const PartitionedGraph& graph, const PartitionedBlock& block) {
  BlockCost cost;
  // Memory holds the rows that are planned, time is spent on those that are expected.
  const auto shapes = [&](const std::vector<TensorId>& ids) {
    std::vector<Shape> result;
    for (const TensorId id : ids) {
      result.push_back(expected_shape(graph, block.tensors[id]));
    }
    return result;
  };
  const auto is_of_bucket = [&](const LocalOp& op) {
    return block.tensors[op.inputs[0]].home == Home::WeightShard ||
           !block.tensors[op.outputs[0]].own_part_of.empty();
  };
  const auto add = [&](const LocalOp& op, std::int64_t& all_ns) {
    if (is_collective(op.kind)) {
      const std::int64_t ns = collective_of(graph, block, op);
      all_ns += ns;
      const bool is_context = op.group->mesh == 0 && op.group->along == graph.sequence;
      (is_of_bucket(op)      ? cost.data_ns
       : is_context          ? cost.context_ns
       : op.group->mesh == 0 ? cost.tensor_ns
                             : cost.expert_ns) += ns;
      return;
    }
    const OpShape shape{op.kind, op.index, shapes(op.inputs), shapes(op.outputs), op.attributes};
    cost.flops += op_flops(shape).count();
    if (!job_.cluster) return;
    const std::int64_t ns = op_ns(job_.cluster->gpu, job_.training.precision, shape);
    all_ns += ns;
    if (op.is_recomputed) cost.recompute_ns += ns;
  };
  for (const LocalOp& op : block.forward) add(op, cost.forward_ns);
  for (const LocalOp& op : block.backward) add(op, cost.backward_ns);
  for (const LocalOp& op : block.weight_gradient) add(op, cost.weight_ns);
  cost.slot = block.saved + (block.input ? stream_bytes(graph) : Bytes());
  cost.scratch = scratch_bytes(block);
  for (const BucketClass& bucket : bucket_classes(block)) {
    const std::int64_t n = bucket_elements(block, bucket);
    cost.buckets.emplace_back(bucket, n);
    const BucketShare share = share_of(graph.zero, bucket, n);
    cost.zero_ns += floor_of(zero_ns(*this, share.gradients), zero_ns(*this, 0));
    if (bucket.is_shifted) continue;
    cost.update_ns += floor_of(optimizer_ns(*this, share.state), optimizer_ns(*this, 0));
    // Of a tied tensor only one copy counts into the norm.
    if (!bucket.is_tied) {
      cost.update_ns += floor_of(norm_ns(*this, share.state), norm_ns(*this, 0));
    }
  }
  for (const LocalParameter& parameter : block.parameters) {
    if (!parameter.bucket.is_shifted) continue;
    const Shape& shape = block.tensors[parameter.weight].shape;
    cost.shift_ns += compute_ns(OpKind::ShiftBias, "n->n", {shape}, {shape}, {.accumulate = 1});
  }
  cost.update_ns += cost.shift_ns;
  return cost;
}

const std::vector<std::vector<int>>& Costs::slots(const ScheduleShape& shape) {
  ScheduleShape key = shape;  // reductions take no slot
  key.overlap_gradient_reduce = key.reduces_gradients = key.has_tied_copies = false;
  key.gathers_parameters = false;
  const auto found = slots_.find(key);
  if (found != slots_.end()) return found->second;
  return slots_.emplace(key, slot_counts(key)).first->second;
}

const Simulator& Costs::simulator(const ScheduleShape& shape) {
  const auto found = simulators_.find(shape);
  if (found != simulators_.end()) return found->second;
  const Schedule schedule = build_schedule(shape);
  simulated_ += instructions(schedule);
  if (simulated_ > kMostSimulated) {
    simulators_.clear();
    simulated_ = instructions(schedule);
  }
  return simulators_.emplace(shape, Simulator(schedule)).first->second;
}

std::int64_t Costs::collective_ns(OpKind kind, Bytes whole, const Mesh& mesh, const Group& group) {
  if (!job_.cluster) return 0;
  std::vector<int> sizes;
  for (const Axis& axis : mesh.axes) sizes.push_back(axis.size);
  const auto key = std::make_pair(std::move(sizes), group);
  auto found = spans_.find(key);
  if (found == spans_.end()) {
    found = spans_.emplace(key, span_of(mesh, group, job_.cluster->gpus_per_node)).first;
  }
  return to_ns(collective_time(*job_.cluster, kind, whole, found->second));
}

std::int64_t Costs::compute_ns(OpKind kind, const std::string& index, std::vector<Shape> inputs,
                               std::vector<Shape> outputs, const Attributes& attributes) const {
  if (!job_.cluster) return 0;
  const OpShape shape{kind, index, std::move(inputs), std::move(outputs), attributes};
  return op_ns(job_.cluster->gpu, job_.training.precision, shape);
}

ScheduleShape schedule_shape(Costs& costs, const Strategy& strategy) {
  const BlockCosts& blocks = costs.blocks(strategy);
  ScheduleShape shape;
  shape.kind = strategy.schedule;
  shape.pp = strategy.pp;
  shape.vpp = strategy.vpp;
  shape.micro_batches = micro_batches(strategy, costs.job().training.global_batch);
  shape.overlap_pipeline = strategy.overlap.pipeline && strategy.pp > 1;
  for (const BlockCost& block : blocks.kinds) {
    for (const auto& [bucket, elements] : block.buckets) {
      const int zero = blocks.graph.zero;
      const bool is_early = !reductions_of(zero, bucket, elements).empty() &&
                            !is_reduced_in_update(blocks.graph, bucket);
      if (is_early) shape.reduces_gradients = true;
      const bool is_gathered = !gathers_of(zero, bucket, elements).empty();
      if (is_gathered && strategy.overlap.parameter_gather) shape.gathers_parameters = true;
      if (bucket.is_tied && !has_one_end(strategy)) shape.has_tied_copies = true;
    }
  }
  shape.overlap_gradient_reduce = strategy.overlap.gradient_reduce && shape.reduces_gradients;
  return shape;
}

}  // namespace mega::planner
