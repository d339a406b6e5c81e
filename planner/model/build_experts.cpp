#include "planner/model/build_experts.h"

#include <cmath>
#include <string>
#include <utility>

namespace mega::planner {
namespace {

// Parameter names per family.
struct Names {
  const char *router, *bias, *gate, *up, *down, *shared_gate, *shared_up, *shared_down;
};

constexpr Names kMixtral = {
    "model.layers.{}.block_sparse_moe.gate.weight",
    "model.layers.{}.block_sparse_moe.gate.e_score_correction_bias",
    "model.layers.{}.block_sparse_moe.experts.w1.weight",
    "model.layers.{}.block_sparse_moe.experts.w3.weight",
    "model.layers.{}.block_sparse_moe.experts.w2.weight",
    "model.layers.{}.block_sparse_moe.shared_experts.w1.weight",
    "model.layers.{}.block_sparse_moe.shared_experts.w3.weight",
    "model.layers.{}.block_sparse_moe.shared_experts.w2.weight",
};

constexpr Names kOthers = {"model.layers.{}.mlp.gate.weight",
                           "model.layers.{}.mlp.gate.e_score_correction_bias",
                           "model.layers.{}.mlp.experts.gate_proj.weight",
                           "model.layers.{}.mlp.experts.up_proj.weight",
                           "model.layers.{}.mlp.experts.down_proj.weight",
                           "model.layers.{}.mlp.shared_experts.gate_proj.weight",
                           "model.layers.{}.mlp.shared_experts.up_proj.weight",
                           "model.layers.{}.mlp.shared_experts.down_proj.weight"};

class ExpertsBuilder {
 public:
  ExpertsBuilder(Block& block, const ModelSpec& model, std::int64_t sequence_length,
                 std::int64_t tokens_per_step)
      : block_(block),
        model_(model),
        moe_(*model.moe),
        names_(model.family == "mixtral" ? kMixtral : kOthers),
        sequence_length_(static_cast<double>(sequence_length)),
        tokens_(static_cast<double>(tokens_per_step)) {}

  TensorId build(TensorId x) {
    TensorId shared;
    is_shared_ = moe_.shared_ffn_hidden > 0;
    if (is_shared_) shared = shared_experts(x);
    is_shared_ = false;
    const TensorId y = experts(x);
    if (!shared) return y;
    const TensorId sum = activation("experts.sum", "sbh");
    op(OpKind::Add, "sbh,sbh->sbh", {y, shared}, {sum});
    return sum;
  }

 private:
  TensorId activation(std::string name, std::string letters, DType dtype = DType::Fp32) {
    return block_.tensors.add({std::move(name), std::move(letters), TensorKind::Activation, dtype});
  }

  TensorId parameter(const char* name, std::string letters, double std_dev) {
    Parameter parameter;
    parameter.initial_is_normal = true;
    parameter.initial = std_dev;
    parameter.weight_decay = true;
    return add(name, std::move(letters), parameter);
  }

  TensorId add(const char* name, std::string letters, Parameter parameter) {
    parameter.weight =
        block_.tensors.add({name, std::move(letters), TensorKind::Parameter, DType::Fp32});
    block_.parameters.push_back(parameter);
    return parameter.weight;
  }

  void op(OpKind kind, std::string index, std::vector<TensorId> inputs,
          std::vector<TensorId> outputs, const Attributes& attributes = {}) {
    auto modules = static_cast<std::uint32_t>(Module::Moe);
    if (is_shared_) modules |= static_cast<std::uint32_t>(Module::SharedExperts);
    if (kind == OpKind::GroupedSwiGlu) modules |= static_cast<std::uint32_t>(Module::MoeActivation);
    block_.forward.push_back({kind, std::move(index), std::move(inputs), std::move(outputs),
                              attributes, modules, false});
  }

  bool is_silu() const { return model_.activation == ActivationKind::SwiGlu; }
  double residual_std() const { return model_.init_std / std::sqrt(2.0 * model_.layers); }

  TensorId shared_experts(TensorId x) {
    const TensorId input = activation("shared.in", "sbh");
    op(OpKind::Copy, "sbh->sbh", {x}, {input});
    const TensorId gate = activation("shared.gate", "sbw");
    op(OpKind::MatMul, "sbh,wh->sbw", {input, parameter(names_.shared_gate, "wh", model_.init_std)},
       {gate});
    const TensorId up = activation("shared.up", "sbw");
    op(OpKind::MatMul, "sbh,wh->sbw", {input, parameter(names_.shared_up, "wh", model_.init_std)},
       {up});
    const TensorId activated = activation("shared.activated", "sbw");
    op(is_silu() ? OpKind::SwiGlu : OpKind::GeGlu, "sbw,sbw->sbw", {gate, up}, {activated});
    const TensorId down = activation("shared.down", "sbh");
    op(OpKind::MatMul, "sbw,hw->sbh",
       {activated, parameter(names_.shared_down, "hw", residual_std())}, {down});
    return down;
  }

  TensorId experts(TensorId x) {
    const auto [weights, chosen] = route(x);
    const TensorId places = activation("router.places", "sbk", DType::Int32);
    const TensorId sent = activation("rows.sent", "ze", DType::Int32);
    op(OpKind::SortRows, "sbk->sbk,ze", {chosen}, {places, sent});
    const TensorId received = activation("rows.received", "yx", DType::Int32);
    op(OpKind::AllToAll, "ze->yx", {sent}, {received});
    const TensorId own = activation("rows.own", "ah");
    op(OpKind::TakeRows, "sbh,sbk->ah", {x, places}, {own});
    const TensorId rows = activation("rows", "ch");
    op(OpKind::AllToAllV, "ah,ze,yx->ch", {own, sent, received}, {rows});
    const TensorId gate = product("experts.gate", names_.gate, rows, received);
    const TensorId up = product("experts.up", names_.up, rows, received);
    const TensorId activated = activation("experts.activated", "cm");
    op(is_silu() ? OpKind::GroupedSwiGlu : OpKind::GroupedGeGlu, "cm,cm,yx->cm",
       {gate, up, received}, {activated});
    const TensorId down = activation("experts.down", "ch");
    op(OpKind::GroupedMatMul, "cm,xhm,yx->ch",
       {activated, parameter(names_.down, "xhm", residual_std()), received}, {down});
    const TensorId returned = activation("rows.returned", "uh");
    op(OpKind::AllToAllV, "ch,ze,yx->uh", {down, sent, received}, {returned}, {.inverse = true});
    const TensorId y = activation("experts.out", "sbh");
    op(OpKind::CombineRows, "uh,sbk,sbk->sbh", {returned, places, weights}, {y});
    return y;
  }

  TensorId product(std::string name, const char* parameter_name, TensorId rows, TensorId counts) {
    const TensorId y = activation(std::move(name), "cm");
    op(OpKind::GroupedMatMul, "ch,xmh,yx->cm",
       {rows, parameter(parameter_name, "xmh", model_.init_std), counts}, {y});
    return y;
  }

  std::pair<TensorId, TensorId> route(TensorId x) {
    const RouterSpec& router = moe_.router;
    const TensorId logits = activation("router.logits", "sbe");
    op(OpKind::MatMul, "sbh,eh->sbe", {x, parameter(names_.router, "eh", model_.init_std)},
       {logits});
    Attributes attributes;
    attributes.scale = router.scale;
    attributes.groups = router.groups;
    attributes.group_limit = router.group_top_k;
    attributes.sigmoid = router.score == RouterScore::Sigmoid;
    attributes.over_all = router.pre_softmax;
    attributes.normalize = router.normalize;
    const TensorId weights = activation("router.weights", "sbk");
    const TensorId chosen = activation("router.experts", "sbk", DType::Int32);
    if (router.bias) {
      Parameter bias;
      bias.is_shifted = true;
      op(OpKind::Route, "sbe,e->sbk,sbk", {logits, add(names_.bias, "e", bias)}, {weights, chosen},
         attributes);
    } else {
      op(OpKind::Route, "sbe->sbk,sbk", {logits}, {weights, chosen}, attributes);
    }
    auxiliary_losses(logits, chosen);
    return {weights, chosen};
  }

  void auxiliary_losses(TensorId logits, TensorId chosen) {
    const RouterSpec& router = moe_.router;
    if (router.aux_coefficient == 0 && router.z_coefficient == 0) return;
    const TensorId loss = block_.tensors.add({"aux_loss", "", TensorKind::Scalar, DType::Fp64});
    if (router.aux_coefficient > 0) {
      const TensorId probabilities = activation("load.probabilities", "be");
      const TensorId load = activation("load.tokens", "be");
      op(OpKind::ExpertLoad, "sbe,sbk->be,be", {logits, chosen}, {probabilities, load},
         {.sigmoid = router.score == RouterScore::Sigmoid});
      // Of one sequence; the partitioner divides by the sequences of a micro-batch.
      const double scale = router.aux_coefficient * static_cast<double>(moe_.experts) /
                           (static_cast<double>(moe_.top_k) * sequence_length_ * tokens_);
      op(OpKind::BalanceLoss, "be,be->", {probabilities, load}, {loss},
         {.scale = scale, .accumulate = 1});
    }
    if (router.z_coefficient > 0) {
      op(OpKind::RouterZLoss, "sbe->", {logits}, {loss},
         {.scale = router.z_coefficient / tokens_, .accumulate = 1});
    }
  }

  Block& block_;
  const ModelSpec& model_;
  const MoeSpec& moe_;
  const Names& names_;
  double sequence_length_, tokens_;
  bool is_shared_ = false;  // the ops that follow are of the shared experts
};

}  // namespace

TensorId add_experts(Block& block, const ModelSpec& model, std::int64_t sequence_length,
                     std::int64_t tokens_per_step, TensorId x) {
  return ExpertsBuilder(block, model, sequence_length, tokens_per_step).build(x);
}

void set_expert_extents(const MoeSpec& moe, Extents& extents) {
  extents['e'] = extents['x'] = moe.experts;
  extents['k'] = moe.top_k;
  extents['m'] = moe.ffn_hidden;
  extents['w'] = moe.shared_ffn_hidden;
  extents['a'] = extents['u'] = extents['c'] = extents['s'] * extents['b'] * moe.top_k;
  extents['y'] = extents['z'] = 1;
}

}  // namespace mega::planner
