// The model as ops on whole tensors: what is computed, with no word about where.
//
// A transformer is a chain of blocks (embedding, layers, head) that pass one residual stream
// along. Blocks of one kind are the same but for the names of their parameters, so the graph holds
// each kind once, as a template, and the chain as a list of template ids.
//
//   embedding ──x──► layer 0 ──x──► layer 1 ── ... ──x──► head ──► loss
//             ◄─dx──         ◄─dx──               ◄─dx──
//
// A block's backward accumulates into the gradient of the stream in place: `input_gradient` and
// `output_gradient` are one tensor, except in the head, which starts it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ir/base/ids.h"
#include "ir/op.h"
#include "ir/types.h"

namespace mega {

using TensorId = Id<struct TensorTag>;
using BlockKindId = Id<struct BlockKindTag>;

enum class TensorKind : std::uint8_t {
  Parameter,   // persistent, trained
  Gradient,    // main gradient of a parameter; accumulated over the micro-batches
  Activation,  // of one micro-batch
  Scalar,      // one per step: "loss", "token_count"
};

struct Tensor {
  std::string name;     // parameters: global name, "{}" stands for the layer's number
  std::string letters;  // one per dimension, see ir/op.h
  TensorKind kind = TensorKind::Activation;
  DType dtype = DType::Fp32;
  bool operator==(const Tensor&) const = default;
};

// Parts of a layer whose activations may be dropped and computed again; bits of GraphOp::modules.
enum class Module : std::uint32_t {
  CoreAttention = 1,
  Norms = 2,
  Activation = 4,
  Mlp = 8,
  Moe = 16,
  MoeActivation = 32,
  SharedExperts = 64,
  MlaUp = 128,
};

struct GraphOp {
  OpKind kind = OpKind::Add;
  std::string index;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  Attributes attributes;
  std::uint32_t modules = 0;   // forward: the Modules that it belongs to
  bool is_recomputed = false;  // backward: a forward op, done again
  bool operator==(const GraphOp&) const = default;
};

struct Parameter {
  TensorId weight;
  TensorId gradient;  // set by add_backward
  bool initial_is_normal = false;
  double initial = 0;  // the value, or the standard deviation
  bool weight_decay = false;
  bool is_tied = false;  // one tensor of the model, used by the embedding and by the head
  // Moved by shift_bias after each step instead of by the optimizer; its "gradient" is the number
  // of tokens that each expert got. In no norm, and no weight in counts of parameters.
  bool is_shifted = false;
  bool operator==(const Parameter&) const = default;
};

struct Block {
  std::string name;  // "embedding", "layer" ("layer.x" if there are several kinds), "head"
  Table<TensorId, Tensor> tensors;
  std::vector<Parameter> parameters;  // in order of first use
  std::vector<GraphOp> forward;
  std::vector<GraphOp> backward;
  TensorId input, output;                    // residual stream; unset at the ends of the model
  TensorId input_gradient, output_gradient;  // set by add_backward
  bool operator==(const Block&) const = default;
};

// A letter whose size is rounded up to a multiple of `multiple` times the ranks that split it.
struct PaddedLetter {
  char letter = 'v';
  std::int64_t multiple = 1;
  bool operator==(const PaddedLetter&) const = default;
};

struct ModelGraph {
  std::string name;
  Extents extents;  // global size of each letter, unpadded; b is one micro-batch
  std::vector<PaddedLetter> padded;
  Table<BlockKindId, Block> kinds;
  std::vector<BlockKindId> chain;  // embedding, layers, head
  int layers = 0;                  // chain.size() - 2
  // Of a layer of experts (planner/lower/experts.h): rows that a rank plans for as a multiple of
  // the mean, 0 for as many as there can be; and those of the busiest rank, for times.
  double row_factor = 0, imbalance = 1;
  bool operator==(const ModelGraph&) const = default;
};

// Kinds of the layers, each once, in order of first use; embedding and head are none.
std::vector<BlockKindId> layer_kinds(const ModelGraph& graph);

// "embedding, 3 x layer.dense, 58 x layer.moe, head", from the names in model order.
std::string chain_text(const std::vector<std::string>& names);

// Number of elements of all parameters of the model, a tied one counted once. `padded` sizes
// replace those of the graph for the given letters (vocabulary), for parameters_allocated.
std::int64_t parameter_count(const ModelGraph& graph, const Extents& extents);

// "h.{}.attn.q.weight", 3 -> "h.3.attn.q.weight"
std::string instance_name(const std::string& name, int layer);

std::string print(const ModelGraph& graph);

}  // namespace mega
