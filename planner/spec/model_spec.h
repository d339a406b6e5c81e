// A model as the user describes it: sizes, and which of the known pieces its layers are made of.
// Defaults are GPT-2's; planner/spec/families.h has those of other families.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mega::planner {

enum class NormKind : std::uint8_t { LayerNorm, RmsNorm };
enum class ActivationKind : std::uint8_t { GeluTanh, Gelu, Relu2, SwiGlu, GeGlu };
enum class PositionKind : std::uint8_t { Learned, Rope, None };

enum class RouterScore : std::uint8_t { Softmax, Sigmoid };

// kernels/route.h says what the fields mean.
struct RouterSpec {
  RouterScore score = RouterScore::Softmax;
  bool pre_softmax = false, normalize = false;
  double scale = 1;
  std::int64_t groups = 0, group_top_k = 0;
  bool bias = false;
  double bias_update_rate = 0;
  double aux_coefficient = 0, z_coefficient = 0;
};

// Mixture of experts: what replaces the MLP of a layer.
struct MoeSpec {
  std::int64_t experts = 0, top_k = 0, ffn_hidden = 0;
  std::int64_t shared_ffn_hidden = 0;  // 0: no shared experts
  int first_dense_layers = 0;          // these keep their MLP
  std::string layer_pattern;           // of those after them, repeated: d dense, e experts
  RouterSpec router;
  double row_factor = 0;  // rows planned per rank, as a multiple of the mean; 0: the worst case
  double imbalance = 1;   // rows of the busiest rank, as a multiple of the mean: for times
};

enum class RopeScalingKind : std::uint8_t { None, Linear, Llama3, Yarn };

// Rotary frequencies of a context longer than the model was first trained with.
struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::None;
  double factor = 1;
  std::int64_t original_max_position = 0;                                // llama3, yarn
  double low_frequency_factor = 1, high_frequency_factor = 4;            // llama3
  double beta_fast = 32, beta_slow = 1, mscale = 1, mscale_all_dim = 0;  // yarn
};

// Multi-head latent attention (DeepSeek-AI 2024): keys and values come of a small vector per token;
// of each head of q and k, rope_dim dimensions carry the position, those of k shared by all heads.
struct MlaSpec {
  std::int64_t q_rank = 0;  // 0: queries come straight from the stream
  std::int64_t kv_rank = 0, nope_dim = 0, rope_dim = 0, v_dim = 0;
};

bool is_gated(ActivationKind kind);  // an MLP of two branches

// Whether layer number `layer` has experts.
bool has_experts(const MoeSpec& moe, int layer);

struct ModelSpec {
  std::string name;    // of the bundled spec or the file; "model" when inline
  std::string family;  // planner/spec/families.h
  int layers = 0;
  int no_rope_every = 0;  // n: layers n-1, 2n-1, ... have no rotary positions; 0: all have
  std::int64_t hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t ffn_hidden = 0;  // per branch: SwiGLU has two branches of this width
  std::int64_t vocab = 0;
  std::int64_t vocab_multiple = 128;  // the vocabulary is padded to a multiple of this times tp
  std::int64_t max_position = 0;      // rows of the learned position table; longest sequence
  double norm_epsilon = 1e-5;
  double norm_offset = 0;  // added to the weights of norms, which start at 1 less this
  double rope_theta = 10000;
  double rope_fraction = 1;  // of the head_dim dimensions, how many turn
  double qkv_clip = 0;       // largest |q|, |k|, |v|; 0: any
  double embedding_scale = 1;
  double logit_softcap = 0;  // c: logits become c tanh(x / c); 0: as they are
  double init_std = 0.02;
  RopeScaling rope_scaling;
  NormKind norm = NormKind::LayerNorm;
  ActivationKind activation = ActivationKind::GeluTanh;
  PositionKind position = PositionKind::Learned;
  bool rope_interleaved = false;
  bool qk_norm = false;               // of each head of q and k, before the positions
  bool parallel_residual = false;     // attention and MLP both read the layer's input
  bool shared_residual_norm = false;  // and share its norm
  bool post_norms = false;            // norms on what attention and MLP add to the stream
  bool embedding_norm = false;
  bool bias_norm = true;  // of layer norms
  bool bias_qkv = false, bias_attention_out = false, bias_mlp = false;
  bool tied_embeddings = false;
  std::optional<MlaSpec> mla;
  std::optional<MoeSpec> moe;
};

// Dimensions of a head that positions turn: the even number at or below the fraction's.
std::int64_t rotated_dims(const ModelSpec& model);

}  // namespace mega::planner
