#include <algorithm>

#include "ir/base/check.h"
#include "planner/lower/program_builder.h"
#include "planner/lower/shard_parameters.h"

namespace mega::planner {

Buffer persistent_buffer(std::string name, DType dtype, Shape shape, Bytes offset,
                         BufferId parent) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.dtype = dtype;
  buffer.shape = std::move(shape);
  buffer.offset = offset;
  buffer.parent = parent;
  return buffer;
}

void ProgramBuilder::add_roots() {
  if (layout_.buckets.empty()) return;  // no layer, embedding or head: nothing to train
  Bytes offset(kScalarBytes);
  const auto root = [&](const std::string& name, std::int64_t elements) {
    const BufferId id =
        program_.buffers.add(persistent_buffer(name, DType::Fp32, {elements}, offset));
    offset += Bytes(4 * elements);
    return id;
  };
  gradients_ = root("gradients", layout_.elements.gradients);
  weights_ = root("weights", layout_.elements.weights);
  const bool is_adam = job_.training.optimizer.kind == OptimizerKind::AdamW;
  for (int i = 0; i < layout_.states; ++i) {
    const std::string name = !is_adam ? "momentum" : i == 0 ? "adam.m" : "adam.v";
    states_.push_back(root(name, layout_.elements.state));
  }
}

void ProgramBuilder::add_buckets() {
  BucketShare first;
  for (std::size_t i = 0; i < layout_.buckets.size(); ++i) {
    add_bucket(i, first);
    next_element_.push_back(0);
    const BucketLayout& layout = layout_.buckets[i];
    const BucketShare share = share_of(graph_.zero, layout.bucket, layout.elements);
    first.weights += share.weights;
    first.gradients += share.gradients;
    first.state += share.state;
  }
}

void ProgramBuilder::add_bucket(std::size_t index, const BucketShare& first) {
  const BucketLayout& layout = layout_.buckets[index];
  const BucketClass& bucket_class = layout.bucket;
  const BucketShare share = share_of(graph_.zero, bucket_class, layout.elements);
  const std::string name = "bucket" + std::to_string(index);
  const auto view = [&](const std::string& suffix, BufferId parent, std::int64_t elements,
                        std::int64_t element) {
    return program_.buffers.add(
        persistent_buffer(name + suffix, DType::Fp32, {elements}, Bytes(4 * element), parent));
  };
  const auto own_part = [&](BufferId id, std::int64_t held) {
    if (held == share.state) return id;
    return add_own_part(id, bucket_class);
  };
  Bucket bucket;
  bucket.gradients = view(".gradients", gradients_, share.gradients, first.gradients);
  bucket.own_gradients = own_part(bucket.gradients, share.gradients);
  bucket.weights = view(".weights", weights_, share.weights, first.weights);
  bucket.own_weights = own_part(bucket.weights, share.weights);
  for (const BufferId state : states_) {
    bucket.states.push_back(
        view("." + program_.buffers[state].name, state, share.state, first.state));
  }
  buckets_.push_back(std::move(bucket));
}

BufferId ProgramBuilder::add_own_part(BufferId whole, const BucketClass& bucket) {
  const Buffer& parent = program_.buffers[whole];
  const std::int64_t elements = element_count(parent.shape) / bucket.parts;
  Buffer buffer = persistent_buffer(parent.name + ".own", DType::Fp32, {elements}, Bytes(), whole);
  buffer.region = parent.region;
  buffer.move = Move{bucket.mesh, bucket.scatter, 4 * elements};
  return program_.buffers.add(std::move(buffer));
}

bool ProgramBuilder::shares_tied(int position, const BucketClass& bucket) const {
  return bucket.is_tied && position == static_cast<int>(graph_.chain.size()) - 1 &&
         holds_first_block(layout_);
}

std::size_t ProgramBuilder::bucket_of(int position, const BucketClass& bucket) const {
  const int holder = shares_tied(position, bucket) ? 0 : position;
  const int chunk = chunk_of(holder);
  const auto found = std::find_if(layout_.buckets.begin(), layout_.buckets.end(),
                                  [&](const BucketLayout& candidate) {
                                    return candidate.chunk == chunk && candidate.bucket == bucket &&
                                           (candidate.block < 0 || candidate.block == holder);
                                  });
  MEGA_CHECK(found != layout_.buckets.end(), "a parameter without a bucket");
  return static_cast<std::size_t>(found - layout_.buckets.begin());
}

void ProgramBuilder::add_parameters(int position) {
  const PartitionedBlock& block = block_at(position);
  std::map<std::size_t, std::int64_t> next;  // element of each bucket
  for (const LocalParameter& parameter : block.parameters) {
    const std::size_t b = bucket_of(position, parameter.bucket);
    if (shares_tied(position, parameter.bucket)) {
      for (const LocalParameter& other : block_at(0).parameters) {
        if (!other.bucket.is_tied) continue;
        if (block.tensors[parameter.weight].home != Home::View) {
          buffers_[{position, parameter.weight}] = buffer_of(0, other.weight);
        }
        if (block.tensors[parameter.gradient].home != Home::View) {
          buffers_[{position, parameter.gradient}] = buffer_of(0, other.gradient);
        }
      }
      continue;
    }
    const auto [element, is_first] = next.try_emplace(b, next_element_[b]);
    add_parameter(parameter, position, b, element->second);
    const Shape& shape = block.tensors[parameter.weight].shape;
    element->second += round_up(element_count(shape), kBucketAlignmentElements);
  }
  for (const auto& [b, element] : next) {
    next_element_[b] += bucket_elements(block, layout_.buckets[b].bucket);
  }
}

// Views for the ops, and what between steps is here of the parameter and its gradient.
void ProgramBuilder::add_parameter(const LocalParameter& parameter, int position,
                                   std::size_t bucket, std::int64_t element) {
  const PartitionedBlock& block = block_at(position);
  const LocalTensor& weight = block.tensors[parameter.weight];
  const std::string name = instance_name(weight.name, position - 1);
  const auto add = [&](TensorId id, const std::string& suffix, Role role, BufferId whole,
                       BufferId part, bool is_whole) {
    Buffer buffer =
        persistent_buffer(name + suffix, DType::Fp32, weight.shape, Bytes(4 * element), whole);
    const Shard shard{role, name, parameter.global_shape, weight.sharding.mesh,
                      weight.sharding.axes};
    if (!is_whole) annotate_part(buffer, part, parameter.bucket, shard);
    if (block.tensors[id].home == Home::View) return;
    if (is_whole || role == Role::Parameter) buffer.shard = shard;
    if (!is_whole && role == Role::Parameter) buffer.shard->role = Role::WorkingCopy;
    buffers_[{position, id}] = program_.buffers.add(std::move(buffer));
  };
  const Bucket& own = buckets_[bucket];
  const bool is_cut = parameter.bucket.parts > 1;
  const bool is_gathered = own.own_weights != own.weights && !gathers_at_start_;
  add(parameter.weight, "", Role::Parameter, own.weights, own.own_weights, !is_cut || is_gathered);
  add(parameter.gradient, ".grad", Role::Gradient, own.gradients, own.own_gradients, !is_cut);
}

// The same tensor in terms of a part of its bucket: what of it lies inside is here.
void ProgramBuilder::annotate_part(const Buffer& whole, BufferId part, const BucketClass& bucket,
                                   const Shard& shard) {
  const Buffer& parent = program_.buffers[part];
  Buffer buffer = whole;
  buffer.name += ".part";
  buffer.parent = part;
  buffer.move = Move{bucket.mesh, bucket.scatter, -bytes_of(parent.dtype, parent.shape).count()};
  buffer.shard = shard;
  program_.buffers.add(std::move(buffer));
}

void ProgramBuilder::add_shards(int position) {
  for (const ShardedBucket& sharded : block_at(position).sharded) {
    const Bucket& bucket = buckets_[bucket_of(position, sharded.bucket)];
    buffers_[{position, sharded.gradient_shard}] = bucket.gradients;
    if (sharded.weights) buffers_[{position, sharded.weight_shard}] = bucket.weights;
  }
}

}  // namespace mega::planner
