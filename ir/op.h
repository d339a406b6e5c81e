// The closed list of operations and the facts about each that do not depend on hardware.
//
// Every op instance carries an index string in the manner of einsum: one letter per dimension,
// operands separated by commas, "inputs->outputs", an empty operand is a scalar. The letters
// yield the shapes, the work and the bytes, and what splitting a dimension over devices does:
//   a letter of an output      shards that output             (column parallel)
//   a letter only of inputs    is contracted: a split leaves each device one addend
//                              (row parallel), combined by `combine`
//   a letter in `whole`        may not be split
//   a letter an operand lacks  replicates that operand
// Letters that the planner uses:  s sequence  t sequence of keys  b micro-batch  h hidden
//   g kv head (query group)  r query heads per kv head  d head_dim  f ffn_hidden  v vocabulary
//   p position table  n elements of a flat bucket
// and for latent attention (planner/model/latent_attention.h):
//   q latent of queries  l latent of keys and values  o, i parts of a head without and with
//   positions (d = o + i)  j head_dim of values
// and for a layer of experts (planner/model/build_experts.h tells what flows where):
//   e experts  k choices per token  a rows sent  z ranks that count them  u rows returned
//   c rows of an expert's rank  y ranks that they come from  x experts held  m their ffn_hidden
// Activations are laid out sequence first, so that a split of the sequence is contiguous.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/units.h"
#include "ir/types.h"

namespace mega {

enum class OpKind : std::uint8_t {
  // Inputs: what a rank reads of the global batch.
  InputTokens,
  InputLabels,
  CountTokens,
  // Forward.
  Embedding,
  AddPosition,
  LayerNorm,
  RmsNorm,
  MatMul,
  AddBias,
  Rope,
  Attention,
  GeluTanh,
  Gelu,
  Relu2,
  SwiGlu,
  GeGlu,
  Scale,
  Clip,
  SoftCap,
  JoinHeads,
  Add,
  Copy,
  VocabMax,
  VocabSumExp,
  TokenLoss,
  Route,
  ExpertLoad,
  BalanceLoss,
  RouterZLoss,
  CountExperts,
  SortRows,
  TakeRows,
  GroupedMatMul,
  GroupedSwiGlu,
  GroupedGeGlu,
  CombineRows,
  // Backward.
  CrossEntropyBackward,
  EmbeddingBackward,
  AddPositionBackward,
  LayerNormBackward,
  RmsNormBackward,
  BiasBackward,
  AttentionBackward,
  GeluTanhBackward,
  GeluBackward,
  Relu2Backward,
  SwiGluBackward,
  GeGluBackward,
  ClipBackward,
  SoftCapBackward,
  SplitHeads,
  RouteBackward,
  SumRows,
  GroupedSwiGluBackward,
  GroupedGeGluBackward,
  CombineRowsBackward,
  // Initialization and update.
  Fill,
  InitNormal,
  SquareSum,
  AdamW,
  Sgd,
  ShiftBias,
  // Data in another order, around a collective.
  Pack,
  Unpack,
  // Collectives, along a group that the op instance names.
  AllReduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  AllToAllV,
  RingShift,
};

// How the parts that a split contracted letter leaves are combined.
enum class Combine : std::uint8_t { None, Sum, Max };

struct OpInfo {
  OpKind kind;
  std::string_view name;         // as written in a plan
  std::string_view index;        // canonical; `flexible` ops may use their own letters
  bool flexible;                 // an instance may regroup letters: "sbh,grdh->sbgrd"
  std::string_view whole;        // letters that may not be split
  Combine combine;               // what a split of a contracted letter needs; None forbids it
  bool linear;                   // a partial sum of the operands is a partial sum of the result
  std::uint32_t can_accumulate;  // bit i: output i may be added to instead of overwritten
  double flops_per_point;        // per point of the product of all letters; see flops()
};

const OpInfo& info(OpKind kind);
std::optional<OpKind> op_named(std::string_view name);
std::span<const OpInfo> all_ops();  // in the order of the enum
bool is_collective(OpKind kind);

// Numbers that an op instance may carry; an op reads those that its kernel's header names.
struct Attributes {
  double epsilon = 0;                   // norms, AdamW
  double scale = 0;                     // attention: factor on the scores; route: on the weights;
                                        // balance_loss, router_z_loss: on the loss
  double theta = 0;                     // rope: base of the frequencies
  double value = 0;                     // fill: the value; init_normal: the standard deviation;
                                        // norms: added to the weight; scale: the factor; clip,
                                        // soft_cap: the limit
  double beta1 = 0, beta2 = 0;          // AdamW; beta1 is SGD's momentum
  double clip = 0;                      // AdamW, SGD: largest global gradient norm, 0 for none
  double factor = 0;                    // rope: slow frequencies are divided by it; 0: none
  double ramp_begin = 0, ramp_end = 0;  // rope: where slow frequencies end and the others begin
  double balance = 0, z = 0;            // route_backward: scale of balance_loss and router_z_loss
  std::int64_t limit = 0;               // vocabulary ops: first padded row; inputs: micro-batches
  std::int64_t stride = 0;          // inputs: samples of the global batch between micro-batches;
                                    // all_to_all_v: members between holders of other experts
  std::int64_t length = 0;          // of the whole sequence, where ranks hold parts of it
  std::int64_t parts = 0;           // how many, each of two chunks; 0: parts are in order
  std::int64_t shift = 0;           // attention: members that the keys have moved on
  std::int64_t groups = 0;          // route: of experts, 0 for none
  std::int64_t group_limit = 0;     // route: how many of them a token may use
  std::uint32_t accumulate = 0;     // bit i: output i is added to
  bool causal = false;              // attention
  bool inverse = false;             // rope: rotate back (its backward)
  bool interleaved = false;         // rope: pairs (2j, 2j+1) instead of (j, j + d/2)
  bool by_frequency = false;        // rope: the ramp is in frequencies, not in numbers of pairs
  bool decay = false;               // AdamW, SGD: apply the weight decay
  bool sigmoid = false;             // route: scores are sigmoids, not a softmax
  bool over_all = false;            // route: softmax over all experts, not over the chosen ones
  bool normalize = false;           // route: weights of a token sum to scale
  Combine combine = Combine::None;  // all_reduce, reduce_scatter
  bool operator==(const Attributes&) const = default;
};

// An index string taken apart. Operands are views into the string that was parsed.
struct Index {
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};
// Errors are a message without place: bad characters, a letter twice in one operand, no "->".
std::optional<Index> parse_index(std::string_view text);

// Size of each letter ('a'..'z' -> size, 0 where absent).
struct Extents {
  std::int64_t size[26] = {};
  std::int64_t operator[](char letter) const { return size[letter - 'a']; }
  std::int64_t& operator[](char letter) { return size[letter - 'a']; }
  std::int64_t product(std::string_view letters) const;
  bool operator==(const Extents&) const = default;
};

// Extents of the letters of one op, from its operands' shapes. Fails with a message when a rank
// differs from its operand or a letter has two sizes.
struct ExtentsOrMessage {
  std::optional<Extents> extents;
  std::string message;
};
ExtentsOrMessage extents_of(const Index& index, std::span<const Shape> inputs,
                            std::span<const Shape> outputs);

// Letters of the inputs that no output has, in order of appearance.
std::string contracted_letters(const Index& index);

// Floating point operations of one instance on these extents. Matrix products: 2 per point.
// Attention: 4 s t d g r b forward and 10 backward (five products, recomputing the scores),
// halved when causal; with values of another width j, 2 (d + j) and 2 (3 d + 2 j) instead.
Flops flops(OpKind kind, const Index& index, const Extents& extents, const Attributes& attributes);

// Whether published FLOP counts of a forward pass include it: matrix products and attention.
bool is_in_model_flops(OpKind kind);

// Compute element type of each op: data type of input/output `position` ("sb" tokens are int32,
// scalars of the loss and norm are fp64, everything else fp32).
DType input_dtype(OpKind kind, std::size_t position);
DType output_dtype(OpKind kind, std::size_t position);

}  // namespace mega
