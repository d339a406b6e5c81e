// What runs once: init, and the segments around the micro-batches of a step.
#include "planner/lower/program_builder.h"

namespace mega::planner {
namespace {

Op fill(BufferId buffer, double value, const std::string& letters) {
  Op op;
  op.kind = OpKind::Fill;
  op.index = "->" + letters;
  op.outputs = {buffer};
  op.attributes.value = value;
  return op;
}

Op collective(OpKind kind, BufferId in, BufferId out, Group group) {
  Op op;
  op.kind = kind;
  op.index = info(kind).index;
  op.inputs = {in};
  op.outputs = {out};
  if (kind != OpKind::AllGather) op.attributes.combine = Combine::Sum;
  op.group = std::move(group);
  return op;
}

}  // namespace

SegmentId ProgramBuilder::add_init() {
  Ops ops;
  if (weights_) ops.push_back(fill(weights_, 0, "n"));  // the gaps between parameters, too
  for (const BufferId state : states_) ops.push_back(fill(state, 0, "n"));
  for (const ChunkLayout& chunk : layout_.chunks) {
    const BlockRange& blocks = chunk.blocks;
    for (int p = blocks.first; p < blocks.first + blocks.count; ++p) {
      const PartitionedBlock& block = block_at(p);
      for (const ShardedBucket& sharded : block.sharded) {
        if (!sharded.weights || shares_tied(p, sharded.bucket)) continue;
        initialize(sharded, p, ops);
      }
      for (const LocalParameter& parameter : block.parameters) {
        if (shares_tied(p, parameter.bucket)) continue;
        if (block.tensors[parameter.weight].home == Home::View) continue;
        initialize(parameter, p, ops);
      }
    }
  }
  return add_segment("init", -1, std::move(ops), 0);
}

void ProgramBuilder::initialize(const LocalParameter& parameter, int position, Ops& ops) const {
  ops.push_back(fill(buffer_of(position, parameter.weight), parameter.initial,
                     block_at(position).tensors[parameter.weight].letters));
  if (parameter.initial_is_normal) ops.back().kind = OpKind::InitNormal;
}

// The whole bucket in scratch, of which the own part is kept: what a step's gather needs room for
// anyway.
void ProgramBuilder::initialize(const ShardedBucket& sharded, int position, Ops& ops) const {
  ops.push_back(fill(buffer_of(position, sharded.weights), 0, "n"));
  for (const LocalParameter& parameter : block_at(position).parameters) {
    if (parameter.bucket == sharded.bucket) initialize(parameter, position, ops);
  }
  const BufferId kept = buffer_of(position, sharded.weight_shard);
  Op keep;
  keep.kind = OpKind::Add;
  keep.index = "n,n->n";
  keep.inputs = {kept, own_weights_.at({position, sharded.weights})};
  keep.outputs = {kept};
  ops.push_back(std::move(keep));
}

SegmentId ProgramBuilder::add_begin(std::int64_t labels_per_rank, std::int64_t predicted_ns) {
  Ops ops;
  if (gradients_) ops.push_back(fill(gradients_, 0, "n"));
  ops.push_back(fill(metrics_bits_, 0, "n"));
  if (has_last_block()) {
    Op count;
    count.kind = OpKind::CountTokens;
    count.index = "->";
    count.outputs = {token_count_};
    count.attributes.limit = labels_per_rank;
    ops.push_back(count);
    const AxisSet batch = graph_.stream_sharding.axes[1];
    if (!batch.empty()) {
      ops.push_back(collective(OpKind::AllReduce, token_count_, token_count_, Group{0, batch, {}}));
      ops.back().index = "->";
    }
  }
  return add_segment("begin", -1, std::move(ops), predicted_ns);
}

void ProgramBuilder::add_reductions(std::size_t b, Ops& ops) const {
  const BucketLayout& layout = layout_.buckets[b];
  for (const auto& each : reductions_of(graph_.zero, layout.bucket, layout.elements)) {
    const bool scatters = each.kind == OpKind::ReduceScatter;
    const BufferId in = scatters ? buckets_[b].gradients : buckets_[b].own_gradients;
    ops.push_back(collective(each.kind, in, buckets_[b].own_gradients,
                             Group{layout.bucket.mesh, each.along, {}}));
  }
}

void ProgramBuilder::add_gathers(std::size_t b, Ops& ops) const {
  const BucketLayout& layout = layout_.buckets[b];
  for (const auto& each : gathers_of(graph_.zero, layout.bucket, layout.elements)) {
    ops.push_back(collective(each.kind, buckets_[b].own_weights, buckets_[b].weights,
                             Group{layout.bucket.mesh, each.along, {}}));
  }
}

SegmentId ProgramBuilder::add_reduce(int chunk, std::int64_t predicted_ns) {
  Ops ops;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const BucketLayout& layout = layout_.buckets[i];
    if (layout.chunk != chunk || is_reduced_in_update(graph_, layout.bucket)) continue;
    add_reductions(i, ops);
  }
  return add_segment("reduce" + std::to_string(chunk), -1, std::move(ops), predicted_ns);
}

SegmentId ProgramBuilder::add_gather(int chunk, std::int64_t predicted_ns) {
  Ops ops;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (layout_.buckets[i].chunk == chunk) add_gathers(i, ops);
  }
  return add_segment("gather" + std::to_string(chunk), -1, std::move(ops), predicted_ns);
}

SegmentId ProgramBuilder::add_tied(std::int64_t predicted_ns) {
  Ops ops;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (!layout_.buckets[i].bucket.is_tied) continue;
    ops.push_back(collective(OpKind::AllReduce, buckets_[i].own_gradients,
                             buckets_[i].own_gradients,
                             Group{0, graph_.pipeline, {0, pipeline_size_ - 1}}));
  }
  return add_segment("tied", -1, std::move(ops), predicted_ns);
}

// Parameters that the optimizer leaves alone.
void ProgramBuilder::add_shifts(Ops& ops) const {
  for (const ChunkLayout& chunk : layout_.chunks) {
    for (int p = chunk.blocks.first; p < chunk.blocks.first + chunk.blocks.count; ++p) {
      for (const LocalParameter& parameter : block_at(p).parameters) {
        if (!parameter.bucket.is_shifted) continue;
        Op op;
        op.kind = OpKind::ShiftBias;
        op.index = "n->n";
        op.inputs = {buffer_of(p, parameter.gradient)};
        op.outputs = {buffer_of(p, parameter.weight)};
        op.attributes.value = job_.model.moe->router.bias_update_rate;
        op.attributes.accumulate = 1;
        ops.push_back(std::move(op));
      }
    }
  }
}

SegmentId ProgramBuilder::add_update(std::int64_t predicted_ns) {
  Ops ops;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (is_reduced_in_update(graph_, layout_.buckets[i].bucket)) add_reductions(i, ops);
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const BucketLayout& layout = layout_.buckets[i];
    if (is_second_copy(layout) || layout.bucket.is_shifted) continue;
    Op op;
    op.kind = OpKind::SquareSum;
    op.index = "n->";
    op.inputs = {buckets_[i].own_gradients};
    op.outputs = {square_sum_};
    op.attributes.accumulate = 1;
    op.mesh = layout.bucket.mesh;
    op.owner = within_stage(graph_, op.mesh) - layout.bucket.sharded - layout.bucket.scatter;
    ops.push_back(std::move(op));
  }
  AxisSet world = within_stage(graph_, 0);
  if (pipeline_size_ > 1) world = world | graph_.pipeline;
  if (!world.empty()) {
    ops.push_back(collective(OpKind::AllReduce, metrics_, metrics_, Group{0, world, {}}));
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (!layout_.buckets[i].bucket.is_shifted) ops.push_back(optimizer_op(i));
  }
  add_shifts(ops);
  for (std::size_t i = 0; i < buckets_.size() && !gathers_at_start_; ++i) add_gathers(i, ops);
  return add_segment("update", -1, std::move(ops), predicted_ns);
}

Op ProgramBuilder::optimizer_op(std::size_t b) const {
  const OptimizerSpec& optimizer = job_.training.optimizer;
  const bool is_adam = optimizer.kind == OptimizerKind::AdamW;
  Op op;
  op.kind = is_adam ? OpKind::AdamW : OpKind::Sgd;
  op.index = is_adam ? "n,->n,n,n" : layout_.states == 0 ? "n,->n" : "n,->n,n";
  op.inputs = {buckets_[b].own_gradients, square_sum_};
  op.outputs = {buckets_[b].own_weights};
  op.outputs.insert(op.outputs.end(), buckets_[b].states.begin(), buckets_[b].states.end());
  op.attributes.clip = optimizer.clip_grad;
  op.attributes.decay = layout_.buckets[b].bucket.weight_decay;
  op.attributes.beta1 = is_adam ? optimizer.beta1 : optimizer.momentum;
  if (is_adam) {
    op.attributes.beta2 = optimizer.beta2;
    op.attributes.epsilon = optimizer.epsilon;
  }
  op.attributes.accumulate = (1U << op.outputs.size()) - 1;
  return op;
}

}  // namespace mega::planner
