// The model as one rank sees it: local shapes, shardings, collectives written out, and where each
// tensor lives. Still per block kind; a stage is a run of blocks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/base/ids.h"
#include "ir/mesh.h"
#include "ir/model_graph.h"
#include "ir/plan.h"

namespace mega {

// How a tensor is spread over the mesh: dimension i evenly over axes[i]; `partial` axes hold
// addends that are yet to be combined; along all others, copies.
struct Sharding {
  std::vector<AxisSet> axes;
  AxisSet partial;
  Combine combine = Combine::None;  // how the addends combine
  int mesh = 0;                     // whose axes: PartitionedGraph::mesh or experts
  bool operator==(const Sharding&) const = default;
};
AxisSet sharded(const Sharding& sharding);  // union of all axes of dimensions

enum class Home : std::uint8_t {
  Parameter,       // view into a bucket of weights
  Gradient,        // view into a bucket of gradients
  Stream,          // the block's input: slot, written by the block before (or received)
  NextStream,      // the block's output: the Stream of the block after (or sent)
  StreamGradient,  // gradient of the residual stream: one slot buffer of the chunk
  Saved,           // slot: made by one pass, read by a later one
  Scratch,         // inside one run of a segment
  Scalar,          // persistent scalar of the step
  WeightShard,     // the rank's part of a bucket of weights
  GradientShard,   // the rank's part of a bucket of gradients
  View,            // into LocalTensor::parent
};

struct LocalTensor {
  std::string name;
  std::string letters;
  Shape shape;  // local
  DType dtype = DType::Fp32;
  Sharding sharding;
  Home home = Home::Scratch;
  Bytes offset;  // Saved: within the block's part of the slot; Scratch: within the scratch region;
                 // View: within its parent
  TensorId parent;      // of a View
  AxisSet own_part_of;  // of a View: it is this rank's part among the equal parts of its parent
  bool operator==(const LocalTensor&) const = default;
};

struct LocalOp {
  OpKind kind = OpKind::Add;
  std::string index;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  Attributes attributes;
  std::vector<OriginTerm> origin;
  AxisSet owner;
  std::optional<Group> group;
  bool is_recomputed = false;  // a forward op, done again in backward
  bool operator==(const LocalOp&) const = default;
};

// Parameters whose gradients are reduced alike share flat buckets.
struct BucketClass {
  AxisSet sharded;  // axes that split the parameters
  AxisSet reduce;   // axes along which gradients are addends
  AxisSet scatter;  // of these, axes over which the optimizer's state is cut ...
  int parts = 1;    // ... into as many parts as they have ranks
  bool weight_decay = false;
  bool is_tied = false;     // also summed over the stages that hold a copy
  bool is_shifted = false;  // see Parameter in ir/model_graph.h
  int mesh = 0;             // whose axes
  bool operator==(const BucketClass&) const = default;
  auto operator<=>(const BucketClass&) const = default;
};

struct LocalParameter {
  TensorId weight, gradient;
  BucketClass bucket;
  Shape global_shape;  // unpadded
  bool initial_is_normal = false;
  double initial = 0;
  bool operator==(const LocalParameter&) const = default;
};

// A bucket of one block whose gradients, and at the highest level weights too, are whole in scratch
// only; in between each rank holds its part.
struct ShardedBucket {
  BucketClass bucket;
  TensorId gradients, gradient_shard;
  TensorId weights, weight_shard;  // unset where weights are whole
  bool operator==(const ShardedBucket&) const = default;
};

struct PartitionedBlock {
  std::string name;
  Table<TensorId, LocalTensor> tensors;
  std::vector<LocalParameter> parameters;
  std::vector<ShardedBucket> sharded;
  std::vector<LocalOp> forward;
  std::vector<LocalOp> backward;
  // What of backward only gradients of parameters need, where the schedule runs it apart; it may
  // come any time after backward.
  std::vector<LocalOp> weight_gradient;
  TensorId input, output, input_gradient, output_gradient;
  Bytes saved;            // slot bytes of this block, its input stream not included
  Bytes forward_scratch;  // bytes of the scratch region that each pass needs
  Bytes backward_scratch;
  Bytes weight_scratch;
  bool operator==(const PartitionedBlock&) const = default;
};

struct PartitionedGraph {
  Mesh mesh;           // all axes, outermost first
  Mesh experts;        // of the same ranks; no axes where it isn't used
  AxisSet pipeline;    // the axis along which blocks are cut
  AxisSet sequence;    // what splits the sequence of attention
  Extents extents;     // global, padded
  Shape stream_shape;  // local shape of the residual stream
  Sharding stream_sharding;
  std::int64_t micro_batch = 0;
  double expected_rows = 0;  // of the letter c on the busiest rank, as a share of those planned
  int zero = 0;  // how much of a bucket is cut into its parts: 1 optimizer state, 2 gradients,
                 // 3 weights
  Table<BlockKindId, PartitionedBlock> kinds;
  std::vector<BlockKindId> chain;
  int layers = 0;
};

const Mesh& mesh_of(const PartitionedGraph& graph, int mesh);  // 0 or 1
// Axes of more than one rank inside a stage.
// `name`, with as many primes as no other tensor of the block has.
std::string unused_name(const PartitionedBlock& block, std::string name);
AxisSet within_stage(const PartitionedGraph& graph, int mesh);

// What a block adds to the flat bucket of a class. Each parameter starts at a multiple of
// kBucketAlignmentElements, and the whole is padded so that every part starts on a line of the
// cache: to a multiple of lcm(64, 16 parts) elements. Per block, so that memory adds up block by
// block.
inline constexpr std::int64_t kBucketAlignmentElements = 64;
std::int64_t bucket_elements(const PartitionedBlock& block, const BucketClass& bucket);
std::vector<BucketClass> bucket_classes(const PartitionedBlock& block);  // sorted, unique

Bytes scratch_bytes(const PartitionedBlock& block);  // of the pass that needs the most
Bytes stream_bytes(const PartitionedGraph& graph);   // one residual stream tensor, aligned

std::string print(const PartitionedGraph& graph);

}  // namespace mega
