#include "planner/lower/recompute.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "ir/base/check.h"

namespace mega::planner {
namespace {

constexpr std::array<std::pair<const char*, Module>, 8> kModules = {{
    {"activation", Module::Activation},
    {"core_attention", Module::CoreAttention},
    {"mla_up", Module::MlaUp},
    {"mlp", Module::Mlp},
    {"moe", Module::Moe},
    {"moe_activation", Module::MoeActivation},
    {"norms", Module::Norms},
    {"shared_experts", Module::SharedExperts},
}};

class Recomputer {
 public:
  Recomputer(const Block& block, const Recompute& recompute) : block_(block) {
    const std::uint32_t modules = modules_named(recompute.modules);
    for (const GraphOp& op : block_.forward) {
      const bool is_named = recompute.kind == Recompute::Kind::Full || (op.modules & modules) != 0;
      if (!is_named || writes_sum(op)) continue;
      for (const TensorId output : op.outputs) producer_[output] = &op;
    }
  }

  Block run() {
    Block result = block_;
    result.backward.clear();
    tensors_ = &result.tensors;
    for (GraphOp op : block_.backward) {
      for (TensorId& input : op.inputs) input = again(input, result.backward);
      result.backward.push_back(std::move(op));
    }
    return result;
  }

 private:
  // What is summed over the step counts each addend once.
  bool writes_sum(const GraphOp& op) const {
    return std::any_of(op.outputs.begin(), op.outputs.end(), [&](TensorId id) {
      return block_.tensors[id].kind != TensorKind::Activation;
    });
  }

  // The tensor as backward sees it: kept, or made again by an op put before.
  TensorId again(TensorId id, std::vector<GraphOp>& ops) {
    const auto producer = producer_.find(id);
    if (producer == producer_.end()) return id;
    const auto made = made_.find(id);
    if (made != made_.end()) return made->second;
    GraphOp op = *producer->second;
    op.is_recomputed = true;
    for (TensorId& input : op.inputs) input = again(input, ops);
    for (TensorId& output : op.outputs) {
      Tensor copy = block_.tensors[output];
      copy.name += ".again";
      output = made_[output] = tensors_->add(std::move(copy));
    }
    ops.push_back(std::move(op));
    return made_.at(id);
  }

  const Block& block_;
  std::map<TensorId, const GraphOp*> producer_;  // of the tensors that are not kept
  std::map<TensorId, TensorId> made_;
  Table<TensorId, Tensor>* tensors_ = nullptr;
};

bool is_layer(const Block& block) {
  return static_cast<bool>(block.input) && static_cast<bool>(block.output);
}

}  // namespace

Block recompute(const Block& block, const Recompute& recompute) {
  if (recompute.kind == Recompute::Kind::None || !is_layer(block)) return block;
  return Recomputer(block, recompute).run();
}

std::uint32_t modules_named(const std::vector<std::string>& names) {
  std::uint32_t bits = 0;
  for (const std::string& name : names) {
    const auto module = std::find_if(kModules.begin(), kModules.end(),
                                     [&](const auto& known) { return name == known.first; });
    MEGA_CHECK(module != kModules.end(), "no module " + name);
    bits |= static_cast<std::uint32_t>(module->second);
  }
  return bits;
}

Flops recomputed_flops(const ModelGraph& graph, const Recompute& recompute) {
  if (recompute.kind == Recompute::Kind::None) return {};
  std::vector<Flops> of_kind;
  for (const Block& block : graph.kinds) {
    Flops again;
    for (const GraphOp& op : mega::planner::recompute(block, recompute).backward) {
      if (!op.is_recomputed || !is_in_model_flops(op.kind)) continue;
      again += flops(op.kind, *parse_index(op.index), graph.extents, op.attributes);
    }
    of_kind.push_back(again);
  }
  Flops all;
  for (const BlockKindId kind : graph.chain) all += of_kind[static_cast<std::size_t>(kind.index)];
  return all;
}

}  // namespace mega::planner
