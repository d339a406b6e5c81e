#include "planner/spec/read_sections.h"

namespace mega::planner {
namespace {

// What a family says about the keys that the user leaves out.
ModelSpec family_defaults(const std::string& family) {
  ModelSpec model;
  model.family = family;
  if (family == "llama" || family == "mixtral") {
    model.norm = NormKind::RmsNorm;
    model.activation = ActivationKind::SwiGlu;
    model.position = PositionKind::Rope;
    return model;
  }
  model.bias_qkv = model.bias_attention_out = model.bias_mlp = true;
  model.tied_embeddings = true;
  return model;
}

std::string read_family(MappingReader& reader) {
  const std::vector<std::string> later = {"mistral",   "qwen2",       "qwen3",
                                          "qwen3_moe", "deepseek_v2", "deepseek_v3"};
  reader.required("family");
  return reader.choice("family", {"gpt2", "llama", "mixtral"}, later).value_or("gpt2");
}

void read_blocks(MappingReader& reader, ModelSpec& model) {
  if (const auto norm = reader.choice("norm", {"layer_norm", "rms_norm"})) {
    model.norm = *norm == "rms_norm" ? NormKind::RmsNorm : NormKind::LayerNorm;
  }
  model.norm_epsilon = reader.real("norm_epsilon", {0, 1, true}).value_or(model.norm_epsilon);
  if (const auto kind = reader.choice("activation", {"gelu_tanh", "gelu", "swiglu"}, {"relu2"})) {
    model.activation = *kind == "swiglu" ? ActivationKind::SwiGlu
                       : *kind == "gelu" ? ActivationKind::Gelu
                                         : ActivationKind::GeluTanh;
  }
  if (const auto kind = reader.choice("position", {"learned", "rope", "none"}, {"alibi"})) {
    model.position = *kind == "rope"      ? PositionKind::Rope
                     : *kind == "learned" ? PositionKind::Learned
                                          : PositionKind::None;
  }
  if (auto rope = reader.mapping("rope")) {
    model.rope_theta = rope->real("theta", {0, 1e12, true}).value_or(model.rope_theta);
    model.rope_interleaved = rope->boolean("interleaved").value_or(model.rope_interleaved);
    rope->not_built("scaling", {"none"});
    rope->not_built("fraction", {"1"});
    rope->finish();
  }
  model.no_rope_every =
      static_cast<int>(reader.integer("no_rope_every", {0, kMostLayers}).value_or(0));
  if (auto bias = reader.mapping("bias")) {
    model.bias_qkv = bias->boolean("qkv").value_or(model.bias_qkv);
    model.bias_attention_out = bias->boolean("attention_out").value_or(model.bias_attention_out);
    model.bias_mlp = bias->boolean("mlp").value_or(model.bias_mlp);
    bias->finish();
  }
  model.tied_embeddings = reader.boolean("tied_embeddings").value_or(model.tied_embeddings);
  model.init_std = reader.real("init_std", {0, 10}).value_or(model.init_std);
}

// Keys of the format that no model of this version has.
void refuse_missing_features(MappingReader& reader) {
  for (const char* flag :
       {"qk_norm", "parallel_residual", "shared_residual_norm", "embedding_norm", "sliding_window",
        "chunked_attention", "attention_softcap", "logit_softcap", "qkv_clip"}) {
    reader.not_built(flag, {"false", "none"});
  }
  reader.not_built("embedding_scale", {"1"});
  reader.not_built("norm_offset", {"0"});
  reader.not_built("mtp_layers", {"0"});
  reader.not_built("mla");
  if (auto dropout = reader.mapping("dropout")) {
    dropout->not_built("hidden", {"0"});
    dropout->not_built("attention", {"0"});
    dropout->finish();
  }
}

// Of Llama's default: two thirds of four times hidden, rounded down to 64, counted in integers.
std::int64_t default_ffn(const ModelSpec& model) {
  if (model.activation != ActivationKind::SwiGlu) return 4 * model.hidden;
  return model.hidden * 8 / 3 / 64 * 64;
}

void read_sizes(MappingReader& reader, ModelSpec& model) {
  for (const char* key : {"layers", "hidden", "heads", "vocab"}) reader.required(key);
  const IntegerRange size{1, kLargestSize};
  model.layers = static_cast<int>(reader.integer("layers", {1, kMostLayers}).value_or(1));
  // Zero marks what is missing or wrong, so that no second error follows from it.
  model.hidden = reader.integer("hidden", size).value_or(0);
  model.heads = reader.integer("heads", size).value_or(0);
  model.kv_heads = reader.integer("kv_heads", size).value_or(model.heads);
  const auto head_dim = reader.integer("head_dim", size);
  const bool known = model.hidden > 0 && model.heads > 0;
  if (!head_dim && !reader.has("head_dim") && known && model.hidden % model.heads != 0) {
    reader.fail("heads",
                "model.heads " + std::to_string(model.heads) + " does not divide model.hidden " +
                    std::to_string(model.hidden),
                "change one of them or give head_dim", {"model.hidden"});
  }
  model.head_dim = head_dim.value_or(known ? model.hidden / model.heads : 0);
  if (model.heads > 0 && model.kv_heads > 0 && model.heads % model.kv_heads != 0) {
    reader.fail("kv_heads",
                "model.kv_heads " + std::to_string(model.kv_heads) +
                    " does not divide the model.heads " + std::to_string(model.heads),
                "each kv head serves the same number of heads", {"model.heads"});
  }
  model.vocab = reader.integer("vocab", {1, kLargestVocabulary}).value_or(1);
  model.vocab_multiple = reader.integer("vocab_multiple", size).value_or(model.vocab_multiple);
  model.max_position = reader.integer("max_position", size).value_or(0);
}

}  // namespace

ModelSpec read_model(MappingReader reader) {
  ModelSpec model = family_defaults(read_family(reader));
  read_sizes(reader, model);
  read_blocks(reader, model);
  refuse_missing_features(reader);
  if (auto moe = reader.mapping("moe")) model.moe = read_experts(*moe, model.family);
  model.ffn_hidden = reader.integer("ffn_hidden", {1, kLargestSize}).value_or(default_ffn(model));
  if (model.moe && model.activation != ActivationKind::SwiGlu) {
    reader.fail("moe", "experts are built with activation: swiglu only", "", {"model.activation"});
  }
  if (model.ffn_hidden == 0 && model.hidden > 0 && !reader.has("ffn_hidden")) {
    reader.required("ffn_hidden");
  }
  if (model.position == PositionKind::Rope && model.head_dim % 2 != 0) {
    reader.fail(reader.has("head_dim") ? "head_dim" : "heads",
                "rotary positions need an even head_dim, got " + std::to_string(model.head_dim), "",
                {"model.hidden"});
  }
  reader.finish();
  return model;
}

}  // namespace mega::planner
