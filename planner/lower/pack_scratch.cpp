#include "planner/lower/pack_scratch.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace mega::planner {
namespace {

// First and last op that touches a tensor; forward ops count 0 .. n-1, those of backward and of
// the weight gradient follow.
struct Range {
  int first = -1;
  int last = -1;
};

std::vector<Range> live_ranges(const PartitionedBlock& block) {
  std::vector<Range> ranges(block.tensors.size());
  int position = 0;
  const auto visit = [&](const LocalOp& op) {
    for (const auto* operands : {&op.inputs, &op.outputs}) {
      for (const TensorId operand : *operands) {
        // A view keeps what it views alive.
        for (TensorId id = operand; id; id = block.tensors[id].parent) {
          Range& range = ranges[static_cast<std::size_t>(id.index)];
          if (range.first < 0) range.first = position;
          range.last = position;
        }
      }
    }
    ++position;
  };
  for (const LocalOp& op : block.forward) visit(op);
  for (const LocalOp& op : block.backward) visit(op);
  for (const LocalOp& op : block.weight_gradient) visit(op);
  return ranges;
}

// Pairs (input, output) that an op's kernel allows to be one buffer.
std::vector<std::pair<std::size_t, std::size_t>> reusable(const LocalOp& op) {
  switch (op.kind) {
    case OpKind::AddBias:
    case OpKind::Rope:
    case OpKind::CrossEntropyBackward:
    case OpKind::SwiGluBackward:
    case OpKind::GeGluBackward:
    case OpKind::Scale:
    case OpKind::Clip:
    case OpKind::SoftCap:
    case OpKind::GroupedSwiGluBackward:
    case OpKind::GroupedGeGluBackward:
      return {{0, 0}};
    case OpKind::Add:
      return {{1, 0}, {0, 0}};
    case OpKind::GeluBackward:
    case OpKind::GeluTanhBackward:
    case OpKind::Relu2Backward:
    case OpKind::ClipBackward:
    case OpKind::SoftCapBackward:
      return {{0, 0}, {1, 0}};
    default:
      return {};
  }
}

bool is_pinned(const PartitionedBlock& block, TensorId id) {
  for (const LocalParameter& parameter : block.parameters) {
    if (id == parameter.weight || id == parameter.gradient) return true;
  }
  return block.tensors[id].letters.empty() || id == block.input || id == block.output_gradient;
}

void replace_everywhere(PartitionedBlock& block, TensorId from, TensorId to) {
  for (auto* ops : {&block.forward, &block.backward, &block.weight_gradient}) {
    for (LocalOp& op : *ops) {
      std::replace(op.inputs.begin(), op.inputs.end(), from, to);
      std::replace(op.outputs.begin(), op.outputs.end(), from, to);
    }
  }
}

bool try_reuse(PartitionedBlock& block, const LocalOp& op, int position) {
  const std::vector<Range> ranges = live_ranges(block);
  for (const auto& [i, o] : reusable(op)) {
    const TensorId in = op.inputs[i];
    const TensorId out = op.outputs[o];
    if (in == out || is_pinned(block, in) || is_pinned(block, out)) continue;
    if (in == block.output || in == block.input_gradient) continue;  // read by another block
    if (ranges[static_cast<std::size_t>(in.index)].last != position) continue;
    if (ranges[static_cast<std::size_t>(out.index)].first != position) continue;
    const LocalTensor& a = block.tensors[in];
    const LocalTensor& b = block.tensors[out];
    if (a.shape != b.shape || a.dtype != b.dtype) continue;
    // Named after what forward put there ("logits", though backward leaves its gradient).
    if (op.kind == OpKind::CrossEntropyBackward) block.tensors[out].name = a.name;
    replace_everywhere(block, in, out);
    return true;
  }
  return false;
}

// Drops tensors that no op and no interface of the block uses any more.
void drop_unused(PartitionedBlock& block) {
  const std::vector<Range> ranges = live_ranges(block);
  std::vector<TensorId> renamed(block.tensors.size());
  Table<TensorId, LocalTensor> kept;
  for (std::size_t i = 0; i < block.tensors.size(); ++i) {
    const TensorId id{static_cast<std::int32_t>(i)};
    const bool is_used = ranges[i].first >= 0 || is_pinned(block, id) || id == block.output;
    if (is_used) renamed[i] = kept.add(block.tensors[id]);
  }
  const auto rename = [&](TensorId& id) {
    if (id) id = renamed[static_cast<std::size_t>(id.index)];
  };
  for (auto* ops : {&block.forward, &block.backward, &block.weight_gradient}) {
    for (LocalOp& op : *ops) {
      for (TensorId& id : op.inputs) rename(id);
      for (TensorId& id : op.outputs) rename(id);
    }
  }
  for (LocalParameter& parameter : block.parameters) {
    rename(parameter.weight);
    rename(parameter.gradient);
  }
  for (TensorId* id :
       {&block.input, &block.output, &block.input_gradient, &block.output_gradient}) {
    rename(*id);
  }
  block.tensors = std::move(kept);
}

std::int64_t aligned_bytes(const LocalTensor& tensor) {
  return round_up(bytes_of(tensor.dtype, tensor.shape).count(), kBufferAlignmentBytes);
}

// Offsets for the scratch tensors whose range lies in [begin, end); the bytes needed.
Bytes pack(PartitionedBlock& block, const std::vector<Range>& ranges, int begin, int end) {
  std::vector<TensorId> order;
  for (std::size_t i = 0; i < block.tensors.size(); ++i) {
    const TensorId id{static_cast<std::int32_t>(i)};
    const bool is_here = ranges[i].first >= begin && ranges[i].first < end;
    if (is_here && block.tensors[id].home == Home::Scratch) order.push_back(id);
  }
  std::stable_sort(order.begin(), order.end(), [&](TensorId a, TensorId b) {
    return aligned_bytes(block.tensors[a]) > aligned_bytes(block.tensors[b]);
  });
  std::vector<TensorId> placed;
  std::int64_t top = 0;
  for (const TensorId id : order) {
    const Range& range = ranges[static_cast<std::size_t>(id.index)];
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const TensorId other : placed) {
      const Range& lives = ranges[static_cast<std::size_t>(other.index)];
      if (lives.first > range.last || lives.last < range.first) continue;
      const std::int64_t start = block.tensors[other].offset.count();
      taken.emplace_back(start, start + aligned_bytes(block.tensors[other]));
    }
    std::sort(taken.begin(), taken.end());
    const std::int64_t size = aligned_bytes(block.tensors[id]);
    std::int64_t offset = 0;
    for (const auto& [start, stop] : taken) {
      if (start >= offset + size) break;
      offset = std::max(offset, stop);
    }
    block.tensors[id].offset = Bytes(offset);
    top = std::max(top, offset + size);
    placed.push_back(id);
  }
  return Bytes(top);
}

}  // namespace

void reuse_buffers(PartitionedBlock& block) {
  int position = 0;
  for (auto* ops : {&block.forward, &block.backward, &block.weight_gradient}) {
    for (std::size_t i = 0; i < ops->size(); ++i, ++position) {
      try_reuse(block, (*ops)[i], position);
    }
  }
  drop_unused(block);
}

void assign_homes(PartitionedBlock& block) {
  const std::vector<Range> ranges = live_ranges(block);
  const int forward_ops = static_cast<int>(block.forward.size());
  const int backward_end = forward_ops + static_cast<int>(block.backward.size());
  const int all_ops = backward_end + static_cast<int>(block.weight_gradient.size());
  const auto pass_of = [&](int op) { return op < forward_ops ? 0 : op < backward_end ? 1 : 2; };
  std::map<TensorId, Home> fixed;
  for (const LocalParameter& parameter : block.parameters) {
    fixed[parameter.weight] = Home::Parameter;
    fixed[parameter.gradient] = Home::Gradient;
  }
  if (block.input) fixed[block.input] = Home::Stream;
  if (block.output) fixed[block.output] = Home::NextStream;
  if (block.output_gradient) fixed[block.output_gradient] = Home::StreamGradient;
  if (block.input_gradient) fixed[block.input_gradient] = Home::StreamGradient;
  for (std::size_t i = 0; i < block.tensors.size(); ++i) {
    const TensorId id{static_cast<std::int32_t>(i)};
    LocalTensor& tensor = block.tensors[id];
    const auto found = fixed.find(id);
    const bool has_home = tensor.home == Home::View || tensor.home == Home::WeightShard ||
                          tensor.home == Home::GradientShard;
    if (has_home) continue;  // by shard_parameters
    if (found != fixed.end()) {
      tensor.home = found->second;
    } else if (tensor.letters.empty()) {
      tensor.home = Home::Scalar;
    } else if (pass_of(ranges[i].first) != pass_of(ranges[i].last)) {
      tensor.home = Home::Saved;
      tensor.offset = block.saved;
      block.saved += Bytes(aligned_bytes(tensor));
    } else {
      tensor.home = Home::Scratch;
    }
  }
  block.forward_scratch = pack(block, ranges, 0, forward_ops);
  block.backward_scratch = pack(block, ranges, forward_ops, backward_end);
  block.weight_scratch = pack(block, ranges, backward_end, all_ops);
}

}  // namespace mega::planner
