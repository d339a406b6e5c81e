#include "planner/model/latent_attention.h"

#include <string>

#include "planner/model/rope.h"

namespace mega::planner {
namespace {

// Names of DeepSeek's checkpoints; of a fused product, one per part.
std::string named(const char* name) {
  return std::string("model.layers.{}.self_attn.") + name;
}

struct Parts {
  TensorId plain, turning;  // without and with positions
};

// q of every head, in two parts.
Parts queries(BlockBuilder& b, const ModelSpec& model, TensorId x, TensorId latent_input) {
  const double std_dev = model.init_std;
  std::string in = "h", prefix = named("q_proj");
  if (model.mla->q_rank > 0) {
    const TensorId latent =
        b.linear(named("q_a_proj"), "q_latent", latent_input, "h", "q", std_dev, model.bias_qkv);
    x = b.norm(named("q_a_layernorm"), "q_latent.normed", latent);
    in = "q";
    prefix = named("q_b_proj");
  }
  const TensorId plain = b.linear(prefix + ".nope", "q.nope", x, in, "gro", std_dev, false);
  const TensorId turning = b.linear(prefix + ".rope", "q.rope", x, in, "gri", std_dev, false);
  return {plain, b.rope("q.rotated", turning)};
}

TensorId join(BlockBuilder& b, const std::string& name, const Parts& parts,
              const std::string& index, const std::string& letters) {
  const TensorId y = b.activation(name, letters);
  b.op(OpKind::JoinHeads, index + "->" + letters, {parts.plain, parts.turning}, {y});
  return y;
}

}  // namespace

TensorId latent_attention(BlockBuilder& b, const ModelSpec& model, TensorId normed) {
  const double std_dev = model.init_std;
  // The latents lie like the stream and the rest like heads, so their gradients differ in how they
  // are split: each has a copy of the input.
  const TensorId latent_input = b.unary(OpKind::Copy, "latent_input", normed);
  const TensorId q = join(b, "q", queries(b, model, normed, latent_input), "sbgro,sbgri", "sbgrd");
  const TensorId latent = b.linear(named("kv_a_proj_with_mqa.latent"), "kv_latent", latent_input,
                                   "h", "l", std_dev, model.bias_qkv);
  const TensorId c = b.norm(named("kv_a_layernorm"), "kv_latent.normed", latent);
  Parts key;
  key.plain = b.linear(named("kv_b_proj.k"), "k.nope", c, "l", "go", std_dev, false);
  const TensorId v = b.linear(named("kv_b_proj.v"), "v", c, "l", "gj", std_dev, false);
  const TensorId turning = b.linear(named("kv_a_proj_with_mqa.rope"), "k.rope", normed, "h", "i",
                                    std_dev, model.bias_qkv);
  key.turning = b.rope("k.rotated", turning);
  const TensorId k = join(b, "k", key, "sbgo,sbi", "sbgd");
  const TensorId out = b.activation("attention", "sbgrj");
  const TensorId lse = b.activation("attention.lse", "sbgr");
  b.op(OpKind::Attention, "sbgrd,tbgd,tbgj->sbgrj,sbgr", {q, k, v}, {out, lse},
       {.scale = attention_scale(model), .causal = true});
  return out;
}

void set_latent_extents(const ModelSpec& model, Extents& extents) {
  extents['q'] = model.mla->q_rank;
  extents['l'] = model.mla->kv_rank;
  extents['o'] = model.mla->nope_dim;
  extents['i'] = model.mla->rope_dim;
  extents['j'] = model.mla->v_dim;
}

}  // namespace mega::planner
