#include "planner/model/build_model.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "planner/model/block_builder.h"
#include "planner/model/build_experts.h"
#include "planner/model/latent_attention.h"
#include "planner/model/parameter_names.h"
#include "planner/model/rope.h"

namespace mega::planner {
namespace {

// What auxiliary losses need to know of the run.
struct Training {
  std::int64_t sequence_length = 1, global_batch = 1;
};

Block embedding_block(const ModelSpec& model) {
  const ParameterNames& names = names_of(model);
  BlockBuilder b(model, "embedding");
  const TensorId tokens = b.activation("tokens", "sb", DType::Int32);
  b.op(OpKind::InputTokens, "->sb", {}, {tokens});
  const TensorId table = b.weight(names.embedding, "vh", model.init_std, model.tied_embeddings);
  TensorId x = b.activation("embedded", "sbh");
  b.op(OpKind::Embedding, "sb,vh->sbh", {tokens, table}, {x});
  if (model.embedding_scale != 1) {
    x = b.unary(OpKind::Scale, "scaled", x, {.value = model.embedding_scale});
  }
  if (model.position == PositionKind::Learned) {
    const TensorId positions = b.weight(names.position, "ph", model.init_std);
    const TensorId y = b.activation("x", "sbh");
    b.op(OpKind::AddPosition, "sbh,ph->sbh", {x, positions}, {y});
    x = y;
  }
  if (model.embedding_norm) x = b.norm(names.embedding_norm, "norm", x);
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
  variant.has_experts = model.moe && has_experts(*model.moe, layer);
  return variant;
}

// "layer", and what differs between the layers of this model: "layer.no_rope".
std::string name_of(const ModelSpec& model, const LayerVariant& variant) {
  std::string name = "layer";
  if (model.no_rope_every > 0) name += variant.has_rope ? ".rope" : ".no_rope";
  const bool is_mixed =
      model.moe && (model.moe->first_dense_layers > 0 || !model.moe->layer_pattern.empty());
  if (is_mixed) name += variant.has_experts ? ".experts" : ".dense";
  return name;
}

// Of the products that add to the residual stream.
double residual_std(const ModelSpec& model) {
  return model.init_std / std::sqrt(2.0 * model.layers);
}

// q or k: clipped, normed and turned as the model says.
TensorId query_or_key(BlockBuilder& b, const ModelSpec& model, bool has_rope,
                      const std::string& name, TensorId x) {
  const ParameterNames& names = names_of(model);
  if (model.qkv_clip > 0)
    x = b.unary(OpKind::Clip, name + ".clipped", x, {.value = model.qkv_clip});
  if (model.qk_norm) x = b.norm(name == "q" ? names.q_norm : names.k_norm, name + ".normed", x);
  return has_rope ? b.rope(name + ".rotated", x) : x;
}

// From the normed stream to the attention's output, head by head.
TensorId attended(BlockBuilder& b, const ModelSpec& model, const LayerVariant& variant,
                  TensorId normed) {
  const ParameterNames& names = names_of(model);
  const auto project = [&](const char* parameter, const char* name, const char* out) {
    return b.linear(parameter, name, normed, "h", out, model.init_std, model.bias_qkv);
  };
  TensorId q = project(names.q, "q", "grd");
  TensorId k = project(names.k, "k", "gd");
  TensorId v = project(names.v, "v", "gd");
  q = query_or_key(b, model, variant.has_rope, "q", q);
  k = query_or_key(b, model, variant.has_rope, "k", k);
  if (model.qkv_clip > 0) v = b.unary(OpKind::Clip, "v.clipped", v, {.value = model.qkv_clip});
  const TensorId out = b.activation("attention", "sbgrd");
  const TensorId lse = b.activation("attention.lse", "sbgr");
  b.op(OpKind::Attention, "sbgrd,tbgd,tbgd->sbgrd,sbgr", {q, k, v}, {out, lse},
       {.scale = attention_scale(model), .causal = true});
  return out;
}

TensorId attention(BlockBuilder& b, const ModelSpec& model, const LayerVariant& variant,
                   TensorId normed) {
  const ParameterNames& names = names_of(model);
  const TensorId out =
      model.mla ? latent_attention(b, model, normed) : attended(b, model, variant, normed);
  const TensorId projected =
      b.linear(names.attention_out, "attention.out", out, model.mla ? "grj" : "grd", "h",
               residual_std(model), model.bias_attention_out);
  if (!model.post_norms) return projected;
  return b.norm(names.post_attention, "attention.normed", projected);
}

TensorId activated(BlockBuilder& b, const ModelSpec& model, TensorId normed) {
  const ParameterNames& names = names_of(model);
  const auto product = [&](const char* parameter, const char* name) {
    return b.linear(parameter, name, normed, "h", "f", model.init_std, model.bias_mlp);
  };
  switch (model.activation) {
    case ActivationKind::SwiGlu:
    case ActivationKind::GeGlu: {
      const TensorId gate = product(names.gate, "gate");
      const TensorId up = product(names.up, "up");
      const bool is_silu = model.activation == ActivationKind::SwiGlu;
      return b.binary(is_silu ? OpKind::SwiGlu : OpKind::GeGlu, "activated", gate, up);
    }
    case ActivationKind::Gelu:
      return b.unary(OpKind::Gelu, "activated", product(names.up, "up"));
    case ActivationKind::GeluTanh:
      return b.unary(OpKind::GeluTanh, "activated", product(names.up, "up"));
    case ActivationKind::Relu2:
      return b.unary(OpKind::Relu2, "activated", product(names.up, "up"));
  }
  return {};
}

// The MLP or the experts; what they add to the stream.
TensorId feed_forward(BlockBuilder& b, const ModelSpec& model, const Training& training,
                      const LayerVariant& variant, TensorId normed) {
  const ParameterNames& names = names_of(model);
  TensorId down;
  if (variant.has_experts) {
    const std::int64_t tokens = training.sequence_length * training.global_batch;
    down = add_experts(b.block(), model, training.sequence_length, tokens, normed);
  } else {
    b.enter(Module::Mlp);
    down = b.linear(names.down, "down", activated(b, model, normed), "f", "h", residual_std(model),
                    model.bias_mlp);
    b.leave(Module::Mlp);
  }
  return model.post_norms ? b.norm(names.post_mlp, "mlp.normed", down) : down;
}

Block layer_block(const ModelSpec& model, const Training& training, const LayerVariant& variant) {
  const ParameterNames& names = names_of(model);
  BlockBuilder b(model, name_of(model, variant));
  const TensorId x = b.activation("x", "sbh");
  b.block().input = x;
  const TensorId normed = b.norm(names.norm1, "norm1", x);
  if (model.parallel_residual) {
    // Both norms come first: in the backward they are last, and add to the stream's gradient when
    // nothing else reads it. The branches are added first, so that their addends combine once.
    const TensorId for_mlp = model.shared_residual_norm ? normed : b.norm(names.norm2, "norm2", x);
    const TensorId attended = attention(b, model, variant, normed);
    b.block().output = b.add(
        "y", x, b.add("branches", attended, feed_forward(b, model, training, variant, for_mlp)));
    return b.take();
  }
  const TensorId x2 = b.add("x2", x, attention(b, model, variant, normed));
  b.block().output =
      b.add("y", x2, feed_forward(b, model, training, variant, b.norm(names.norm2, "norm2", x2)));
  return b.take();
}

Block head_block(const ModelSpec& model) {
  const ParameterNames& names = names_of(model);
  BlockBuilder b(model, "head");
  const TensorId x = b.activation("x", "sbh");
  b.block().input = x;
  const TensorId normed = b.norm(names.final_norm, "norm", x);
  const TensorId w = model.tied_embeddings ? b.weight(names.embedding, "vh", model.init_std, true)
                                           : b.weight(names.head, "vh", model.init_std);
  TensorId logits = b.activation(model.logit_softcap > 0 ? "scores" : "logits", "sbv");
  b.op(OpKind::MatMul, "sbh,vh->sbv", {normed, w}, {logits});
  if (model.logit_softcap > 0) {
    logits = b.unary(OpKind::SoftCap, "logits", logits, {.value = model.logit_softcap});
  }
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
  if (model.mla) set_latent_extents(model, size);
  graph.padded = {{'v', model.vocab_multiple}};
  graph.layers = model.layers;
  graph.chain.push_back(graph.kinds.add(embedding_block(model)));
  add_layers(model, {sequence_length, global_batch}, graph);
  graph.chain.push_back(graph.kinds.add(head_block(model)));
  return graph;
}

}  // namespace mega::planner
