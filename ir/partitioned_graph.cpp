#include "ir/partitioned_graph.h"

#include <algorithm>
#include <numeric>

namespace mega {
namespace {

std::string home_name(Home home) {
  switch (home) {
    case Home::Parameter:
      return "parameter";
    case Home::Gradient:
      return "gradient";
    case Home::Stream:
      return "stream";
    case Home::NextStream:
      return "next stream";
    case Home::StreamGradient:
      return "stream gradient";
    case Home::Saved:
      return "saved";
    case Home::Scratch:
      return "scratch";
    case Home::Scalar:
      return "scalar";
    case Home::WeightShard:
      return "weight shard";
    case Home::GradientShard:
      return "gradient shard";
    case Home::View:
      return "view";
  }
  return "?";
}

// "[1024/tp,1,768]": local sizes, each split dimension with the axes that split it.
std::string print_shape(const PartitionedGraph& graph, const LocalTensor& tensor) {
  const Mesh& mesh = mesh_of(graph, tensor.sharding.mesh);
  std::string text = "[";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i > 0) text += ",";
    text += std::to_string(tensor.shape[i]);
    const AxisSet axes = tensor.sharding.axes[i];
    if (!axes.empty()) text += "/" + to_string(mesh, axes);
  }
  text += "]";
  if (!tensor.sharding.partial.empty()) {
    text += " partial along " + to_string(mesh, tensor.sharding.partial);
  }
  return text;
}

std::string print_op(const PartitionedGraph& graph, const PartitionedBlock& block,
                     const LocalOp& op) {
  const Mesh& mesh = graph.mesh;
  std::string text = "    " + std::string(info(op.kind).name);
  if (is_collective(op.kind)) {
    text += " along " + to_string(mesh_of(graph, op.group->mesh), *op.group);
  } else {
    text += " " + op.index;
  }
  for (const TensorId id : op.inputs) text += " " + block.tensors[id].name;
  text += " ->";
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    const bool adds = (op.attributes.accumulate >> i & 1U) != 0;
    text += (adds ? " +=" : " ") + block.tensors[op.outputs[i]].name;
  }
  for (const OriginTerm& term : op.origin) {
    text += " origin " + to_string(mesh, term.axes) + "*" + std::to_string(term.stride);
  }
  if (!op.owner.empty()) text += " owner " + to_string(mesh, op.owner);
  if (op.is_recomputed) text += " again";
  return text + "\n";
}

}  // namespace

AxisSet sharded(const Sharding& sharding) {
  AxisSet axes;
  for (const AxisSet dimension : sharding.axes) axes = axes | dimension;
  return axes;
}

const Mesh& mesh_of(const PartitionedGraph& graph, int mesh) {
  return mesh == 0 ? graph.mesh : graph.experts;
}

std::string unused_name(const PartitionedBlock& block, std::string name) {
  for (const LocalTensor& other : block.tensors) {
    if (other.name == name) name += "'";
  }
  return name;
}

AxisSet within_stage(const PartitionedGraph& graph, int mesh) {
  const Mesh& of = mesh_of(graph, mesh);
  return split_axes(of) - AxisSet::of(axis_index(of, to_string(graph.mesh, graph.pipeline)));
}

std::int64_t bucket_elements(const PartitionedBlock& block, const BucketClass& bucket) {
  std::int64_t elements = 0;
  for (const LocalParameter& parameter : block.parameters) {
    if (parameter.bucket != bucket) continue;
    elements +=
        round_up(element_count(block.tensors[parameter.weight].shape), kBucketAlignmentElements);
  }
  constexpr std::int64_t kLineElements = kBufferAlignmentBytes / 4;
  return round_up(elements, std::lcm(kBucketAlignmentElements, kLineElements * bucket.parts));
}

std::vector<BucketClass> bucket_classes(const PartitionedBlock& block) {
  std::vector<BucketClass> classes;
  for (const LocalParameter& parameter : block.parameters) classes.push_back(parameter.bucket);
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

Bytes scratch_bytes(const PartitionedBlock& block) {
  return std::max({block.forward_scratch, block.backward_scratch, block.weight_scratch});
}

Bytes stream_bytes(const PartitionedGraph& graph) {
  return Bytes(round_up(bytes_of(DType::Fp32, graph.stream_shape).count(), kBufferAlignmentBytes));
}

std::string print(const PartitionedGraph& graph) {
  std::string text = "partitioned graph, one rank's parts\n  mesh:";
  for (const Axis& axis : graph.mesh.axes)
    text += " " + axis.name + "=" + std::to_string(axis.size);
  if (!graph.experts.axes.empty()) text += "\n  mesh of experts:";
  for (const Axis& axis : graph.experts.axes)
    text += " " + axis.name + "=" + std::to_string(axis.size);
  std::vector<std::string> names;
  for (const BlockKindId kind : graph.chain) names.push_back(graph.kinds[kind].name);
  text += "\n  chain: " + chain_text(names) + "\n";
  for (const PartitionedBlock& block : graph.kinds) {
    text += "\nblock " + block.name + ": " + to_string(block.saved) + " saved per micro-batch, " +
            to_string(scratch_bytes(block)) + " scratch\n";
    for (const LocalTensor& tensor : block.tensors) {
      text += "  " + home_name(tensor.home) + " " + tensor.name + " " + print_shape(graph, tensor);
      if (tensor.home == Home::Saved || tensor.home == Home::Scratch) {
        text += " at " + std::to_string(tensor.offset.count());
      }
      if (tensor.parent) {
        text += " in " + block.tensors[tensor.parent].name;
        text += tensor.own_part_of.empty() ? " at " + std::to_string(tensor.offset.count())
                                           : " along " + to_string(graph.mesh, tensor.own_part_of);
      }
      text += "\n";
    }
    text += "  forward\n";
    for (const LocalOp& op : block.forward) text += print_op(graph, block, op);
    text += "  backward\n";
    for (const LocalOp& op : block.backward) text += print_op(graph, block, op);
    if (!block.weight_gradient.empty()) text += "  weight gradient\n";
    for (const LocalOp& op : block.weight_gradient) text += print_op(graph, block, op);
  }
  return text;
}

}  // namespace mega
