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
  Saved,           // slot: made by forward, read by backward
  Scratch,         // inside one run of a segment
  Scalar,          // persistent scalar of the step
};

struct LocalTensor {
  std::string name;
  std::string letters;
  Shape shape;  // local
  DType dtype = DType::Fp32;
  Sharding sharding;
  Home home = Home::Scratch;
  Bytes offset;  // Saved: within the block's part of the slot; Scratch: within the scratch region
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

struct PartitionedBlock {
  std::string name;
  Table<TensorId, LocalTensor> tensors;
  std::vector<LocalParameter> parameters;
  std::vector<LocalOp> forward;
  std::vector<LocalOp> backward;
  TensorId input, output, input_gradient, output_gradient;
  Bytes saved;            // slot bytes of this block, its input stream not included
  Bytes forward_scratch;  // bytes of the scratch region that each direction needs
  Bytes backward_scratch;
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
  Table<BlockKindId, PartitionedBlock> kinds;
  std::vector<BlockKindId> chain;
  int layers = 0;
};

const Mesh& mesh_of(const PartitionedGraph& graph, int mesh);  // 0 or 1
// Axes of more than one rank inside a stage.
AxisSet within_stage(const PartitionedGraph& graph, int mesh);

// A flat bucket's element count for one class over a run of blocks: each parameter starts at a
// multiple of kBucketAlignmentElements.
inline constexpr std::int64_t kBucketAlignmentElements = 64;
std::int64_t bucket_elements(const PartitionedBlock& block, const BucketClass& bucket);
std::vector<BucketClass> bucket_classes(const PartitionedBlock& block);  // sorted, unique

Bytes stream_bytes(const PartitionedGraph& graph);  // one residual stream tensor, aligned

std::string print(const PartitionedGraph& graph);

}  // namespace mega
