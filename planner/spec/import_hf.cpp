#include "planner/spec/import_hf.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "ir/base/text.h"
#include "planner/spec/families.h"
#include "planner/spec/hf_config.h"

namespace mega::planner {
namespace {

// About generation, files, and what a model was made with; nothing that training depends on.
const std::vector<std::string> kPassedOver = {"_name_or_path",
                                              "architectures",
                                              "auto_map",
                                              "bos_token_id",
                                              "eos_token_id",
                                              "pad_token_id",
                                              "unk_token_id",
                                              "decoder_start_token_id",
                                              "torch_dtype",
                                              "dtype",
                                              "transformers_version",
                                              "use_cache",
                                              "model_type",
                                              "is_encoder_decoder",
                                              "output_past",
                                              "slow_but_exact",
                                              "output_attentions",
                                              "output_hidden_states",
                                              "pretraining_tp",
                                              "n_ctx",
                                              "summary_activation",
                                              "summary_first_dropout",
                                              "summary_proj_to_labels",
                                              "summary_type",
                                              "summary_use_proj",
                                              "task_specific_params.text-generation.do_sample",
                                              "gradient_checkpointing",
                                              "masked_softmax_fusion",
                                              "bias_dropout_fusion",
                                              "attention_softmax_in_fp32",
                                              "seq_length",
                                              "ep_size",
                                              "tie_encoder_decoder",
                                              "ffn_config.ffn_type",
                                              "verbose",
                                              "init_device",
                                              "tokenizer_name",
                                              "output_router_logits",
                                              "classifier_dropout",
                                              "reorder_and_upcast_attn",
                                              "scale_attn_weights",
                                              "name_or_path",
                                              "torchscript",
                                              "cache_implementation"};

// Whole numbers without an exponent: 500000, not 5e+05.
std::string number(double value) {
  constexpr double kExact = 9007199254740992;  // 2^53
  const bool is_whole = std::abs(value) < kExact && std::trunc(value) == value;
  return is_whole ? std::to_string(static_cast<std::int64_t>(value)) : format_real(value);
}

// Lines of the spec, in the order of specs/README.md; sections stay on one line.
class Spec {
 public:
  void add(const std::string& key, const std::string& value) { text_ += key + ": " + value + "\n"; }
  void add(const std::string& key, std::int64_t value) { add(key, std::to_string(value)); }
  void add(const std::string& key, double value) { add(key, number(value)); }
  void flag(const std::string& key, bool value, bool usual) {
    if (value != usual) add(key, std::string(value ? "true" : "false"));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The parts of "key: {a: 1, b: 2}".
class Section {
 public:
  void add(const std::string& key, const std::string& value) {
    text_ += (text_.empty() ? "" : ", ") + key + ": " + value;
  }
  void add(const std::string& key, std::int64_t value) { add(key, std::to_string(value)); }
  void add(const std::string& key, double value) { add(key, number(value)); }
  void flag(const std::string& key, bool value, bool usual) {
    if (value != usual) add(key, std::string(value ? "true" : "false"));
  }
  void write(Spec& spec, const std::string& key) const {
    if (!text_.empty()) spec.add(key, "{" + text_ + "}");
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Importer {
 public:
  Importer(HfConfig& config, std::string type) : config_(config), type_(std::move(type)) {
    usual_ = family_defaults(type_);
  }

  std::string run() {
    spec_.add("family", type_);
    sizes();
    norms_and_activation();
    positions();
    attention();
    residuals();
    experts();
    latent_attention();
    ends();
    config_.pass_over(kPassedOver);
    return spec_.text();
  }

 private:
  std::int64_t required(const std::string& what, const std::vector<std::string>& names) {
    const auto value = config_.integer(names);
    if (!value) config_.fail("no " + what + ": '" + names.front() + "' is missing");
    if (value == 0) config_.fail("'" + names.front() + "' must be at least 1, got 0");
    return value.value_or(1);
  }

  void sizes() {
    spec_.add("layers", required("layers", {"num_hidden_layers", "n_layer", "n_layers"}));
    hidden_ = required("width", {"hidden_size", "n_embd", "n_embed", "d_model"});
    heads_ = required("heads", {"num_attention_heads", "n_head", "n_heads"});
    spec_.add("hidden", hidden_);
    spec_.add("heads", heads_);
    kv_heads();
    // What the classes of transformers assume where the file is silent.
    const std::int64_t usual = type_.starts_with("gemma") ? 256
                               : type_.starts_with("qwen3")
                                   ? 128
                                   : hidden_ / std::max<std::int64_t>(heads_, 1);
    const std::int64_t head_dim = config_.integer({"head_dim"}).value_or(usual);
    if (head_dim * heads_ != hidden_) spec_.add("head_dim", head_dim);
    const auto query = config_.real({"query_pre_attn_scalar"});
    if (query && *query != static_cast<double>(head_dim)) {
      config_.fail("attention scaled by other than the head's width is not known");
    }
    auto ffn = config_.integer({"intermediate_size", "n_inner", "ffn_hidden_size"});
    if (const auto ratio = config_.integer({"expansion_ratio"})) ffn = *ratio * hidden_;
    if (ffn && (is_gated(usual_.activation) || *ffn != 4 * hidden_)) spec_.add("ffn_hidden", *ffn);
    spec_.add("vocab", required("vocabulary", {"vocab_size"}));
    const auto positions =
        config_.integer({"max_position_embeddings", "n_positions", "max_seq_len"});
    if (positions) spec_.add("max_position", *positions);
  }

  // Falcon says "one" with multi_query unless it is of the new architecture.
  void kv_heads() {
    auto kv = config_.integer({"num_key_value_heads", "num_kv_heads", "attn_config.kv_n_heads"});
    if (type_ == "falcon") {
      const bool is_new = config_.boolean({"new_decoder_architecture"}).value_or(false);
      const bool is_multi_query = config_.boolean({"multi_query"}).value_or(true);
      if (!is_new) kv = is_multi_query ? 1 : heads_;
      const auto norms = config_.integer({"num_ln_in_parallel_attn"});
      shares_norm_ = !is_new || norms == 1;
    }
    if (config_.word({"attn_config.attn_type"}) == "multiquery_attention") kv = 1;
    if (kv && *kv != heads_) spec_.add("kv_heads", *kv);
  }

  void norms_and_activation() {
    const auto epsilon =
        config_.real({"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_eps"});
    const double assumed = usual_.norm == NormKind::RmsNorm ? 1e-6 : 1e-5;
    const double value = epsilon.value_or(assumed);
    if (value != usual_.norm_epsilon) spec_.add("norm_epsilon", value);
    auto word = config_.word({"hidden_activation", "hidden_act", "activation_function",
                              "activation", "ffn_config.ffn_act_fn.name"});
    if (!word) return;
    const auto name = activation_of(*word);
    if (!name) return config_.fail("the activation '" + *word + "' is not known");
    if (*name != name_of(usual_.activation)) spec_.add("activation", *name);
  }

  static std::string name_of(ActivationKind kind) {
    switch (kind) {
      case ActivationKind::GeluTanh:
        return "gelu_tanh";
      case ActivationKind::Gelu:
        return "gelu";
      case ActivationKind::Relu2:
        return "relu2";
      case ActivationKind::SwiGlu:
        return "swiglu";
      case ActivationKind::GeGlu:
        return "geglu";
    }
    return "";
  }

  // Gemma's "gelu" is the approximation by tanh, whatever its first configurations say.
  std::optional<std::string> activation_of(const std::string& word) const {
    const bool is_gelu = word.starts_with("gelu");
    if (is_gated(usual_.activation)) {
      if (word == "silu" || word == "swish") return "swiglu";
      return is_gelu ? std::optional<std::string>("geglu") : std::nullopt;
    }
    if (word == "gelu") return "gelu";
    if (is_gelu) return "gelu_tanh";
    if (word == "relu2" || word == "squared_relu") return "relu2";
    return std::nullopt;
  }

  void positions() {
    const bool has_alibi = config_.boolean({"alibi", "attn_config.alibi"}).value_or(false);
    if (has_alibi && usual_.position != PositionKind::Rope) return;  // the family's default
    if (has_alibi) return spec_.add("position", "alibi");
    if (usual_.position != PositionKind::Rope) return;
    Section rope;
    const double theta =
        config_.real({"rope_theta", "rope_parameters.rope_theta", "rotary_emb_base"})
            .value_or(10000);
    if (theta != usual_.rope_theta) rope.add("theta", theta);
    const auto fraction = config_.real(
        {"partial_rotary_factor", "rope_parameters.partial_rotary_factor", "rotary_pct"});
    if (fraction && *fraction != usual_.rope_fraction) rope.add("fraction", *fraction);
    if (config_.boolean({"rope_interleave"}) == true) rope.add("interleaved", std::string("true"));
    scaling(rope);
    rope.write(spec_, "rope");
    if (const auto every = config_.integer({"no_rope_layer_interval"})) {
      spec_.add("no_rope_every", *every);
    }
  }

  // Keys as specs/README.md has them under rope.scaling.
  void scaling(Section& rope) {
    const auto both = [](const std::string& name) {
      return std::vector<std::string>{"rope_scaling." + name, "rope_parameters." + name};
    };
    auto kinds = both("rope_type");
    kinds.emplace_back("rope_scaling.type");
    const auto kind = config_.word(kinds);
    if (!kind || *kind == "default") return;
    Section scaling;
    scaling.add("kind", *kind);
    constexpr std::pair<const char*, const char*> kNumbers[] = {
        {"factor", "factor"},
        {"original_max_position_embeddings", "original_max_position"},
        {"low_freq_factor", "low_frequency_factor"},
        {"high_freq_factor", "high_frequency_factor"},
        {"beta_fast", "beta_fast"},
        {"beta_slow", "beta_slow"},
        {"mscale", "mscale"},
        {"mscale_all_dim", "mscale_all_dim"}};
    for (const auto& [theirs, ours] : kNumbers) {
      if (const auto value = config_.real(both(theirs))) scaling.add(ours, *value);
    }
    rope.add("scaling", "{" + scaling.text() + "}");
  }

  void attention() {
    Section bias;
    const auto all = config_.boolean({"attention_bias", "bias", "use_bias"});
    if (all) {
      // Of Qwen 2 the biases of q, k and v are not in the configuration.
      bias.flag("qkv", *all, usual_.bias_qkv);
      bias.flag("attention_out", *all, usual_.bias_attention_out);
    }
    const auto mlp = config_.boolean({"mlp_bias", "bias", "use_bias"});
    if (mlp) bias.flag("mlp", *mlp, usual_.bias_mlp);
    if (const auto none = config_.boolean({"no_bias"})) bias.flag("norm", !*none, usual_.bias_norm);
    bias.write(spec_, "bias");
    const auto clip = config_.real({"attn_config.clip_qkv", "clip_qkv"});
    if (clip && *clip > 0) spec_.add("qkv_clip", *clip);
    // Qwen keeps a width of a window that it doesn't use.
    const auto window = config_.integer({"sliding_window"});
    const bool uses_window = config_.boolean({"use_sliding_window"}).value_or(type_ != "qwen2");
    if (!uses_window) config_.pass_over({"max_window_layers", "layer_types"});
    if (window && uses_window) spec_.add("sliding_window", *window);
    if (const auto chunk = config_.integer({"attention_chunk_size"})) {
      spec_.add("chunked_attention", *chunk);
    }
    const auto softcap = config_.real({"attn_logit_softcapping"});
    if (softcap && *softcap > 0) spec_.add("attention_softcap", *softcap);
    // Dropout is of a training, not of a model: only what is off is understood.
    for (const char* key : {"resid_pdrop", "hidden_dropout", "embd_pdrop", "emb_pdrop",
                            "attn_pdrop", "attention_dropout", "attn_config.attn_pdrop"}) {
      if (config_.is_zero(key)) config_.pass_over({key});
    }
  }

  void residuals() {
    const auto parallel = config_.boolean({"use_parallel_residual", "parallel_attn"});
    if (parallel) spec_.flag("parallel_residual", *parallel, usual_.parallel_residual);
    if (type_ == "falcon" && shares_norm_ && parallel.value_or(true)) {
      spec_.add("shared_residual_norm", std::string("true"));
    }
    if (config_.boolean({"apply_residual_connection_post_layernorm"}) == true) {
      config_.fail("residuals after the norms are not known");
    }
  }

  void experts() {
    const auto experts = config_.integer({"num_local_experts", "num_experts", "n_routed_experts"});
    if (!experts) return;
    Section moe;
    moe.add("experts", *experts);
    moe.add("top_k", required("experts per token", {"num_experts_per_tok"}));
    auto width = config_.integer({"moe_intermediate_size"});
    if (!width) width = config_.integer({"intermediate_size"});
    if (width) moe.add("ffn_hidden", *width);
    const auto shared = config_.integer({"n_shared_experts"});
    if (shared && width && *shared > 0) moe.add("shared_ffn_hidden", *shared * *width);
    const auto dense = config_.integer({"first_k_dense_replace"});
    if (dense && *dense > 0) moe.add("first_dense_layers", *dense);
    router(moe);
    moe.write(spec_, "moe");
    if (config_.integer({"decoder_sparse_step", "moe_layer_freq"}).value_or(1) != 1) {
      config_.fail("layers of experts between dense ones are not known");
    }
    if (const auto mtp = config_.integer({"num_nextn_predict_layers"})) {
      if (*mtp > 0) spec_.add("mtp_layers", *mtp);
    }
  }

  void router(Section& moe) {
    Section router;
    const auto score = config_.word({"scoring_func"});
    if (score && *score != (type_ == "deepseek_v3" ? "sigmoid" : "softmax")) {
      router.add("score", *score);
    }
    if (const auto normalize = config_.boolean({"norm_topk_prob"})) {
      router.add("normalize", std::string(*normalize ? "true" : "false"));
    }
    const auto scale = config_.real({"routed_scaling_factor"});
    if (scale && *scale != 1) router.add("scale", *scale);
    const auto method = config_.word({"topk_method"});
    const auto groups = config_.integer({"n_group"});
    const auto used = config_.integer({"topk_group"});
    if (method.value_or("") != "greedy" && groups.value_or(1) > 1) {
      router.add("groups", *groups);
      if (used) router.add("group_top_k", *used);
    }
    const auto auxiliary = config_.real({"router_aux_loss_coef", "aux_loss_alpha"});
    if (auxiliary && *auxiliary > 0) router.add("aux_coefficient", *auxiliary);
    if (!router.text().empty()) moe.add("router", "{" + router.text() + "}");
  }

  void latent_attention() {
    const auto kv_rank = config_.integer({"kv_lora_rank"});
    if (!kv_rank) return;
    Section mla;
    if (const auto q_rank = config_.integer({"q_lora_rank"})) mla.add("q_rank", *q_rank);
    mla.add("kv_rank", *kv_rank);
    mla.add("nope_dim", required("nope_dim", {"qk_nope_head_dim"}));
    mla.add("rope_dim", required("rope_dim", {"qk_rope_head_dim"}));
    mla.add("v_dim", required("v_dim", {"v_head_dim"}));
    config_.pass_over({"qk_head_dim"});
    mla.write(spec_, "mla");
  }

  void ends() {
    const auto softcap = config_.real({"final_logit_softcapping"});
    if (softcap && *softcap > 0 && *softcap != usual_.logit_softcap) {
      spec_.add("logit_softcap", *softcap);
    }
    const auto tied = config_.boolean({"tie_word_embeddings"});
    if (tied) spec_.flag("tied_embeddings", *tied, usual_.tied_embeddings);
    const auto std_dev = config_.real({"initializer_range"});
    if (std_dev && *std_dev > 0 && *std_dev != usual_.init_std) spec_.add("init_std", *std_dev);
  }

  HfConfig& config_;
  std::string type_;
  ModelSpec usual_;
  Spec spec_;
  std::int64_t hidden_ = 1, heads_ = 1;
  bool shares_norm_ = false;
};

const std::vector<std::string>& importable() {
  static const std::vector<std::string> all = {
      "gpt2",        "llama", "mistral", "mixtral",  "qwen2",  "qwen3", "qwen3_moe", "deepseek_v2",
      "deepseek_v3", "gemma", "gemma2",  "gpt_neox", "falcon", "bloom", "mpt",       "nemotron"};
  return all;
}

}  // namespace

Result<ImportedModel> import_hf(const std::string& file, const std::string& text) {
  MEGA_TRY(HfConfig config, HfConfig::parse(file, text));
  const std::string type = config.word({"model_type"}).value_or("");
  const auto& known = importable();
  if (std::find(known.begin(), known.end(), type) == known.end()) {
    config.fail(type.empty() ? "no 'model_type': this is no config.json of a model"
                             : "models of the type " + quote(type) + " can't be imported");
    return config.errors();
  }
  ImportedModel imported;
  imported.yaml = Importer(config, type).run();
  if (!config.errors().empty()) return config.errors();
  imported.not_understood = config.left();
  return imported;
}

}  // namespace mega::planner
