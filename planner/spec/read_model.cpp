#include <cmath>

#include "planner/spec/families.h"
#include "planner/spec/read_sections.h"

namespace mega::planner {
namespace {

std::string read_family(MappingReader& reader) {
  reader.required("family");
  const std::vector<std::string> later = {"bloom", "mpt"};
  return reader.choice("family", families(), later).value_or("gpt2");
}

std::optional<ActivationKind> activation_named(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  if (*name == "swiglu") return ActivationKind::SwiGlu;
  if (*name == "geglu") return ActivationKind::GeGlu;
  if (*name == "gelu") return ActivationKind::Gelu;
  if (*name == "relu2") return ActivationKind::Relu2;
  return ActivationKind::GeluTanh;
}

// How a layer is put together, and what happens at both ends.
void read_residuals(MappingReader& reader, ModelSpec& model) {
  model.parallel_residual = reader.boolean("parallel_residual").value_or(model.parallel_residual);
  model.shared_residual_norm =
      reader.boolean("shared_residual_norm").value_or(model.shared_residual_norm);
  if (model.shared_residual_norm && !model.parallel_residual) {
    reader.fail("shared_residual_norm", "model.shared_residual_norm needs parallel_residual: true",
                "", {"model.parallel_residual"});
  }
  model.post_norms = reader.boolean("post_norms").value_or(model.post_norms);
  model.embedding_norm = reader.boolean("embedding_norm").value_or(model.embedding_norm);
  const double family_scale =
      scales_embeddings(model.family) ? std::sqrt(static_cast<double>(model.hidden)) : 1.0;
  model.embedding_scale = reader.real("embedding_scale", {0, 1e6, true}).value_or(family_scale);
  model.logit_softcap = reader.real("logit_softcap", {0, 1e6}).value_or(model.logit_softcap);
}

// rope.scaling: {kind: llama3, factor: 8, original_max_position: 8192}
void read_scaling(MappingReader& rope, RopeScaling& scaling) {
  const YamlNode* node = rope.find("scaling");
  if (node == nullptr || (node->is_scalar() && node->text == "none")) return;
  auto reader = rope.mapping("scaling");
  if (!reader) return;
  for (const char* key : {"kind", "factor"}) reader->required(key);
  const auto kind = reader->choice("kind", {"linear", "llama3", "yarn"});
  if (!kind) return reader->finish();
  scaling.factor = reader->real("factor", {1, 1e6}).value_or(1);
  scaling.kind = *kind == "linear"   ? RopeScalingKind::Linear
                 : *kind == "llama3" ? RopeScalingKind::Llama3
                                     : RopeScalingKind::Yarn;
  if (*kind != "linear") {
    reader->required("original_max_position");
    scaling.original_max_position =
        reader->integer("original_max_position", {1, kLargestSize}).value_or(1);
  }
  const RealRange positive{0, 1e6, true};
  if (*kind == "llama3") {
    scaling.low_frequency_factor = reader->real("low_frequency_factor", positive).value_or(1);
    scaling.high_frequency_factor = reader->real("high_frequency_factor", positive).value_or(4);
    if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
      reader->fail("high_frequency_factor", reader->path_of("high_frequency_factor") +
                                                " must be above low_frequency_factor");
    }
  }
  if (*kind == "yarn") {
    scaling.beta_fast = reader->real("beta_fast", positive).value_or(32);
    scaling.beta_slow = reader->real("beta_slow", positive).value_or(1);
    scaling.mscale = reader->real("mscale", {0, 1e6}).value_or(1);
    scaling.mscale_all_dim = reader->real("mscale_all_dim", {0, 1e6}).value_or(0);
  }
  reader->finish();
}

void read_blocks(MappingReader& reader, ModelSpec& model) {
  if (const auto norm = reader.choice("norm", {"layer_norm", "rms_norm"})) {
    model.norm = *norm == "rms_norm" ? NormKind::RmsNorm : NormKind::LayerNorm;
  }
  model.norm_epsilon = reader.real("norm_epsilon", {0, 1, true}).value_or(model.norm_epsilon);
  model.norm_offset = reader.real("norm_offset", {-10, 10}).value_or(model.norm_offset);
  model.qk_norm = reader.boolean("qk_norm").value_or(model.qk_norm);
  model.qkv_clip = reader.real("qkv_clip", {0, 1e6}).value_or(model.qkv_clip);
  model.activation = activation_named(reader.choice("activation", {"gelu_tanh", "gelu", "relu2",
                                                                   "swiglu", "geglu"}))
                         .value_or(model.activation);
  if (const auto kind = reader.choice("position", {"learned", "rope", "none"}, {"alibi"})) {
    model.position = *kind == "rope"      ? PositionKind::Rope
                     : *kind == "learned" ? PositionKind::Learned
                                          : PositionKind::None;
  }
  if (auto rope = reader.mapping("rope")) {
    model.rope_theta = rope->real("theta", {0, 1e12, true}).value_or(model.rope_theta);
    model.rope_interleaved = rope->boolean("interleaved").value_or(model.rope_interleaved);
    model.rope_fraction = rope->real("fraction", {0, 1, true}).value_or(model.rope_fraction);
    read_scaling(*rope, model.rope_scaling);
    rope->finish();
  }
  model.no_rope_every = static_cast<int>(
      reader.integer("no_rope_every", {0, kMostLayers}).value_or(model.no_rope_every));
  if (auto bias = reader.mapping("bias")) {
    model.bias_qkv = bias->boolean("qkv").value_or(model.bias_qkv);
    model.bias_attention_out = bias->boolean("attention_out").value_or(model.bias_attention_out);
    model.bias_mlp = bias->boolean("mlp").value_or(model.bias_mlp);
    model.bias_norm = bias->boolean("norm").value_or(model.bias_norm);
    bias->finish();
  }
  model.tied_embeddings = reader.boolean("tied_embeddings").value_or(model.tied_embeddings);
  model.init_std = reader.real("init_std", {0, 10}).value_or(model.init_std);
}

// Keys of the format that no model of this version has.
void refuse_missing_features(MappingReader& reader) {
  for (const char* flag : {"sliding_window", "chunked_attention", "attention_softcap"}) {
    reader.not_built(flag, {"false", "none"});
  }
  reader.not_built("mtp_layers", {"0"});
  if (auto dropout = reader.mapping("dropout")) {
    dropout->not_built("hidden", {"0"});
    dropout->not_built("attention", {"0"});
    dropout->finish();
  }
}

// Of Llama's default: two thirds of four times hidden, rounded down to 64, counted in integers.
std::int64_t default_ffn(const ModelSpec& model) {
  if (!is_gated(model.activation)) return 4 * model.hidden;
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
  if (!head_dim && !reader.has("head_dim") && !reader.has("mla") && known &&
      model.hidden % model.heads != 0) {
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

// Latent attention has as many keys as queries, and says itself how wide a head is.
void read_latent_attention(MappingReader& reader, ModelSpec& model) {
  auto mla = reader.mapping("mla");
  if (!mla) return;
  for (const char* key : {"kv_rank", "nope_dim", "rope_dim", "v_dim"}) mla->required(key);
  const IntegerRange size{1, kLargestSize};
  MlaSpec spec;
  spec.q_rank = mla->integer("q_rank", {0, kLargestSize}).value_or(0);
  spec.kv_rank = mla->integer("kv_rank", size).value_or(1);
  spec.nope_dim = mla->integer("nope_dim", size).value_or(1);
  spec.rope_dim = mla->integer("rope_dim", size).value_or(2);
  spec.v_dim = mla->integer("v_dim", size).value_or(1);
  if (spec.rope_dim % 2 != 0) {
    mla->fail("rope_dim",
              "rotary positions need an even rope_dim, got " + std::to_string(spec.rope_dim));
  }
  mla->finish();
  for (const char* key : {"head_dim", "kv_heads"}) {
    if (reader.has(key)) reader.fail(key, std::string("model.mla has no ") + key, "leave it out");
  }
  if (model.position != PositionKind::Rope || model.rope_fraction != 1 || model.qk_norm) {
    reader.fail("mla", "model.mla needs rotary positions in all of rope_dim, and has no qk_norm",
                "", {"model.position", "model.rope.fraction", "model.qk_norm"});
  }
  model.head_dim = spec.nope_dim + spec.rope_dim;
  model.kv_heads = model.heads;
  model.mla = spec;
}

}  // namespace

ModelSpec read_model(MappingReader reader) {
  ModelSpec model = family_defaults(read_family(reader));
  read_sizes(reader, model);
  read_blocks(reader, model);
  read_residuals(reader, model);
  read_latent_attention(reader, model);
  refuse_missing_features(reader);
  if (auto moe = reader.mapping("moe")) model.moe = read_experts(*moe, model.family);
  model.ffn_hidden = reader.integer("ffn_hidden", {1, kLargestSize}).value_or(default_ffn(model));
  if (model.moe && !is_gated(model.activation)) {
    reader.fail("moe", "experts are built with gated activations only, swiglu and geglu", "",
                {"model.activation"});
  }
  if (model.ffn_hidden == 0 && model.hidden > 0 && !reader.has("ffn_hidden")) {
    reader.required("ffn_hidden");
  }
  if (model.position == PositionKind::Rope && model.rope_fraction == 1 && model.head_dim % 2 != 0 &&
      !model.mla) {
    reader.fail(reader.has("head_dim") ? "head_dim" : "heads",
                "rotary positions need an even head_dim, got " + std::to_string(model.head_dim), "",
                {"model.hidden"});
  }
  reader.finish();
  return model;
}

}  // namespace mega::planner
