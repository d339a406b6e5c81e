#include "planner/model/add_backward.h"

#include <map>
#include <set>
#include <utility>

#include "ir/base/check.h"

namespace mega::planner {
namespace {

class Differentiator {
 public:
  explicit Differentiator(Block& block) : block_(block) {
    for (Parameter& parameter : block_.parameters) {
      const Tensor weight = block_.tensors[parameter.weight];
      parameter.gradient =
          block_.tensors.add({weight.name, weight.letters, TensorKind::Gradient, DType::Fp32});
      gradient_[parameter.weight] = parameter.gradient;
    }
    if (block_.output) {
      const Tensor output = block_.tensors[block_.output];
      block_.output_gradient =
          block_.tensors.add({"dx", output.letters, TensorKind::Activation, DType::Fp32});
      gradient_[block_.output] = block_.output_gradient;
    }
  }

  void run() {
    for (std::size_t i = block_.forward.size(); i-- > 0;) {
      const GraphOp op = block_.forward[i];  // a copy: tensors are added below
      differentiate(op);
      for (const TensorId output : op.outputs) finished_.insert(output);
    }
    if (block_.input) block_.input_gradient = gradient_.at(block_.input);
  }

 private:
  void differentiate(const GraphOp& op) {
    switch (op.kind) {
      case OpKind::MatMul:
        return matmul(op);
      case OpKind::AddBias:
        into_parameter(OpKind::BiasBackward, swap_sides(op.index, 0, 1), {dy(op)}, op.inputs[1]);
        return pass_on(op.inputs[0], dy(op));
      case OpKind::Add:
        pass_on(op.inputs[0], dy(op));
        return pass_on(op.inputs[1], dy(op));
      case OpKind::AddPosition:
        into_parameter(OpKind::AddPositionBackward, "sbh->ph", {dy(op)}, op.inputs[1]);
        return pass_on(op.inputs[0], dy(op));
      case OpKind::Embedding:
        return into_parameter(OpKind::EmbeddingBackward, "sb,sbh->vh", {op.inputs[0], dy(op)},
                              op.inputs[1]);
      case OpKind::LayerNorm:
      case OpKind::RmsNorm:
        return norm(op);
      case OpKind::Rope:
        return rope(op);
      case OpKind::Attention:
        return attention(op);
      case OpKind::GeluTanh:
        return unary(op, OpKind::GeluTanhBackward);
      case OpKind::Gelu:
        return unary(op, OpKind::GeluBackward);
      case OpKind::Relu2:
        return unary(op, OpKind::Relu2Backward);
      case OpKind::SwiGlu:
        return gated(op, OpKind::SwiGluBackward);
      case OpKind::GeGlu:
        return gated(op, OpKind::GeGluBackward);
      case OpKind::Scale:
        return emit(OpKind::Scale, op.index, {dy(op)}, {fresh(op.inputs[0])}, op.attributes);
      case OpKind::Clip:
        return unary(op, OpKind::ClipBackward);
      case OpKind::SoftCap:
        return soft_cap(op);
      case OpKind::JoinHeads:
        return join_heads(op);
      case OpKind::TokenLoss:
        return loss(op);
      case OpKind::Copy:
        return add_copy(op.inputs[0], dy(op));
      case OpKind::Route:
        return route(op);
      case OpKind::TakeRows:
        return take_rows(op);
      case OpKind::AllToAllV:
        return move_rows(op);
      case OpKind::GroupedMatMul:
        return grouped_matmul(op);
      case OpKind::GroupedSwiGlu:
        return grouped_gated(op, OpKind::GroupedSwiGluBackward);
      case OpKind::GroupedGeGlu:
        return grouped_gated(op, OpKind::GroupedGeGluBackward);
      case OpKind::CombineRows:
        return combine_rows(op);
      case OpKind::VocabMax:
      case OpKind::VocabSumExp:  // the loss's rule reaches through them to the logits
      case OpKind::InputTokens:
      case OpKind::InputLabels:
      case OpKind::SortRows:
      case OpKind::AllToAll:
      case OpKind::ExpertLoad:  // the route's rule reaches through these to the logits
      case OpKind::BalanceLoss:
      case OpKind::RouterZLoss:
        return;
      default:
        break;
    }
    MEGA_CHECK(false, "no backward rule for " + std::string(info(op.kind).name));
  }

  TensorId dy(const GraphOp& op) const { return gradient_.at(op.outputs[0]); }

  void emit(OpKind kind, std::string index, std::vector<TensorId> inputs,
            std::vector<TensorId> outputs, Attributes attributes = {}) {
    block_.backward.push_back(
        {kind, std::move(index), std::move(inputs), std::move(outputs), attributes, 0, false});
  }

  // "A,B->C" with operands renamed: "C->B" and the like.
  static std::string swap_sides(const std::string& index, int from_output, int to_input) {
    const Index parsed = *parse_index(index);
    return parsed.outputs[static_cast<std::size_t>(from_output)] + "->" +
           parsed.inputs[static_cast<std::size_t>(to_input)];
  }

  // Where a contribution to the gradient of `tensor` goes: a new tensor, or the one that already
  // holds other contributions, to be added to. The latter is also the gradient of every tensor
  // that passed it on; their producers must be done with it.
  std::pair<TensorId, bool> target(TensorId tensor) {
    const auto found = gradient_.find(tensor);
    if (found == gradient_.end()) {
      const Tensor primal = block_.tensors[tensor];
      const TensorId id =
          block_.tensors.add({"d" + primal.name, primal.letters, TensorKind::Activation});
      gradient_[tensor] = id;
      return {id, false};
    }
    for (const auto& [other, gradient] : gradient_) {
      const bool is_in_use = gradient == found->second && other != tensor &&
                             !finished_.contains(other) && other != block_.output;
      MEGA_CHECK(!is_in_use, "the gradient of " + block_.tensors[other].name +
                                 " would change before its last use");
    }
    return {found->second, true};
  }

  // d tensor = d with no op: both are one buffer from here on. Only for the first contribution;
  // the graphs that we build add the plain uses (residuals) last, so it is the first in reverse.
  void pass_on(TensorId tensor, TensorId d) {
    MEGA_CHECK(!gradient_.contains(tensor),
               "a second plain use of " + block_.tensors[tensor].name + " needs an add");
    gradient_[tensor] = d;
  }

  void into_parameter(OpKind kind, std::string index, std::vector<TensorId> inputs,
                      TensorId parameter) {
    emit(kind, std::move(index), std::move(inputs), {gradient_.at(parameter)}, {.accumulate = 1});
  }

  void matmul(const GraphOp& op) {
    const Index index = *parse_index(op.index);
    const std::string &a = index.inputs[0], &w = index.inputs[1], &c = index.outputs[0];
    const TensorId d = dy(op);
    into_parameter(OpKind::MatMul, c + "," + a + "->" + w, {d, op.inputs[0]}, op.inputs[1]);
    const auto [da, adds] = target(op.inputs[0]);
    emit(OpKind::MatMul, c + "," + w + "->" + a, {d, op.inputs[1]}, {da},
         {.accumulate = adds ? 1U : 0U});
  }

  void norm(const GraphOp& op) {
    const bool is_layer_norm = op.kind == OpKind::LayerNorm;
    const TensorId d = dy(op);
    const auto [dx, adds] = target(op.inputs[0]);
    std::vector<TensorId> inputs = {d, op.inputs[0], op.inputs[1]};
    inputs.insert(inputs.end(), op.outputs.begin() + 1, op.outputs.end());
    std::vector<TensorId> outputs = {dx, gradient_.at(op.inputs[1])};
    // x,w(,b) -> x,rows(,rows) becomes x,x,w,rows(,rows) -> x,w(,b)
    const Index index = *parse_index(op.index);
    const std::string &x = index.inputs[0], &w = index.inputs[1], &rows = index.outputs[1];
    std::string letters = x + "," + x + "," + w + "," + rows;
    if (is_layer_norm) letters += "," + rows;
    letters += "->" + x + "," + w;
    Attributes attributes{.value = op.attributes.value, .accumulate = 2U | (adds ? 1U : 0U)};
    if (op.inputs.size() > 2) {
      outputs.push_back(gradient_.at(op.inputs[2]));
      letters += "," + w;
      attributes.accumulate |= 4U;
    }
    emit(is_layer_norm ? OpKind::LayerNormBackward : OpKind::RmsNormBackward, std::move(letters),
         std::move(inputs), std::move(outputs), attributes);
  }

  void rope(const GraphOp& op) {
    const TensorId d = dy(op);
    Attributes back = op.attributes;
    back.inverse = true;
    emit(OpKind::Rope, op.index, {d}, {fresh(op.inputs[0])}, back);
  }

  void attention(const GraphOp& op) {
    const TensorId d = dy(op);
    const TensorId dq = fresh(op.inputs[0]);
    const TensorId dk = fresh(op.inputs[1]);
    const TensorId dv = fresh(op.inputs[2]);
    const Index index = *parse_index(op.index);
    const std::string &q = index.inputs[0], &k = index.inputs[1], &v = index.inputs[2],
                      &o = index.outputs[0], &lse = index.outputs[1];
    emit(OpKind::AttentionBackward,
         o + "," + q + "," + k + "," + v + "," + o + "," + lse + "->" + q + "," + k + "," + v,
         {d, op.inputs[0], op.inputs[1], op.inputs[2], op.outputs[0], op.outputs[1]}, {dq, dk, dv},
         op.attributes);
  }

  void unary(const GraphOp& op, OpKind backward) {
    const TensorId d = dy(op);
    const std::string x = parse_index(op.index)->inputs[0];
    emit(backward, x + "," + x + "->" + x, {d, op.inputs[0]}, {fresh(op.inputs[0])}, op.attributes);
  }

  void join_heads(const GraphOp& op) {
    const Index index = *parse_index(op.index);
    const TensorId d = dy(op);
    const TensorId first = fresh(op.inputs[0]);
    emit(OpKind::SplitHeads, index.outputs[0] + "->" + index.inputs[0] + "," + index.inputs[1], {d},
         {first, fresh(op.inputs[1])});
  }

  // From its output, so that the forward may work in place.
  void soft_cap(const GraphOp& op) {
    const TensorId d = dy(op);
    const std::string x = parse_index(op.index)->inputs[0];
    emit(OpKind::SoftCapBackward, x + "," + x + "->" + x, {d, op.outputs[0]}, {fresh(op.inputs[0])},
         op.attributes);
  }

  void gated(const GraphOp& op, OpKind backward) {
    const TensorId d = dy(op);
    const TensorId dgate = fresh(op.inputs[0]);
    const TensorId dup = fresh(op.inputs[1]);
    const std::string f = parse_index(op.index)->outputs[0];
    emit(backward, f + "," + f + "," + f + "->" + f + "," + f, {d, op.inputs[0], op.inputs[1]},
         {dgate, dup});
  }

  // token_loss(max, sum, target, labels, count): straight to the logits, softmax - onehot.
  void loss(const GraphOp& op) {
    const GraphOp* top = nullptr;
    for (const GraphOp& candidate : block_.forward) {
      if (candidate.kind == OpKind::VocabMax && candidate.outputs[0] == op.inputs[0]) {
        top = &candidate;
      }
    }
    MEGA_CHECK(top != nullptr, "token_loss without vocab_max");
    const TensorId logits = top->inputs[0];
    const Attributes attributes{.limit = top->attributes.limit};
    emit(OpKind::CrossEntropyBackward, "sbv,sb,sb,sb,->sbv",
         {logits, op.inputs[3], op.inputs[0], op.inputs[1], op.inputs[4]}, {fresh(logits)},
         attributes);
  }

  // The gradient of a tensor that is used twice, by ops whose gradients may be split differently:
  // two buffers, added up.
  void add_copy(TensorId tensor, TensorId d) {
    const auto found = gradient_.find(tensor);
    if (found == gradient_.end()) return pass_on(tensor, d);
    const Tensor primal = block_.tensors[tensor];
    const TensorId sum =
        block_.tensors.add({"d" + primal.name, primal.letters, TensorKind::Activation});
    emit(OpKind::Add, primal.letters + "," + primal.letters + "->" + primal.letters,
         {found->second, d}, {sum});
    gradient_[tensor] = sum;
  }

  // ---- experts: planner/model/build_experts.h draws them ----

  // The forward op of a kind that has `input` as its input `position`; nullptr when there is none.
  const GraphOp* user_of(OpKind kind, TensorId input, std::size_t position) const {
    for (const GraphOp& op : block_.forward) {
      if (op.kind == kind && op.inputs[position] == input) return &op;
    }
    return nullptr;
  }

  void route(const GraphOp& op) {
    const TensorId logits = op.inputs[0], experts = op.outputs[1];
    Attributes attributes = op.attributes;
    std::vector<TensorId> inputs = {dy(op), logits, experts};
    std::string index = "sbk,sbe,sbk";
    if (const GraphOp* load = user_of(OpKind::ExpertLoad, experts, 1)) {
      const GraphOp* loss = user_of(OpKind::BalanceLoss, load->outputs[0], 0);
      MEGA_CHECK(loss != nullptr, "a load that no loss balances");
      attributes.balance = loss->attributes.scale;
      inputs.push_back(load->outputs[1]);
      index += ",be";
    }
    if (const GraphOp* loss = user_of(OpKind::RouterZLoss, logits, 0)) {
      attributes.z = loss->attributes.scale;
    }
    emit(OpKind::RouteBackward, index + "->sbe", std::move(inputs), {fresh(logits)}, attributes);
    if (op.inputs.size() > 1)
      into_parameter(OpKind::CountExperts, "sbk->e", {experts}, op.inputs[1]);
  }

  // A gradient with other letters than its tensor's: as many rows, seen from elsewhere.
  TensorId fresh_as(TensorId tensor, const std::string& letters) {
    MEGA_CHECK(!gradient_.contains(tensor), "rows with a second use");
    const std::string name = "d" + block_.tensors[tensor].name;
    return gradient_[tensor] = block_.tensors.add({name, letters, TensorKind::Activation});
  }

  void take_rows(const GraphOp& op) {
    const TensorId d = dy(op);
    const auto [dx, adds] = target(op.inputs[0]);
    emit(OpKind::SumRows, "uh,sbk->sbh", {d, op.inputs[1]}, {dx}, {.accumulate = adds ? 1U : 0U});
  }

  void move_rows(const GraphOp& op) {
    const TensorId d = dy(op);
    Attributes back = op.attributes;
    back.inverse = !op.attributes.inverse;
    const TensorId moved = fresh_as(op.inputs[0], back.inverse ? "uh" : "ch");
    emit(OpKind::AllToAllV, back.inverse ? "ch,ze,yx->uh" : "ah,ze,yx->ch",
         {d, op.inputs[1], op.inputs[2]}, {moved}, back);
  }

  void grouped_matmul(const GraphOp& op) {
    const Index index = *parse_index(op.index);
    const std::string &a = index.inputs[0], &w = index.inputs[1], &c = index.outputs[0];
    const TensorId d = dy(op);
    into_parameter(OpKind::GroupedMatMul, c + "," + a + ",yx->" + w,
                   {d, op.inputs[0], op.inputs[2]}, op.inputs[1]);
    const auto [da, adds] = target(op.inputs[0]);
    emit(OpKind::GroupedMatMul, c + "," + w + ",yx->" + a, {d, op.inputs[1], op.inputs[2]}, {da},
         {.accumulate = adds ? 1U : 0U});
  }

  void grouped_gated(const GraphOp& op, OpKind backward) {
    const TensorId d = dy(op);
    const TensorId dgate = fresh(op.inputs[0]);
    const TensorId dup = fresh(op.inputs[1]);
    emit(backward, "cm,cm,cm,yx->cm,cm", {d, op.inputs[0], op.inputs[1], op.inputs[2]},
         {dgate, dup});
  }

  void combine_rows(const GraphOp& op) {
    const TensorId d = dy(op);
    const TensorId drows = fresh_as(op.inputs[0], "ah");
    emit(OpKind::CombineRowsBackward, "sbh,uh,sbk,sbk->ah,sbk",
         {d, op.inputs[0], op.inputs[1], op.inputs[2]}, {drows, fresh(op.inputs[2])});
  }

  TensorId fresh(TensorId tensor) {
    const auto [id, adds] = target(tensor);
    MEGA_CHECK(!adds, "the backward of the one use of " + block_.tensors[tensor].name + " adds");
    return id;
  }

  Block& block_;
  std::map<TensorId, TensorId> gradient_;
  std::set<TensorId> finished_;  // tensors whose producer has been differentiated
};

}  // namespace

ModelGraph add_backward(const ModelGraph& graph) {
  ModelGraph result = graph;
  result.kinds = {};
  for (Block block : graph.kinds) {
    Differentiator(block).run();
    result.kinds.add(std::move(block));
  }
  return result;
}

}  // namespace mega::planner
