#include "planner/model/build_model.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "planner/model/build_experts.h"

namespace mega::planner {
namespace {

// Parameter names per family; "{}" is the layer.
struct Names {
  const char *embedding, *position, *norm1, *q, *k, *v, *attention_out, *norm2, *gate, *up, *down,
      *final_norm, *head;
};

constexpr Names kGpt2 = {"wte",
                         "wpe",
                         "h.{}.ln_1",
                         "h.{}.attn.c_attn.q",
                         "h.{}.attn.c_attn.k",
                         "h.{}.attn.c_attn.v",
                         "h.{}.attn.c_proj",
                         "h.{}.ln_2",
                         "h.{}.mlp.c_gate",
                         "h.{}.mlp.c_fc",
                         "h.{}.mlp.c_proj",
                         "ln_f",
                         "lm_head"};

constexpr Names kLlama = {"model.embed_tokens",
                          "model.embed_positions",
                          "model.layers.{}.input_layernorm",
                          "model.layers.{}.self_attn.q_proj",
                          "model.layers.{}.self_attn.k_proj",
                          "model.layers.{}.self_attn.v_proj",
                          "model.layers.{}.self_attn.o_proj",
                          "model.layers.{}.post_attention_layernorm",
                          "model.layers.{}.mlp.gate_proj",
                          "model.layers.{}.mlp.up_proj",
                          "model.layers.{}.mlp.down_proj",
                          "model.norm",
                          "lm_head"};

const Names& names_of(const ModelSpec& model) {
  return model.family == "gpt2" ? kGpt2 : kLlama;
}

// What auxiliary losses need to know of the run.
struct Training {
  std::int64_t sequence_length = 1, global_batch = 1;
};

// Appends ops to one block; every method returns the tensor that it makes.
class BlockBuilder {
 public:
  BlockBuilder(const ModelSpec& model, std::string name) : model_(model) {
    block_.name = std::move(name);
  }

  TensorId activation(std::string name, std::string letters, DType dtype = DType::Fp32) {
    return block_.tensors.add({std::move(name), std::move(letters), TensorKind::Activation, dtype});
  }

  TensorId scalar(std::string name) {
    return block_.tensors.add({std::move(name), "", TensorKind::Scalar, DType::Fp64});
  }

  TensorId weight(const std::string& name, std::string letters, double std_dev,
                  bool is_tied = false) {
    Parameter normal;
    normal.initial_is_normal = true;
    normal.initial = std_dev;
    normal.weight_decay = true;
    normal.is_tied = is_tied;
    return parameter(name + ".weight", std::move(letters), normal);
  }

  // Biases and norm weights: one-dimensional in the Hugging Face layout, never decayed.
  TensorId vector(const std::string& name, std::string letters, double value) {
    Parameter constant;
    constant.initial = value;
    return parameter(name, std::move(letters), constant);
  }

  void op(OpKind kind, std::string index, std::vector<TensorId> inputs,
          std::vector<TensorId> outputs, const Attributes& attributes = {}) {
    block_.forward.push_back(
        {kind, std::move(index), std::move(inputs), std::move(outputs), attributes});
  }

  TensorId norm(const std::string& parameter_name, const std::string& name, TensorId x) {
    const Attributes attributes{.epsilon = model_.norm_epsilon};
    const TensorId weight_id = vector(parameter_name + ".weight", "h", 1);
    if (model_.norm == NormKind::LayerNorm) {
      const TensorId bias = vector(parameter_name + ".bias", "h", 0);
      const TensorId y = activation(name, "sbh");
      const TensorId mean = activation(name + ".mean", "sb");
      const TensorId rstd = activation(name + ".rstd", "sb");
      op(OpKind::LayerNorm, "sbh,h,h->sbh,sb,sb", {x, weight_id, bias}, {y, mean, rstd},
         attributes);
      return y;
    }
    const TensorId y = activation(name, "sbh");
    const TensorId rstd = activation(name + ".rstd", "sb");
    op(OpKind::RmsNorm, "sbh,h->sbh,sb", {x, weight_id}, {y, rstd}, attributes);
    return y;
  }

  // y = x W^T (+ b). `in` and `out` are the letters of the features.
  TensorId linear(const std::string& parameter_name, const std::string& name, TensorId x,
                  const std::string& in, const std::string& out, double std_dev, bool has_bias) {
    const TensorId w = weight(parameter_name, out + in, std_dev);
    TensorId y = activation(has_bias ? name + ".product" : name, "sb" + out);
    op(OpKind::MatMul, "sb" + in + "," + out + in + "->sb" + out, {x, w}, {y});
    if (!has_bias) return y;
    const TensorId bias = vector(parameter_name + ".bias", out, 0);
    const TensorId biased = activation(name, "sb" + out);
    op(OpKind::AddBias, "sb" + out + "," + out + "->sb" + out, {y, bias}, {biased});
    return biased;
  }

  TensorId rope(const std::string& name, TensorId x, const std::string& features) {
    const TensorId y = activation(name, "sb" + features);
    op(OpKind::Rope, "sb" + features + "->sb" + features, {x}, {y},
       {.theta = model_.rope_theta, .interleaved = model_.rope_interleaved});
    return y;
  }

  TensorId add(const std::string& name, TensorId a, TensorId b) {
    const TensorId y = activation(name, "sbh");
    op(OpKind::Add, "sbh,sbh->sbh", {a, b}, {y});
    return y;
  }

  Block take() { return std::move(block_); }
  Block& block() { return block_; }

 private:
  TensorId parameter(const std::string& name, std::string letters, Parameter parameter) {
    parameter.weight =
        block_.tensors.add({name, std::move(letters), TensorKind::Parameter, DType::Fp32});
    block_.parameters.push_back(parameter);
    return parameter.weight;
  }

  const ModelSpec& model_;
  Block block_;
};

Block embedding_block(const ModelSpec& model) {
  const Names& names = names_of(model);
  BlockBuilder b(model, "embedding");
  const TensorId tokens = b.activation("tokens", "sb", DType::Int32);
  b.op(OpKind::InputTokens, "->sb", {}, {tokens});
  const TensorId table = b.weight(names.embedding, "vh", model.init_std, model.tied_embeddings);
  TensorId x = b.activation("embedded", "sbh");
  b.op(OpKind::Embedding, "sb,vh->sbh", {tokens, table}, {x});
  if (model.position == PositionKind::Learned) {
    const TensorId positions = b.weight(names.position, "ph", model.init_std);
    const TensorId y = b.activation("x", "sbh");
    b.op(OpKind::AddPosition, "sbh,ph->sbh", {x, positions}, {y});
    x = y;
  }
  b.block().output = x;
  return b.take();
}

// What tells a layer from others of its model.
struct LayerVariant {
  bool has_rope = false;
  bool has_experts = false;
  bool operator==(const LayerVariant&) const = default;
};

LayerVariant variant_of(const ModelSpec& model, int layer) {
  LayerVariant variant;
  variant.has_rope = model.position == PositionKind::Rope &&
                     (model.no_rope_every == 0 || (layer + 1) % model.no_rope_every != 0);
  variant.has_experts = model.moe && layer >= model.moe->first_dense_layers;
  return variant;
}

// "layer", and what differs between the layers of this model: "layer.no_rope".
std::string name_of(const ModelSpec& model, const LayerVariant& variant) {
  std::string name = "layer";
  if (model.no_rope_every > 0) name += variant.has_rope ? ".rope" : ".no_rope";
  const bool is_mixed = model.moe && model.moe->first_dense_layers > 0;
  if (is_mixed) name += variant.has_experts ? ".experts" : ".dense";
  return name;
}

TensorId attention(BlockBuilder& b, const ModelSpec& model, const LayerVariant& variant,
                   TensorId x) {
  const Names& names = names_of(model);
  const double residual_std = model.init_std / std::sqrt(2.0 * model.layers);
  const TensorId normed = b.norm(names.norm1, "norm1", x);
  TensorId q = b.linear(names.q, "q", normed, "h", "grd", model.init_std, model.bias_qkv);
  TensorId k = b.linear(names.k, "k", normed, "h", "gd", model.init_std, model.bias_qkv);
  const TensorId v = b.linear(names.v, "v", normed, "h", "gd", model.init_std, model.bias_qkv);
  if (variant.has_rope) {
    q = b.rope("q.rotated", q, "grd");
    k = b.rope("k.rotated", k, "gd");
  }
  const TensorId out = b.activation("attention", "sbgrd");
  const TensorId lse = b.activation("attention.lse", "sbgr");
  b.op(OpKind::Attention, "sbgrd,tbgd,tbgd->sbgrd,sbgr", {q, k, v}, {out, lse},
       {.scale = 1.0 / std::sqrt(static_cast<double>(model.head_dim)), .causal = true});
  const TensorId projected = b.linear(names.attention_out, "attention.out", out, "grd", "h",
                                      residual_std, model.bias_attention_out);
  return b.add("x2", x, projected);
}

TensorId experts(BlockBuilder& b, const ModelSpec& model, const Training& training, TensorId x) {
  const TensorId normed = b.norm(names_of(model).norm2, "norm2", x);
  const std::int64_t tokens = training.sequence_length * training.global_batch;
  return b.add("y", x, add_experts(b.block(), model, training.sequence_length, tokens, normed));
}

TensorId mlp(BlockBuilder& b, const ModelSpec& model, TensorId x) {
  const Names& names = names_of(model);
  const double residual_std = model.init_std / std::sqrt(2.0 * model.layers);
  const TensorId normed = b.norm(names.norm2, "norm2", x);
  TensorId activated;
  if (model.activation == ActivationKind::SwiGlu) {
    const TensorId gate =
        b.linear(names.gate, "gate", normed, "h", "f", model.init_std, model.bias_mlp);
    const TensorId up = b.linear(names.up, "up", normed, "h", "f", model.init_std, model.bias_mlp);
    activated = b.activation("activated", "sbf");
    b.op(OpKind::SwiGlu, "sbf,sbf->sbf", {gate, up}, {activated});
  } else {
    const TensorId up = b.linear(names.up, "up", normed, "h", "f", model.init_std, model.bias_mlp);
    activated = b.activation("activated", "sbf");
    b.op(model.activation == ActivationKind::Gelu ? OpKind::Gelu : OpKind::GeluTanh, "sbf->sbf",
         {up}, {activated});
  }
  const TensorId down =
      b.linear(names.down, "down", activated, "f", "h", residual_std, model.bias_mlp);
  return b.add("y", x, down);
}

Block layer_block(const ModelSpec& model, const Training& training, const LayerVariant& variant) {
  BlockBuilder b(model, name_of(model, variant));
  const TensorId x = b.activation("x", "sbh");
  b.block().input = x;
  const TensorId attended = attention(b, model, variant, x);
  b.block().output =
      variant.has_experts ? experts(b, model, training, attended) : mlp(b, model, attended);
  return b.take();
}

Block head_block(const ModelSpec& model) {
  const Names& names = names_of(model);
  BlockBuilder b(model, "head");
  const TensorId x = b.activation("x", "sbh");
  b.block().input = x;
  const TensorId normed = b.norm(names.final_norm, "norm", x);
  const TensorId w = model.tied_embeddings ? b.weight(names.embedding, "vh", model.init_std, true)
                                           : b.weight(names.head, "vh", model.init_std);
  const TensorId logits = b.activation("logits", "sbv");
  b.op(OpKind::MatMul, "sbh,vh->sbv", {normed, w}, {logits});
  const TensorId labels = b.activation("labels", "sb", DType::Int32);
  b.op(OpKind::InputLabels, "->sb", {}, {labels});
  const TensorId top = b.activation("logits.max", "sb");
  const Attributes vocabulary{.limit = model.vocab};
  b.op(OpKind::VocabMax, "sbv->sb", {logits}, {top}, vocabulary);
  const TensorId sum = b.activation("logits.sum_exp", "sb");
  const TensorId target = b.activation("logits.target", "sb");
  b.op(OpKind::VocabSumExp, "sbv,sb,sb->sb,sb", {logits, labels, top}, {sum, target}, vocabulary);
  const TensorId count = b.scalar("token_count");
  const TensorId loss = b.scalar("loss");
  b.op(OpKind::TokenLoss, "sb,sb,sb,sb,->", {top, sum, target, labels, count}, {loss},
       {.accumulate = 1});
  return b.take();
}

void add_layers(const ModelSpec& model, const Training& training, ModelGraph& graph) {
  std::vector<std::pair<LayerVariant, BlockKindId>> kinds;
  for (int layer = 0; layer < model.layers; ++layer) {
    const LayerVariant variant = variant_of(model, layer);
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const auto& known) { return known.first == variant; });
    if (kind == kinds.end()) {
      kinds.emplace_back(variant, graph.kinds.add(layer_block(model, training, variant)));
      kind = kinds.end() - 1;
    }
    graph.chain.push_back(kind->second);
  }
}

}  // namespace

ModelGraph build_model(const ModelSpec& model, std::int64_t sequence_length,
                       std::int64_t global_batch) {
  ModelGraph graph;
  graph.name = model.name;
  Extents& size = graph.extents;
  size['s'] = size['t'] = sequence_length;
  size['b'] = 1;
  size['h'] = model.hidden;
  size['g'] = model.kv_heads;
  size['r'] = model.heads / model.kv_heads;
  size['d'] = model.head_dim;
  size['f'] = model.ffn_hidden;
  size['v'] = model.vocab;
  size['p'] = model.max_position;
  if (model.moe) {
    set_expert_extents(*model.moe, size);
    graph.row_factor = model.moe->row_factor;
    graph.imbalance = model.moe->imbalance;
  }
  graph.padded = {{'v', model.vocab_multiple}};
  graph.layers = model.layers;
  graph.chain.push_back(graph.kinds.add(embedding_block(model)));
  add_layers(model, {sequence_length, global_batch}, graph);
  graph.chain.push_back(graph.kinds.add(head_block(model)));
  return graph;
}

}  // namespace mega::planner
