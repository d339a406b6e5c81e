#include "planner/spec/families.h"

namespace mega::planner {
namespace {

// RMS norms, gated MLP, rotary positions, no biases; most families after 2023 are this and a few
// differences.
ModelSpec llama() {
  ModelSpec model;
  model.norm = NormKind::RmsNorm;
  model.activation = ActivationKind::SwiGlu;
  model.position = PositionKind::Rope;
  return model;
}

ModelSpec gpt2() {
  ModelSpec model;
  model.bias_qkv = model.bias_attention_out = model.bias_mlp = true;
  model.tied_embeddings = true;
  return model;
}

ModelSpec qwen(bool has_qk_norm) {
  ModelSpec model = llama();
  model.norm_epsilon = 1e-6;
  model.rope_theta = 1e6;
  model.qk_norm = has_qk_norm;
  model.bias_qkv = !has_qk_norm;
  return model;
}

ModelSpec gemma(bool is_second) {
  ModelSpec model = llama();
  model.norm_epsilon = 1e-6;
  model.norm_offset = 1;
  model.activation = ActivationKind::GeGlu;
  model.tied_embeddings = true;
  model.post_norms = is_second;
  if (is_second) model.logit_softcap = 30;
  return model;
}

ModelSpec gpt_neox() {
  ModelSpec model = gpt2();
  model.tied_embeddings = false;
  model.activation = ActivationKind::Gelu;
  model.position = PositionKind::Rope;
  model.rope_fraction = 0.25;
  model.parallel_residual = true;
  return model;
}

ModelSpec falcon() {
  ModelSpec model;
  model.activation = ActivationKind::Gelu;
  model.position = PositionKind::Rope;
  model.parallel_residual = true;
  model.tied_embeddings = true;
  return model;
}

ModelSpec nemotron() {
  ModelSpec model;
  model.norm_offset = 1;
  model.activation = ActivationKind::Relu2;
  model.position = PositionKind::Rope;
  model.rope_fraction = 0.5;
  return model;
}

// Rotary pairs are neighbours, though checkpoints of transformers turn halves: the products of q
// and k are the same.
ModelSpec deepseek() {
  ModelSpec model = llama();
  model.norm_epsilon = 1e-6;
  model.rope_interleaved = true;
  return model;
}

ModelSpec llama4() {
  ModelSpec model = llama();
  model.rope_theta = 500000;
  model.rope_interleaved = true;
  model.no_rope_every = 4;
  return model;
}

ModelSpec grok() {
  ModelSpec model = llama();
  model.activation = ActivationKind::GeGlu;
  model.post_norms = true;
  model.tied_embeddings = true;
  return model;
}

ModelSpec defaults_of(const std::string& family) {
  if (family == "llama" || family == "mistral" || family == "mixtral") return llama();
  if (family == "qwen2") return qwen(false);
  if (family == "qwen3" || family == "qwen3_moe") return qwen(true);
  if (family == "deepseek_v2" || family == "deepseek_v3") return deepseek();
  if (family == "llama4") return llama4();
  if (family == "grok") return grok();
  if (family == "gemma" || family == "gemma2") return gemma(family == "gemma2");
  if (family == "gpt_neox") return gpt_neox();
  if (family == "falcon") return falcon();
  if (family == "nemotron") return nemotron();
  return gpt2();
}

}  // namespace

const std::vector<std::string>& families() {
  static const std::vector<std::string> all = {
      "gpt2",        "llama", "mistral", "mixtral",  "qwen2",  "qwen3", "qwen3_moe", "deepseek_v2",
      "deepseek_v3", "gemma", "gemma2",  "gpt_neox", "llama4", "grok",  "falcon",    "nemotron"};
  return all;
}

ModelSpec family_defaults(const std::string& family) {
  ModelSpec model = defaults_of(family);
  model.family = family;
  return model;
}

bool scales_embeddings(const std::string& family) {
  return family == "gemma" || family == "gemma2";
}

}  // namespace mega::planner
