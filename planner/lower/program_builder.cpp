#include "planner/lower/program_builder.h"

#include <algorithm>

#include "ir/base/check.h"

namespace mega::planner {
namespace {

Buffer persistent(std::string name, DType dtype, Shape shape, Bytes offset, BufferId parent = {}) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.dtype = dtype;
  buffer.shape = std::move(shape);
  buffer.offset = offset;
  buffer.parent = parent;
  return buffer;
}

}  // namespace

ProgramBuilder::ProgramBuilder(const JobSpec& job, const PartitionedGraph& graph,
                               const RankLayout& layout, int pipeline_rank, int pipeline_size)
    : job_(job),
      graph_(graph),
      layout_(layout),
      pipeline_rank_(pipeline_rank),
      pipeline_size_(pipeline_size) {
  program_.name = "stage" + std::to_string(pipeline_rank);
  program_.persistent = persistent_bytes(layout);
  program_.scratch = layout.scratch;
}

const PartitionedBlock& ProgramBuilder::block_at(int position) const {
  return graph_.kinds[graph_.chain[static_cast<std::size_t>(position)]];
}

std::string ProgramBuilder::label(int position) const {
  if (position == 0) return "embedding";
  if (position > graph_.layers) return "head";
  return "l" + std::to_string(position - 1);
}

bool ProgramBuilder::has_last_block() const {
  const BlockRange& last = layout_.chunks.back().blocks;
  return last.first + last.count == static_cast<int>(graph_.chain.size());
}

bool ProgramBuilder::is_second_copy(const BucketLayout& bucket) const {
  return bucket.bucket.is_tied && pipeline_size_ > 1 && pipeline_rank_ == pipeline_size_ - 1;
}

// ---- buffers -----------------------------------------------------------------------------------

void ProgramBuilder::add_buffers() {
  add_scalars();
  add_roots();
  std::int64_t element = 0;
  for (std::size_t i = 0; i < layout_.buckets.size(); ++i) {
    add_bucket(i, element);
    next_element_.push_back(element);
    element += layout_.buckets[i].elements;
  }
  for (int c = 0; c < static_cast<int>(layout_.chunks.size()); ++c) add_chunk(c);
}

void ProgramBuilder::add_scalars() {
  const std::int64_t count = metrics_count(graph_);
  metrics_ = program_.buffers.add(persistent("metrics", DType::Fp64, {count}, Bytes(0)));
  loss_ = program_.buffers.add(persistent("loss", DType::Fp64, {}, Bytes(0), metrics_));
  square_sum_ =
      program_.buffers.add(persistent("gradient_square_sum", DType::Fp64, {}, Bytes(8), metrics_));
  // fill writes fp32; zero has the same bits.
  metrics_bits_ = program_.buffers.add(
      persistent("metrics.bits", DType::Fp32, {2 * count}, Bytes(0), metrics_));
  if (count > 2) {
    auxiliary_loss_ =
        program_.buffers.add(persistent("aux_loss", DType::Fp64, {}, Bytes(16), metrics_));
  }
  if (!has_last_block()) return;  // nobody else counts
  token_count_ =
      program_.buffers.add(persistent("token_count", DType::Fp64, {}, Bytes(kTokenCountOffset)));
}

void ProgramBuilder::add_roots() {
  const Bytes region(4 * layout_.bucket_elements);
  const Shape shape = {layout_.bucket_elements};
  Bytes offset(kScalarBytes);
  const auto root = [&](const std::string& name) {
    const BufferId id = program_.buffers.add(persistent(name, DType::Fp32, shape, offset));
    offset += region;
    return id;
  };
  gradients_ = root("gradients");
  weights_ = root("weights");
  const bool is_adam = job_.training.optimizer.kind == OptimizerKind::AdamW;
  for (int i = 0; i < layout_.states; ++i) {
    states_.push_back(root(!is_adam ? "momentum" : i == 0 ? "adam.m" : "adam.v"));
  }
}

void ProgramBuilder::add_bucket(std::size_t index, std::int64_t first_element) {
  const BucketLayout& layout = layout_.buckets[index];
  const std::string name = "bucket" + std::to_string(index);
  const auto view = [&](const std::string& suffix, BufferId parent) {
    return program_.buffers.add(persistent(name + suffix, DType::Fp32, {layout.elements},
                                           Bytes(4 * first_element), parent));
  };
  Bucket bucket;
  bucket.gradients = view(".gradients", gradients_);
  bucket.weights = view(".weights", weights_);
  for (const BufferId state : states_) {
    bucket.states.push_back(view("." + program_.buffers[state].name, state));
  }
  buckets_.push_back(std::move(bucket));
}

void ProgramBuilder::add_chunk(int c) {
  const ChunkLayout& layout = layout_.chunks[static_cast<std::size_t>(c)];
  Chunk chunk;
  chunk.name = "v" + std::to_string(c);
  chunk.slot_bytes = layout.slot_bytes;
  program_.chunks.push_back(std::move(chunk));
  ChunkBuffers buffers;
  const std::string name = "v" + std::to_string(c);
  const int end = layout.blocks.first + layout.blocks.count;
  if (block_at(end - 1).output)
    buffers.output = add_stream(name + ".output", c, layout.output_offset);
  buffers.gradient = add_stream(name + ".dx", c, layout.gradient_offset);
  // Input streams first: a block's output is the stream of the block after it.
  for (int p = layout.blocks.first; p < end; ++p) {
    const PartitionedBlock& block = block_at(p);
    if (!block.input) continue;
    const std::size_t i = static_cast<std::size_t>(p - layout.blocks.first);
    const BufferId stream = add_stream(label(p) + ".x", c, layout.block_offset[i]);
    buffers_[{p, block.input}] = stream;
    if (p == layout.blocks.first) buffers.input = stream;
  }
  chunk_buffers_.push_back(buffers);
  for (int p = layout.blocks.first; p < end; ++p) {
    const PartitionedBlock& block = block_at(p);
    if (block.output) {
      buffers_[{p, block.output}] =
          p + 1 < end ? buffer_of(p + 1, block_at(p + 1).input) : buffers.output;
    }
    for (const TensorId id : {block.input_gradient, block.output_gradient}) {
      if (id) buffers_[{p, id}] = buffers.gradient;
    }
    const std::size_t i = static_cast<std::size_t>(p - layout.blocks.first);
    add_block(c, p, layout.block_offset[i] + (block.input ? stream_bytes(graph_) : Bytes()));
  }
}

Shard ProgramBuilder::stream_shard(const std::string& name) const {
  Shard shard;
  shard.role = Role::Activation;
  shard.name = name;
  shard.global_shape = {graph_.extents['s'], graph_.extents['b'], graph_.extents['h']};
  shard.axes = graph_.stream_sharding.axes;
  return shard;
}

BufferId ProgramBuilder::add_stream(const std::string& name, int chunk, Bytes offset) {
  Buffer buffer = persistent(name, DType::Fp32, graph_.stream_shape, offset);
  buffer.region = Region::Slot;
  buffer.chunk = chunk;
  buffer.shard = stream_shard(name);
  return program_.buffers.add(std::move(buffer));
}

void ProgramBuilder::add_block(int chunk, int position, Bytes slot_offset) {
  const PartitionedBlock& block = block_at(position);
  add_parameters(chunk, position);
  for (std::size_t i = 0; i < block.tensors.size(); ++i) {
    const TensorId id{static_cast<std::int32_t>(i)};
    if (buffers_.contains({position, id})) continue;
    buffers_[{position, id}] = add_tensor(block, position, id, chunk, slot_offset);
  }
}

void ProgramBuilder::add_parameters(int chunk, int position) {
  const PartitionedBlock& block = block_at(position);
  const bool shares_tied = position == static_cast<int>(graph_.chain.size()) - 1 &&
                           layout_.chunks[static_cast<std::size_t>(chunk)].blocks.first == 0;
  for (const LocalParameter& parameter : block.parameters) {
    if (parameter.bucket.is_tied && shares_tied) {
      for (const LocalParameter& other : block_at(0).parameters) {
        if (!other.bucket.is_tied) continue;
        buffers_[{position, parameter.weight}] = buffer_of(0, other.weight);
        buffers_[{position, parameter.gradient}] = buffer_of(0, other.gradient);
      }
      continue;
    }
    const auto bucket = std::find_if(
        layout_.buckets.begin(), layout_.buckets.end(), [&](const BucketLayout& candidate) {
          return candidate.chunk == chunk && candidate.bucket == parameter.bucket;
        });
    MEGA_CHECK(bucket != layout_.buckets.end(), "a parameter without a bucket");
    const std::size_t b = static_cast<std::size_t>(bucket - layout_.buckets.begin());
    const LocalTensor& weight = block.tensors[parameter.weight];
    const auto view = [&](const std::string& suffix, Role role, BufferId parent) {
      const std::string name = instance_name(weight.name, position - 1);
      Buffer buffer =
          persistent(name + suffix, DType::Fp32, weight.shape, Bytes(4 * next_element_[b]), parent);
      buffer.shard =
          Shard{role, name, parameter.global_shape, weight.sharding.mesh, weight.sharding.axes};
      return program_.buffers.add(std::move(buffer));
    };
    buffers_[{position, parameter.weight}] = view("", Role::Parameter, weights_);
    buffers_[{position, parameter.gradient}] = view(".grad", Role::Gradient, gradients_);
    next_element_[b] += round_up(element_count(weight.shape), kBucketAlignmentElements);
  }
}

BufferId ProgramBuilder::add_tensor(const PartitionedBlock& block, int position, TensorId id,
                                    int chunk, Bytes slot_offset) {
  const LocalTensor& tensor = block.tensors[id];
  if (tensor.home == Home::Scalar) {
    return tensor.name == "loss"       ? loss_
           : tensor.name == "aux_loss" ? auxiliary_loss_
                                       : token_count_;
  }
  Buffer buffer =
      persistent(label(position) + "." + tensor.name, tensor.dtype, tensor.shape, tensor.offset);
  if (tensor.home == Home::Saved) {
    buffer.region = Region::Slot;
    buffer.chunk = chunk;
    buffer.offset = slot_offset + tensor.offset;
  } else {
    MEGA_CHECK(tensor.home == Home::Scratch, tensor.name + " has no buffer");
    buffer.region = Region::Scratch;
  }
  return program_.buffers.add(std::move(buffer));
}

// ---- segments ----------------------------------------------------------------------------------

SegmentId ProgramBuilder::add_segment(std::string name, int chunk, std::vector<Op> ops,
                                      std::int64_t predicted_ns) {
  return program_.segments.add({std::move(name), chunk, std::move(ops), predicted_ns});
}

Op ProgramBuilder::lower(const LocalOp& local, int position) const {
  Op op;
  op.kind = local.kind;
  op.index = local.index;
  op.attributes = local.attributes;
  op.origin = local.origin;
  op.owner = local.owner;
  op.group = local.group;
  for (const TensorId id : local.inputs) op.inputs.push_back(buffer_of(position, id));
  for (const TensorId id : local.outputs) op.outputs.push_back(buffer_of(position, id));
  return op;
}

SegmentId ProgramBuilder::add_forward(int chunk, std::int64_t predicted_ns) {
  std::vector<Op> ops;
  const BlockRange& blocks = layout_.chunks[static_cast<std::size_t>(chunk)].blocks;
  for (int p = blocks.first; p < blocks.first + blocks.count; ++p) {
    for (const LocalOp& op : block_at(p).forward) ops.push_back(lower(op, p));
  }
  return add_segment("f" + std::to_string(chunk), chunk, std::move(ops), predicted_ns);
}

SegmentId ProgramBuilder::add_backward(int chunk, std::int64_t predicted_ns) {
  std::vector<Op> ops;
  const BlockRange& blocks = layout_.chunks[static_cast<std::size_t>(chunk)].blocks;
  for (int p = blocks.first + blocks.count - 1; p >= blocks.first; --p) {
    for (const LocalOp& op : block_at(p).backward) ops.push_back(lower(op, p));
  }
  return add_segment("b" + std::to_string(chunk), chunk, std::move(ops), predicted_ns);
}

SegmentId ProgramBuilder::add_init() {
  std::vector<Op> ops;
  const auto fill = [&](BufferId buffer, double value, const std::string& letters) {
    Op op;
    op.kind = OpKind::Fill;
    op.index = "->" + letters;
    op.outputs = {buffer};
    op.attributes.value = value;
    ops.push_back(std::move(op));
  };
  fill(weights_, 0, "n");  // the gaps between parameters, too
  for (const BufferId state : states_) fill(state, 0, "n");
  for (const ChunkLayout& chunk : layout_.chunks) {
    for (int p = chunk.blocks.first; p < chunk.blocks.first + chunk.blocks.count; ++p) {
      const PartitionedBlock& block = block_at(p);
      const bool shares_tied = chunk.blocks.first == 0 && p > graph_.layers;
      for (const LocalParameter& parameter : block.parameters) {
        if (parameter.bucket.is_tied && shares_tied) continue;
        fill(buffer_of(p, parameter.weight), parameter.initial,
             block.tensors[parameter.weight].letters);
        if (parameter.initial_is_normal) ops.back().kind = OpKind::InitNormal;
      }
    }
  }
  return add_segment("init", -1, std::move(ops), 0);
}

SegmentId ProgramBuilder::add_begin(std::int64_t labels_per_rank, std::int64_t predicted_ns) {
  std::vector<Op> ops(2);
  ops[0].kind = ops[1].kind = OpKind::Fill;
  ops[0].index = ops[1].index = "->n";
  ops[0].outputs = {gradients_};
  ops[1].outputs = {metrics_bits_};
  if (has_last_block()) {
    Op count;
    count.kind = OpKind::CountTokens;
    count.index = "->";
    count.outputs = {token_count_};
    count.attributes.limit = labels_per_rank;
    ops.push_back(count);
    const AxisSet batch = graph_.stream_sharding.axes[1];
    if (!batch.empty()) {
      Op sum;
      sum.kind = OpKind::AllReduce;
      sum.index = "->";
      sum.inputs = sum.outputs = {token_count_};
      sum.attributes.combine = Combine::Sum;
      sum.group = Group{0, batch, {}};
      ops.push_back(sum);
    }
  }
  return add_segment("begin", -1, std::move(ops), predicted_ns);
}

namespace {

Op all_reduce(BufferId buffer, Group group) {
  Op op;
  op.kind = OpKind::AllReduce;
  op.index = "n->n";
  op.inputs = op.outputs = {buffer};
  op.attributes.combine = Combine::Sum;
  op.group = std::move(group);
  return op;
}

}  // namespace

SegmentId ProgramBuilder::add_reduce(int chunk, std::int64_t predicted_ns) {
  std::vector<Op> ops;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const BucketLayout& layout = layout_.buckets[i];
    if (layout.chunk != chunk || layout.bucket.reduce.empty()) continue;
    if (is_reduced_in_update(graph_, layout.bucket)) continue;
    ops.push_back(
        all_reduce(buckets_[i].gradients, Group{layout.bucket.mesh, layout.bucket.reduce, {}}));
  }
  return add_segment("reduce" + std::to_string(chunk), -1, std::move(ops), predicted_ns);
}

SegmentId ProgramBuilder::add_tied(std::int64_t predicted_ns) {
  std::vector<Op> ops;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (!layout_.buckets[i].bucket.is_tied) continue;
    ops.push_back(
        all_reduce(buckets_[i].gradients, Group{0, graph_.pipeline, {0, pipeline_size_ - 1}}));
  }
  return add_segment("tied", -1, std::move(ops), predicted_ns);
}

// Parameters that the optimizer leaves alone.
void ProgramBuilder::add_shifts(std::vector<Op>& ops) const {
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
  std::vector<Op> ops;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const BucketClass& bucket = layout_.buckets[i].bucket;
    if (!is_reduced_in_update(graph_, bucket)) continue;
    ops.push_back(all_reduce(buckets_[i].gradients, Group{bucket.mesh, bucket.reduce, {}}));
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const BucketLayout& layout = layout_.buckets[i];
    if (is_second_copy(layout) || layout.bucket.is_shifted) continue;
    Op op;
    op.kind = OpKind::SquareSum;
    op.index = "n->";
    op.inputs = {buckets_[i].gradients};
    op.outputs = {square_sum_};
    op.attributes.accumulate = 1;
    op.mesh = layout.bucket.mesh;
    op.owner = within_stage(graph_, op.mesh) - layout.bucket.sharded;
    ops.push_back(std::move(op));
  }
  AxisSet world = within_stage(graph_, 0);
  if (pipeline_size_ > 1) world = world | graph_.pipeline;
  if (!world.empty()) ops.push_back(all_reduce(metrics_, Group{0, world, {}}));
  const OptimizerSpec& optimizer = job_.training.optimizer;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (layout_.buckets[i].bucket.is_shifted) continue;
    Op op;
    const bool is_adam = optimizer.kind == OptimizerKind::AdamW;
    op.kind = is_adam ? OpKind::AdamW : OpKind::Sgd;
    op.index = is_adam ? "n,->n,n,n" : layout_.states == 0 ? "n,->n" : "n,->n,n";
    op.inputs = {buckets_[i].gradients, square_sum_};
    op.outputs = {buckets_[i].weights};
    op.outputs.insert(op.outputs.end(), buckets_[i].states.begin(), buckets_[i].states.end());
    op.attributes.clip = optimizer.clip_grad;
    op.attributes.decay = layout_.buckets[i].bucket.weight_decay;
    op.attributes.beta1 = is_adam ? optimizer.beta1 : optimizer.momentum;
    if (is_adam) {
      op.attributes.beta2 = optimizer.beta2;
      op.attributes.epsilon = optimizer.epsilon;
    }
    op.attributes.accumulate = (1U << op.outputs.size()) - 1;
    ops.push_back(std::move(op));
  }
  add_shifts(ops);
  return add_segment("update", -1, std::move(ops), predicted_ns);
}

}  // namespace mega::planner
