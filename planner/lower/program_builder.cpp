#include "planner/lower/program_builder.h"

#include <algorithm>

#include "ir/base/check.h"

namespace mega::planner {
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
  return bucket.bucket.is_tied && !holds_first_block(layout_);
}

int ProgramBuilder::chunk_of(int position) const {
  for (std::size_t c = 0; c < layout_.chunks.size(); ++c) {
    const BlockRange& blocks = layout_.chunks[c].blocks;
    const bool is_here = position >= blocks.first && position < blocks.first + blocks.count;
    if (is_here) return static_cast<int>(c);
  }
  MEGA_CHECK(false, "a block of another rank");
}

// ---- buffers -----------------------------------------------------------------------------------

void ProgramBuilder::add_buffers() {
  add_scalars();
  add_roots();
  add_buckets();
  for (int i = 0; i < static_cast<int>(layout_.slots.size()); ++i) add_slot(i);
}

void ProgramBuilder::add_scalars() {
  const std::int64_t count = metrics_count(graph_);
  metrics_ = program_.buffers.add(persistent_buffer("metrics", DType::Fp64, {count}, Bytes(0)));
  loss_ = program_.buffers.add(persistent_buffer("loss", DType::Fp64, {}, Bytes(0), metrics_));
  square_sum_ = program_.buffers.add(
      persistent_buffer("gradient_square_sum", DType::Fp64, {}, Bytes(8), metrics_));
  // fill writes fp32; zero has the same bits.
  metrics_bits_ = program_.buffers.add(
      persistent_buffer("metrics.bits", DType::Fp32, {2 * count}, Bytes(0), metrics_));
  if (count > 2) {
    auxiliary_loss_ =
        program_.buffers.add(persistent_buffer("aux_loss", DType::Fp64, {}, Bytes(16), metrics_));
  }
  if (!has_last_block()) return;  // nobody else counts
  token_count_ = program_.buffers.add(
      persistent_buffer("token_count", DType::Fp64, {}, Bytes(kTokenCountOffset)));
}

void ProgramBuilder::add_slot(int slot) {
  const SlotLayout& layout = layout_.slots[static_cast<std::size_t>(slot)];
  const std::string name = "v" + std::to_string(slot);
  Chunk chunk;
  chunk.name = name;
  chunk.slot_bytes = layout.slot_bytes;
  program_.chunks.push_back(std::move(chunk));
  SlotBuffers buffers;
  const int end = layout.blocks.first + layout.blocks.count;
  const bool is_empty = layout.blocks.count == 0;
  if (is_empty || block_at(end - 1).output) {
    buffers.output = add_stream(name + ".output", slot, layout.output_offset);
  }
  if (is_empty) buffers.input = buffers.output;  // passed on
  buffers.gradient = add_stream(name + ".dx", slot, layout.gradient_offset);
  // Input streams first: a block's output is the stream of the block after it.
  for (int p = layout.blocks.first; p < end; ++p) {
    const PartitionedBlock& block = block_at(p);
    if (!block.input) continue;
    const std::size_t i = static_cast<std::size_t>(p - layout.blocks.first);
    const BufferId stream = add_stream(label(p) + ".x", slot, layout.block_offset[i]);
    buffers_[{p, block.input}] = stream;
    if (p == layout.blocks.first) buffers.input = stream;
  }
  slot_buffers_.push_back(buffers);
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
    add_block(slot, p, layout.block_offset[i] + (block.input ? stream_bytes(graph_) : Bytes()));
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

BufferId ProgramBuilder::add_stream(const std::string& name, int slot, Bytes offset) {
  Buffer buffer = persistent_buffer(name, DType::Fp32, graph_.stream_shape, offset);
  buffer.region = Region::Slot;
  buffer.chunk = slot;
  buffer.shard = stream_shard(name);
  return program_.buffers.add(std::move(buffer));
}

void ProgramBuilder::add_block(int slot, int position, Bytes slot_offset) {
  const PartitionedBlock& block = block_at(position);
  add_parameters(position);
  add_shards(position);
  for (std::size_t i = 0; i < block.tensors.size(); ++i) {
    const TensorId id{static_cast<std::int32_t>(i)};
    if (buffers_.contains({position, id})) continue;
    buffers_[{position, id}] = add_tensor(block, position, id, slot, slot_offset);
  }
  for (const ShardedBucket& sharded : block.sharded) {
    if (!sharded.weights) continue;
    own_weights_[{position, sharded.weights}] =
        add_own_part(buffer_of(position, sharded.weights), sharded.bucket);
  }
}

BufferId ProgramBuilder::add_tensor(const PartitionedBlock& block, int position, TensorId id,
                                    int slot, Bytes slot_offset) {
  const LocalTensor& tensor = block.tensors[id];
  if (tensor.home == Home::View) return add_view(position, id, slot, slot_offset);
  if (tensor.home == Home::Scalar) {
    return tensor.name == "loss"       ? loss_
           : tensor.name == "aux_loss" ? auxiliary_loss_
                                       : token_count_;
  }
  Buffer buffer = persistent_buffer(label(position) + "." + tensor.name, tensor.dtype, tensor.shape,
                                    tensor.offset);
  if (tensor.home == Home::Saved) {
    buffer.region = Region::Slot;
    buffer.chunk = slot;
    buffer.offset = slot_offset + tensor.offset;
  } else {
    MEGA_CHECK(tensor.home == Home::Scratch, tensor.name + " has no buffer");
    buffer.region = Region::Scratch;
  }
  return program_.buffers.add(std::move(buffer));
}

BufferId ProgramBuilder::add_view(int position, TensorId id, int slot, Bytes slot_offset) {
  const PartitionedBlock& block = block_at(position);
  const LocalTensor& tensor = block.tensors[id];
  auto parent = buffers_.find({position, tensor.parent});
  if (parent == buffers_.end()) {
    const BufferId made = add_tensor(block, position, tensor.parent, slot, slot_offset);
    parent = buffers_.emplace(std::pair(position, tensor.parent), made).first;
  }
  const std::string name = instance_name(label(position) + "." + tensor.name, position - 1);
  Buffer buffer = persistent_buffer(name, tensor.dtype, tensor.shape, tensor.offset);
  buffer.parent = parent->second;
  buffer.region = program_.buffers[buffer.parent].region;
  buffer.chunk = program_.buffers[buffer.parent].chunk;
  for (const LocalParameter& parameter : block.parameters) {
    if (id != parameter.weight || shares_tied(position, parameter.bucket)) continue;
    buffer.name = instance_name(tensor.name, position - 1);
    buffer.shard = Shard{Role::WorkingCopy, buffer.name, parameter.global_shape,
                         tensor.sharding.mesh, tensor.sharding.axes};
  }
  if (!tensor.own_part_of.empty()) {
    buffer.move = Move{tensor.sharding.mesh, tensor.own_part_of,
                       bytes_of(tensor.dtype, tensor.shape).count()};
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
  return add_segment("f" + std::to_string(chunk), slot_of(chunk), std::move(ops), predicted_ns);
}

SegmentId ProgramBuilder::add_backward(int chunk, std::int64_t predicted_ns) {
  std::vector<Op> ops;
  const BlockRange& blocks = layout_.chunks[static_cast<std::size_t>(chunk)].blocks;
  for (int p = blocks.first + blocks.count - 1; p >= blocks.first; --p) {
    for (const LocalOp& op : block_at(p).backward) ops.push_back(lower(op, p));
  }
  return add_segment("b" + std::to_string(chunk), slot_of(chunk), std::move(ops), predicted_ns);
}

SegmentId ProgramBuilder::add_weight_gradient(int chunk, std::int64_t predicted_ns) {
  std::vector<Op> ops;
  const BlockRange& blocks = layout_.chunks[static_cast<std::size_t>(chunk)].blocks;
  for (int p = blocks.first + blocks.count - 1; p >= blocks.first; --p) {
    for (const LocalOp& op : block_at(p).weight_gradient) ops.push_back(lower(op, p));
  }
  return add_segment("w" + std::to_string(chunk), slot_of(chunk), std::move(ops), predicted_ns);
}

}  // namespace mega::planner
