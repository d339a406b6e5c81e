#include "planner/model/parameter_names.h"

namespace mega::planner {
namespace {

constexpr ParameterNames kGpt2 = {.embedding = "wte",
                                  .position = "wpe",
                                  .embedding_norm = "ln_e",
                                  .norm1 = "h.{}.ln_1",
                                  .q = "h.{}.attn.c_attn.q",
                                  .k = "h.{}.attn.c_attn.k",
                                  .v = "h.{}.attn.c_attn.v",
                                  .attention_out = "h.{}.attn.c_proj",
                                  .q_norm = "h.{}.attn.q_norm",
                                  .k_norm = "h.{}.attn.k_norm",
                                  .post_attention = "h.{}.post_attention_norm",
                                  .norm2 = "h.{}.ln_2",
                                  .gate = "h.{}.mlp.c_gate",
                                  .up = "h.{}.mlp.c_fc",
                                  .down = "h.{}.mlp.c_proj",
                                  .post_mlp = "h.{}.post_mlp_norm",
                                  .final_norm = "ln_f",
                                  .head = "lm_head"};

constexpr ParameterNames kLlama = {.embedding = "model.embed_tokens",
                                   .position = "model.embed_positions",
                                   .embedding_norm = "model.embed_norm",
                                   .norm1 = "model.layers.{}.input_layernorm",
                                   .q = "model.layers.{}.self_attn.q_proj",
                                   .k = "model.layers.{}.self_attn.k_proj",
                                   .v = "model.layers.{}.self_attn.v_proj",
                                   .attention_out = "model.layers.{}.self_attn.o_proj",
                                   .q_norm = "model.layers.{}.self_attn.q_norm",
                                   .k_norm = "model.layers.{}.self_attn.k_norm",
                                   .post_attention = "model.layers.{}.post_self_attn_layernorm",
                                   .norm2 = "model.layers.{}.post_attention_layernorm",
                                   .gate = "model.layers.{}.mlp.gate_proj",
                                   .up = "model.layers.{}.mlp.up_proj",
                                   .down = "model.layers.{}.mlp.down_proj",
                                   .post_mlp = "model.layers.{}.post_mlp_layernorm",
                                   .final_norm = "model.norm",
                                   .head = "lm_head"};

// Gemma 2 renames the norms around its branches: the one after attention has the name that Llama
// gives to the one before the MLP.
constexpr ParameterNames gemma2() {
  ParameterNames names = kLlama;
  names.post_attention = "model.layers.{}.post_attention_layernorm";
  names.norm2 = "model.layers.{}.pre_feedforward_layernorm";
  names.post_mlp = "model.layers.{}.post_feedforward_layernorm";
  return names;
}
constexpr ParameterNames kGemma2 = gemma2();

constexpr ParameterNames kNeox = {.embedding = "gpt_neox.embed_in",
                                  .position = "gpt_neox.embed_positions",
                                  .embedding_norm = "gpt_neox.embed_norm",
                                  .norm1 = "gpt_neox.layers.{}.input_layernorm",
                                  .q = "gpt_neox.layers.{}.attention.query_key_value.q",
                                  .k = "gpt_neox.layers.{}.attention.query_key_value.k",
                                  .v = "gpt_neox.layers.{}.attention.query_key_value.v",
                                  .attention_out = "gpt_neox.layers.{}.attention.dense",
                                  .q_norm = "gpt_neox.layers.{}.attention.q_norm",
                                  .k_norm = "gpt_neox.layers.{}.attention.k_norm",
                                  .post_attention = "gpt_neox.layers.{}.post_attention_norm",
                                  .norm2 = "gpt_neox.layers.{}.post_attention_layernorm",
                                  .gate = "gpt_neox.layers.{}.mlp.gate",
                                  .up = "gpt_neox.layers.{}.mlp.dense_h_to_4h",
                                  .down = "gpt_neox.layers.{}.mlp.dense_4h_to_h",
                                  .post_mlp = "gpt_neox.layers.{}.post_mlp_norm",
                                  .final_norm = "gpt_neox.final_layer_norm",
                                  .head = "embed_out"};

constexpr ParameterNames kBloom = {.embedding = "transformer.word_embeddings",
                                   .position = "transformer.position_embeddings",
                                   .embedding_norm = "transformer.word_embeddings_layernorm",
                                   .norm1 = "transformer.h.{}.input_layernorm",
                                   .q = "transformer.h.{}.self_attention.query_key_value.q",
                                   .k = "transformer.h.{}.self_attention.query_key_value.k",
                                   .v = "transformer.h.{}.self_attention.query_key_value.v",
                                   .attention_out = "transformer.h.{}.self_attention.dense",
                                   .q_norm = "transformer.h.{}.self_attention.q_norm",
                                   .k_norm = "transformer.h.{}.self_attention.k_norm",
                                   .post_attention = "transformer.h.{}.post_attention_norm",
                                   .norm2 = "transformer.h.{}.post_attention_layernorm",
                                   .gate = "transformer.h.{}.mlp.gate",
                                   .up = "transformer.h.{}.mlp.dense_h_to_4h",
                                   .down = "transformer.h.{}.mlp.dense_4h_to_h",
                                   .post_mlp = "transformer.h.{}.post_mlp_norm",
                                   .final_norm = "transformer.ln_f",
                                   .head = "lm_head"};

// Falcon's first layout shares one norm (input_layernorm); the one of 40B and up has two.
constexpr ParameterNames falcon_two_norms() {
  ParameterNames names = kBloom;
  names.norm1 = "transformer.h.{}.ln_attn";
  names.norm2 = "transformer.h.{}.ln_mlp";
  return names;
}
constexpr ParameterNames kFalconTwoNorms = falcon_two_norms();

constexpr ParameterNames kMpt = {.embedding = "transformer.wte",
                                 .position = "transformer.wpe",
                                 .embedding_norm = "transformer.emb_norm",
                                 .norm1 = "transformer.blocks.{}.norm_1",
                                 .q = "transformer.blocks.{}.attn.Wqkv.q",
                                 .k = "transformer.blocks.{}.attn.Wqkv.k",
                                 .v = "transformer.blocks.{}.attn.Wqkv.v",
                                 .attention_out = "transformer.blocks.{}.attn.out_proj",
                                 .q_norm = "transformer.blocks.{}.attn.q_ln",
                                 .k_norm = "transformer.blocks.{}.attn.k_ln",
                                 .post_attention = "transformer.blocks.{}.post_attention_norm",
                                 .norm2 = "transformer.blocks.{}.norm_2",
                                 .gate = "transformer.blocks.{}.ffn.gate_proj",
                                 .up = "transformer.blocks.{}.ffn.up_proj",
                                 .down = "transformer.blocks.{}.ffn.down_proj",
                                 .post_mlp = "transformer.blocks.{}.post_mlp_norm",
                                 .final_norm = "transformer.norm_f",
                                 .head = "lm_head"};

}  // namespace

const ParameterNames& names_of(const ModelSpec& model) {
  const std::string& family = model.family;
  if (family == "gpt2") return kGpt2;
  if (family == "gpt_neox") return kNeox;
  if (family == "bloom") return kBloom;
  if (family == "falcon") return model.shared_residual_norm ? kBloom : kFalconTwoNorms;
  if (family == "mpt") return kMpt;
  if (family == "gemma2") return kGemma2;
  return kLlama;
}

}  // namespace mega::planner
