#include "ir/model_graph.h"

#include <algorithm>

namespace mega {
namespace {

std::string kind_name(TensorKind kind) {
  switch (kind) {
    case TensorKind::Parameter:
      return "parameter";
    case TensorKind::Gradient:
      return "gradient";
    case TensorKind::Activation:
      return "activation";
    case TensorKind::Scalar:
      return "scalar";
  }
  return "?";
}

// "x[4096,1,768]", with the letters' global sizes.
std::string shown(const ModelGraph& graph, const Tensor& tensor) {
  Shape shape;
  for (const char letter : tensor.letters) shape.push_back(graph.extents[letter]);
  return tensor.name + (tensor.kind == TensorKind::Gradient ? ".grad" : "") + " " +
         to_string(shape);
}

std::string print_op(const Block& block, const GraphOp& op) {
  std::string text = "    " + std::string(info(op.kind).name) + " " + op.index;
  const auto operand = [&](TensorId id) {
    const Tensor& tensor = block.tensors[id];
    return " " + tensor.name + (tensor.kind == TensorKind::Gradient ? ".grad" : "");
  };
  for (const TensorId id : op.inputs) text += operand(id);
  text += " ->";
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    const bool adds = (op.attributes.accumulate >> i & 1U) != 0;
    text += (adds ? " +=" : " ") + operand(op.outputs[i]).substr(1);
  }
  return text + "\n";
}

}  // namespace

std::string instance_name(const std::string& name, int layer) {
  const std::size_t hole = name.find("{}");
  if (hole == std::string::npos) return name;
  return name.substr(0, hole) + std::to_string(layer) + name.substr(hole + 2);
}

std::vector<BlockKindId> layer_kinds(const ModelGraph& graph) {
  std::vector<BlockKindId> kinds;
  for (std::size_t i = 1; i + 1 < graph.chain.size(); ++i) {
    const BlockKindId kind = graph.chain[i];
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  return kinds;
}

std::string chain_text(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size();) {
    std::size_t end = i;
    while (end < names.size() && names[end] == names[i]) ++end;
    const bool is_layer = i > 0 && i + 1 < names.size();
    text += (i == 0 ? "" : ", ") + (is_layer ? std::to_string(end - i) + " x " : "") + names[i];
    i = end;
  }
  return text;
}

std::int64_t parameter_count(const ModelGraph& graph, const Extents& extents) {
  std::int64_t total = 0;
  bool has_tied = false;
  for (const BlockKindId kind : graph.chain) {
    const Block& block = graph.kinds[kind];
    for (const Parameter& parameter : block.parameters) {
      if (parameter.is_shifted || (parameter.is_tied && has_tied)) continue;
      has_tied = has_tied || parameter.is_tied;
      total += extents.product(block.tensors[parameter.weight].letters);
    }
  }
  return total;
}

std::string print(const ModelGraph& graph) {
  std::string text = "model " + graph.name + "\n";
  std::vector<std::string> names;
  for (const BlockKindId kind : graph.chain) names.push_back(graph.kinds[kind].name);
  text += "  chain: " + chain_text(names) + "\n  sizes:";
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    if (graph.extents[letter] == 0) continue;
    text += " " + std::string(1, letter) + "=" + std::to_string(graph.extents[letter]);
  }
  text += "\n  parameters: " + std::to_string(parameter_count(graph, graph.extents)) + "\n";
  for (const Block& block : graph.kinds) {
    text += "\nblock " + block.name + "\n";
    for (const Tensor& tensor : block.tensors) {
      if (tensor.kind == TensorKind::Gradient) continue;
      text += "  " + kind_name(tensor.kind) + " " + shown(graph, tensor) + " " + tensor.letters +
              " " + std::string(name_of(tensor.dtype)) + "\n";
    }
    text += "  forward\n";
    for (const GraphOp& op : block.forward) text += print_op(block, op);
    if (!block.backward.empty()) text += "  backward\n";
    for (const GraphOp& op : block.backward) text += print_op(block, op);
  }
  return text;
}

}  // namespace mega
