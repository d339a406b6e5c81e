#include "planner/lower/partition.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "ir/base/check.h"
#include "planner/lower/context.h"
#include "planner/lower/experts.h"
#include "planner/lower/pack_scratch.h"
#include "planner/lower/recompute.h"
#include "planner/lower/shard_parameters.h"
#include "planner/lower/split_backward.h"

namespace mega::planner {
namespace {

using LetterAxes = std::array<AxisSet, 26>;

AxisSet& at(LetterAxes& axes, char letter) {
  return axes[static_cast<std::size_t>(letter - 'a')];
}

// Letter whose split gives each rank another part to work on, and so an origin.
char origin_letter(OpKind kind) {
  switch (kind) {
    case OpKind::InputTokens:
    case OpKind::InputLabels:
      return 'b';
    case OpKind::Embedding:
    case OpKind::EmbeddingBackward:
    case OpKind::VocabMax:
    case OpKind::VocabSumExp:
    case OpKind::CrossEntropyBackward:
      return 'v';
    case OpKind::AddPosition:
    case OpKind::AddPositionBackward:
    case OpKind::Rope:
    case OpKind::Attention:
    case OpKind::AttentionBackward:
      return 's';
    default:
      return 0;
  }
}

// The residual stream, and what latent attention makes of it before there are heads: under sequence
// parallelism each rank has its part of the sequence.
bool lies_like_the_stream(const std::string& letters) {
  return letters == "sbh" || letters == "sbl" || letters == "sbq";
}

// A backward is linear in the gradient that it is given. For what is done to each head of k this
// matters: where kv heads are replicated, their gradients are addends along the replicas, and those
// of k must stay so to add up with v's. The residual stream's gradient is combined before its norm.
bool passes_gradient(const GraphOp& op, const LocalTensor& gradient) {
  switch (op.kind) {
    case OpKind::LayerNormBackward:
    case OpKind::RmsNormBackward:
    case OpKind::ClipBackward:
      return !lies_like_the_stream(gradient.letters);
    default:
      return false;
  }
}

// What splits the rows of the residual stream.
AxisSet stream_rows(const Placement& place) {
  return place.sequence_parallel ? place.sequence | place.tensor : place.sequence;
}

class BlockPartitioner {
 public:
  BlockPartitioner(const Block& block, const Placement& place, const Extents& unpadded)
      : block_(block), place_(place), unpadded_(unpadded), context_(out_, place) {
    out_.name = block.name;
  }

  PartitionedBlock run() {
    declare_existing();
    for (const GraphOp& op : block_.forward) add(op, out_.forward);
    if (block_.output) out_.output = resolve(local_.at(block_.output), out_.forward);
    gathered_.clear();
    for (const GraphOp& op : block_.backward) {
      const std::size_t first = out_.backward.size();
      add(op, out_.backward);
      for (std::size_t i = first; i < out_.backward.size(); ++i) {
        out_.backward[i].is_recomputed = op.is_recomputed;
      }
    }
    if (block_.input_gradient) {
      out_.input_gradient = resolve(local_.at(block_.input_gradient), out_.backward);
    }
    if (block_.input) out_.input = local_.at(block_.input);
    if (block_.output_gradient) out_.output_gradient = local_.at(block_.output_gradient);
    for (const Parameter& parameter : block_.parameters) add_parameter(parameter);
    return std::move(out_);
  }

 private:
  // Tensors that exist before the block's first op.
  void declare_existing() {
    for (std::size_t i = 0; i < block_.tensors.size(); ++i) {
      const TensorId id{static_cast<std::int32_t>(i)};
      const Tensor& tensor = block_.tensors[id];
      const bool is_stream = id == block_.input || id == block_.output_gradient;
      if (tensor.kind == TensorKind::Activation && !is_stream) continue;
      Sharding sharding;
      sharding.mesh = place_.index_of(tensor.letters);
      for (const char letter : tensor.letters) sharding.axes.push_back(place_.of(letter));
      if (is_stream) sharding.axes[0] = stream_rows(place_);
      const bool is_gradient = tensor.kind == TensorKind::Gradient;
      local_[id] = add_tensor(tensor.name + (is_gradient ? ".grad" : ""), tensor, sharding);
    }
  }

  TensorId add_tensor(std::string name, const Tensor& like, Sharding sharding) {
    LocalTensor tensor;
    tensor.name = unused_name(out_, std::move(name));
    tensor.letters = like.letters;
    tensor.dtype = like.dtype;
    for (std::size_t i = 0; i < like.letters.size(); ++i) {
      const std::int64_t size = place_.extents[like.letters[i]];
      const int parts = extent(place_.meshes(sharding.mesh), sharding.axes[i]);
      MEGA_CHECK(size % parts == 0, "dimension " + std::string(1, like.letters[i]) + " of " +
                                        tensor.name + ": " + std::to_string(size) +
                                        " does not split into " + std::to_string(parts));
      tensor.shape.push_back(size / parts);
    }
    tensor.sharding = std::move(sharding);
    return out_.tensors.add(std::move(tensor));
  }

  void emit_collective(OpKind kind, TensorId in, TensorId out, AxisSet along, Combine combine,
                       std::vector<LocalOp>& ops) {
    LocalOp op;
    op.kind = kind;
    const std::string letters = out_.tensors[in].letters;
    // The first letter's local size changes; a capital would not be a letter, so 'z' stands in.
    op.index = letters + "->" + letters;
    if (kind != OpKind::AllReduce) op.index = letters + "->z" + letters.substr(1);
    op.inputs = {in};
    op.outputs = {out};
    op.attributes.combine = combine;
    op.group = Group{.mesh = out_.tensors[in].sharding.mesh, .along = along, .only = {}};
    ops.push_back(std::move(op));
  }

  void replace(TensorId from, TensorId to) {
    for (auto& [global, local] : local_) {
      if (local == from) local = to;
    }
  }

  // Combines addends. Residual stream under sequence parallelism: each rank keeps its part of
  // the sequence.
  TensorId resolve(TensorId id, std::vector<LocalOp>& ops) {
    const LocalTensor tensor = out_.tensors[id];
    const AxisSet partial = tensor.sharding.partial;
    if (partial.empty()) return id;
    out_.tensors[id].sharding.partial = {};
    const bool scatters = place_.sequence_parallel && lies_like_the_stream(tensor.letters) &&
                          (tensor.sharding.axes[0] & place_.tensor).empty() &&
                          partial == place_.tensor;
    if (!scatters) {
      emit_collective(OpKind::AllReduce, id, id, partial, tensor.sharding.combine, ops);
      return id;
    }
    out_.tensors[id].name = tensor.name + ".partial";
    Sharding scattered = tensor.sharding;
    scattered.partial = {};
    scattered.axes[0] = scattered.axes[0] | partial;
    const TensorId result =
        add_tensor(tensor.name, {tensor.name, tensor.letters, TensorKind::Activation, tensor.dtype},
                   scattered);
    emit_collective(OpKind::ReduceScatter, id, result, partial, tensor.sharding.combine, ops);
    replace(id, result);
    return result;
  }

  // The rows that are split `along`, all of them; once per direction.
  TensorId gather(TensorId id, AxisSet along, std::vector<LocalOp>& ops) {
    const auto found = gathered_.find(id);
    if (found != gathered_.end()) return found->second;
    const LocalTensor tensor = out_.tensors[id];
    Sharding whole = tensor.sharding;
    whole.axes[0] = whole.axes[0] - along;
    const TensorId result =
        add_tensor(tensor.name + ".gathered",
                   {tensor.name, tensor.letters, TensorKind::Activation, tensor.dtype}, whole);
    emit_collective(OpKind::AllGather, id, result, along, Combine::None, ops);
    gathered_[id] = result;
    return result;
  }

  // Combines the operands' addends unless the op passes them on; the axes that it passes on.
  AxisSet settle_partial(const GraphOp& op, std::vector<TensorId>& inputs,
                         std::vector<LocalOp>& ops) {
    AxisSet passed;
    bool all_equal = true;
    int partial_inputs = 0;
    for (const TensorId id : inputs) {
      const AxisSet partial = out_.tensors[id].sharding.partial;
      if (!partial.empty()) ++partial_inputs;
      all_equal = all_equal && partial == out_.tensors[inputs[0]].sharding.partial;
      passed = passed | partial;
    }
    const bool is_linear =
        info(op.kind).linear || (!inputs.empty() && passes_gradient(op, out_.tensors[inputs[0]]));
    const bool passes = is_linear && (op.kind == OpKind::Add ? all_equal : partial_inputs <= 1);
    if (passes) return passed;
    for (TensorId& id : inputs) id = resolve(id, ops);
    return {};
  }

  // Keys and values of one kv head are split by nothing, and still every query needs all of them;
  // and operands must agree. Multi-query attention under sequence parallelism comes here.
  bool needs_whole_sequence(const GraphOp& op, const Index& index,
                            const std::vector<TensorId>& inputs) const {
    bool has_split = false, has_whole = false;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!index.inputs[i].starts_with('s')) continue;
      const bool is_split = !(out_.tensors[inputs[i]].sharding.axes[0] & place_.tensor).empty();
      (is_split ? has_split : has_whole) = true;
    }
    const bool makes_heads = op.kind == OpKind::MatMul && index.outputs[0].starts_with("sbg");
    return has_split && (has_whole || makes_heads);
  }

  // The axes of each letter, from the operands that have them; the sequence is gathered where an
  // axis would split two letters.
  LetterAxes letter_axes(const GraphOp& op, const Index& index, std::vector<TensorId>& inputs,
                         std::vector<LocalOp>& ops) {
    LetterAxes axes{};
    AxisSet others;
    const auto collect = [&](const std::string& letters, TensorId id) {
      const Sharding& sharding = out_.tensors[id].sharding;
      for (std::size_t j = 0; j < letters.size(); ++j) {
        at(axes, letters[j]) = at(axes, letters[j]) | sharding.axes[j];
        // Keys and queries are rows of one sequence.
        if (letters[j] != 's' && letters[j] != 't') others = others | sharding.axes[j];
      }
    };
    for (std::size_t i = 0; i < inputs.size(); ++i) collect(index.inputs[i], inputs[i]);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const auto found = local_.find(op.outputs[i]);
      if (found != local_.end()) collect(index.outputs[i], found->second);
    }
    AxisSet twice = at(axes, 's') & others;
    if (needs_whole_sequence(op, index, inputs)) twice = twice | (at(axes, 's') & place_.tensor);
    if (!twice.empty()) {
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!index.inputs[i].starts_with('s')) continue;
        if ((out_.tensors[inputs[i]].sharding.axes[0] & twice).empty()) continue;
        inputs[i] = gather(inputs[i], twice, ops);
      }
      at(axes, 's') = at(axes, 's') - twice;
    }
    if (inputs.empty()) {
      for (const char letter : index.outputs[0]) at(axes, letter) = place_.of(letter);
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      for (std::size_t j = 0; j < index.inputs[i].size(); ++j) {
        MEGA_CHECK(out_.tensors[inputs[i]].sharding.axes[j] == at(axes, index.inputs[i][j]),
                   std::string(info(op.kind).name) + " " + op.index + " of block " + block_.name +
                       ": operands split a letter differently");
      }
    }
    return axes;
  }

  // Axes along which output `letters` holds addends: those of letters that it lacks, but for those
  // that split a letter of its own (each rank's queries see the keys of all).
  static AxisSet contracted(const Index& index, const std::string& letters, LetterAxes& axes) {
    AxisSet result;
    for (const std::string& input : index.inputs) {
      for (const char letter : input) {
        if (letters.find(letter) == std::string::npos) result = result | at(axes, letter);
      }
    }
    for (const char letter : letters) result = result - at(axes, letter);
    return result;
  }

  TensorId define_output(const GraphOp& op, const Index& index, std::size_t i, LetterAxes& axes,
                         AxisSet passed) {
    const TensorId global = op.outputs[i];
    const Tensor& tensor = block_.tensors[global];
    const AxisSet partial = contracted(index, index.outputs[i], axes) | passed;
    const OpInfo& op_info = info(op.kind);
    const bool is_given = partial == passed;
    MEGA_CHECK(partial.empty() || op_info.combine != Combine::None || op_info.linear || is_given,
               std::string(op_info.name) + " can't leave addends");
    const auto found = local_.find(global);
    if (found == local_.end()) {
      Sharding sharding;
      for (const char letter : index.outputs[i]) sharding.axes.push_back(at(axes, letter));
      sharding.partial = partial;
      sharding.combine = op_info.combine == Combine::None ? Combine::Sum : op_info.combine;
      return local_[global] = add_tensor(tensor.name, tensor, sharding);
    }
    if (tensor.kind == TensorKind::Scalar) return found->second;  // summed at the end of the step
    Sharding& existing = out_.tensors[found->second].sharding;
    if (tensor.kind == TensorKind::Gradient && !touched_.contains(found->second)) {
      existing.partial = partial;
      existing.combine = Combine::Sum;
      touched_[found->second] = true;
    }
    MEGA_CHECK(existing.partial == partial,
               "contributions to " + tensor.name + " are addends along different axes");
    return found->second;
  }

  void add(const GraphOp& op, std::vector<LocalOp>& ops) {
    const Index index = *parse_index(op.index);
    if (is_routed(op.kind)) return add_routed(op, index, ops);
    LocalOp local;
    local.kind = op.kind;
    local.index = op.index;
    local.attributes = op.attributes;
    for (const TensorId input : op.inputs) local.inputs.push_back(local_.at(input));
    const AxisSet passed = settle_partial(op, local.inputs, ops);
    LetterAxes axes = letter_axes(op, index, local.inputs, ops);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      local.outputs.push_back(define_output(op, index, i, axes, passed));
      gathered_.erase(local.outputs.back());  // what was gathered of it is stale
    }
    const char letter = origin_letter(op.kind);
    if (letter != 0 && !at(axes, letter).empty()) {
      const int parts = extent(place_.mesh, at(axes, letter));
      local.origin = {{at(axes, letter), place_.extents[letter] / parts}};
    }
    if (letter == 's') place_rows(place_, at(axes, 's'), local);
    if (op.kind == OpKind::InputTokens || op.kind == OpKind::InputLabels) {
      place_input(at(axes, 's'), local);
    }
    if (op.kind == OpKind::TokenLoss) local.owner = place_.tensor - at(axes, 's');
    const bool attends = op.kind == OpKind::Attention || op.kind == OpKind::AttentionBackward;
    if (attends && !place_.sequence.empty()) return context_.lower(local, ops);
    ops.push_back(std::move(local));
  }

  // Samples are counted in tokens where the sequence is split, see kernels/input.h.
  void place_input(AxisSet rows, LocalOp& local) const {
    local.attributes.stride = place_.extents['b'];
    if (rows.empty()) return;
    place_rows(place_, rows, local);
    for (OriginTerm& term : local.origin) term.stride *= local.attributes.length;
    local.origin.push_back({rows, local.attributes.length / extent(place_.mesh, rows)});
  }

  // An op of the experts' part: letters have their place whatever the op (planner/lower/experts.h),
  // but for the tokens', which lie as the residual stream does.
  void add_routed(const GraphOp& op, const Index& index, std::vector<LocalOp>& ops) {
    const bool moves = op.kind == OpKind::AllToAll || op.kind == OpKind::AllToAllV;
    if (op.kind == OpKind::Copy || (moves && place_.experts.axes.empty())) {
      local_[op.outputs[0]] = local_.at(op.inputs[0]);
      return;
    }
    LocalOp local;
    local.kind = op.kind;
    local.index = op.index;
    local.attributes = op.attributes;
    LetterAxes axes = place_.letters;
    at(axes, 's') = {};
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      TensorId id = local_.at(op.inputs[i]);
      if (moves) {
        out_.tensors[id].sharding.partial = {};  // each copy is a row of its own
      } else {
        id = resolve(id, ops);
      }
      local.inputs.push_back(id);
      if (index.inputs[i].starts_with('s')) at(axes, 's') = out_.tensors[id].sharding.axes[0];
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      local.outputs.push_back(define_routed(op, index, index.outputs[i], op.outputs[i], axes));
    }
    if (moves) {
      local.group = row_group(place_);
      local.attributes.stride = row_stride(place_);
    }
    finish_loss(op, local);
    ops.push_back(std::move(local));
  }

  TensorId define_routed(const GraphOp& op, const Index& index, const std::string& letters,
                         TensorId global, const LetterAxes& axes) {
    const Tensor& tensor = block_.tensors[global];
    if (tensor.kind == TensorKind::Scalar) return local_.at(global);
    Sharding sharding;
    sharding.mesh = place_.index_of(letters);
    for (const char letter : letters) {
      sharding.axes.push_back(axes[static_cast<std::size_t>(letter - 'a')]);
    }
    sharding.partial = addends(op.kind, index, letters, axes);
    sharding.combine = Combine::Sum;
    const auto found = local_.find(global);
    if (found == local_.end()) return local_[global] = add_tensor(tensor.name, tensor, sharding);
    Sharding& existing = out_.tensors[found->second].sharding;
    if (tensor.kind == TensorKind::Gradient) existing = sharding;
    MEGA_CHECK(existing.axes == sharding.axes && existing.partial == sharding.partial,
               "contributions to " + tensor.name + " are split differently");
    return found->second;
  }

  // The auxiliary losses: of a whole micro-batch, and counted by one of those who know it.
  void finish_loss(const GraphOp& op, LocalOp& local) const {
    const std::int64_t micro_batch = place_.extents['b'] / extent(place_.mesh, place_.of('b'));
    const auto sequences = static_cast<double>(micro_batch);
    if (op.kind == OpKind::RouteBackward) local.attributes.balance /= sequences;
    if (op.kind != OpKind::BalanceLoss && op.kind != OpKind::RouterZLoss) return;
    if (op.kind == OpKind::BalanceLoss) local.attributes.scale /= sequences;
    const AxisSet copies = split_axes(place_.mesh) - place_.pipeline;
    local.owner = copies - sharded(out_.tensors[local.inputs[0]].sharding);
  }

  void add_parameter(const Parameter& parameter) {
    LocalParameter local;
    local.weight = local_.at(parameter.weight);
    local.gradient = local_.at(parameter.gradient);
    const Sharding& gradient = out_.tensors[local.gradient].sharding;
    const AxisSet zero = gradient.mesh == 0 ? place_.zero : place_.zero_experts;
    const AxisSet scatter = parameter.is_shifted ? AxisSet{} : zero & gradient.partial;
    local.bucket = {.sharded = sharded(gradient),
                    .reduce = gradient.partial,
                    .scatter = scatter,
                    .parts = extent(place_.meshes(gradient.mesh), scatter),
                    .weight_decay = parameter.weight_decay,
                    .is_tied = parameter.is_tied,
                    .is_shifted = parameter.is_shifted,
                    .mesh = gradient.mesh};
    for (const char letter : out_.tensors[local.weight].letters) {
      local.global_shape.push_back(unpadded_[letter]);
    }
    local.initial_is_normal = parameter.initial_is_normal;
    local.initial = parameter.initial;
    out_.parameters.push_back(std::move(local));
  }

  const Block& block_;
  const Placement& place_;
  const Extents& unpadded_;
  PartitionedBlock out_;
  std::map<TensorId, TensorId> local_;     // model tensor -> its present local version
  std::map<TensorId, TensorId> gathered_;  // in this direction
  std::map<TensorId, bool> touched_;       // gradients that have a contribution
  ContextAttention context_;
};

}  // namespace

PartitionedGraph partition(const ModelGraph& graph, const Strategy& strategy) {
  const Placement place = mega::planner::place(graph, strategy);
  PartitionedGraph result;
  result.mesh = place.mesh;
  result.experts = place.experts;
  result.pipeline = place.pipeline;
  result.sequence = place.sequence;
  result.extents = place.extents;
  result.micro_batch = strategy.micro_batch;
  result.zero = strategy.zero;
  result.chain = graph.chain;
  result.layers = graph.layers;
  result.expected_rows = expected_rows(place, graph.imbalance);
  const char stream[] = {'s', 'b', 'h'};
  for (const char letter : stream) {
    const AxisSet axes = letter == 's' ? stream_rows(place) : place.of(letter);
    result.stream_sharding.axes.push_back(axes);
    result.stream_shape.push_back(place.extents[letter] / extent(place.mesh, axes));
  }
  for (const Block& block : graph.kinds) {
    PartitionedBlock local =
        BlockPartitioner(recompute(block, strategy.recompute), place, graph.extents).run();
    if (splits_backward(strategy.schedule)) split_backward(local);
    reuse_buffers(local);
    shard_parameters(local, strategy.zero);
    assign_homes(local);
    result.kinds.add(std::move(local));
  }
  return result;
}

}  // namespace mega::planner
