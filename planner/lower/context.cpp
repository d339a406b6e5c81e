#include "planner/lower/context.h"

#include <string>
#include <utility>

#include "ir/base/check.h"

namespace mega::planner {
namespace {

// Inputs of attention are q, k, v, those of its backward do, q, k, v, o, lse.
std::size_t keys_of(const LocalOp& op) {
  return op.kind == OpKind::Attention ? 1 : 2;
}

bool is_of_log_sums(const LocalTensor& tensor) {
  return tensor.letters == "sbgr";
}

}  // namespace

void place_rows(const Placement& placement, AxisSet rows, LocalOp& op) {
  if (!rows.contains(placement.sequence) || placement.sequence.empty()) return;
  op.attributes.length = placement.extents['s'];
  if (placement.context != ContextKind::Ulysses) {
    op.attributes.parts = extent(placement.mesh, placement.sequence);
  }
}

void ContextAttention::lower(const LocalOp& op, std::vector<LocalOp>& ops) {
  ops_ = &ops;
  if (place_.context == ContextKind::Ulysses) return by_heads(op);
  if (place_.context == ContextKind::AllGather) return gathered(op);
  op.kind == OpKind::Attention ? ring(op) : ring_backward(op);
}

TensorId ContextAttention::like(TensorId id, const std::string& suffix) {
  LocalTensor tensor = block_.tensors[id];
  tensor.name = unused_name(block_, tensor.name + suffix);
  return block_.tensors.add(std::move(tensor));
}

TensorId ContextAttention::collective(OpKind kind, TensorId in, TensorId out) {
  LocalOp op;
  op.kind = kind;
  const std::string& letters = block_.tensors[in].letters;
  op.index =
      kind == OpKind::RingShift ? letters + "->" + letters : letters + "->z" + letters.substr(1);
  op.inputs = {in};
  op.outputs = {out};
  if (kind == OpKind::ReduceScatter) op.attributes.combine = Combine::Sum;
  op.group = Group{.mesh = 0, .along = place_.sequence, .only = {}};
  ops_->push_back(std::move(op));
  return out;
}

TensorId ContextAttention::whole_rows(TensorId id) {
  const TensorId whole = like(id, ".whole");
  LocalTensor& tensor = block_.tensors[whole];
  tensor.sharding.axes[0] = {};
  tensor.shape[0] *= extent(place_.mesh, place_.sequence);
  return whole;
}

TensorId ContextAttention::moved_on(TensorId id) {
  return collective(OpKind::RingShift, id, like(id, ".next"));
}

void ContextAttention::gathered(const LocalOp& op) {
  LocalOp whole = op;
  const std::size_t keys = keys_of(op);
  for (const std::size_t i : {keys, keys + 1}) {
    whole.inputs[i] = collective(OpKind::AllGather, op.inputs[i], whole_rows(op.inputs[i]));
  }
  for (std::size_t i = 1; op.kind == OpKind::AttentionBackward && i < 3; ++i) {
    whole.outputs[i] = whole_rows(op.outputs[i]);
  }
  ops_->push_back(whole);
  for (std::size_t i = 1; op.kind == OpKind::AttentionBackward && i < 3; ++i) {
    collective(OpKind::ReduceScatter, whole.outputs[i], op.outputs[i]);
  }
}

void ContextAttention::ring(const LocalOp& op) {
  LocalOp step = op;
  for (int i = 0; i < extent(place_.mesh, place_.sequence); ++i) {
    if (i > 0) {
      step.inputs[1] = moved_on(step.inputs[1]);
      step.inputs[2] = moved_on(step.inputs[2]);
      step.attributes.accumulate = 3;
      step.attributes.shift = i;
    }
    ops_->push_back(step);
  }
}

void ContextAttention::ring_backward(const LocalOp& op) {
  LocalOp step = op;
  TensorId dk = like(op.outputs[1], ".ring"), dv = like(op.outputs[2], ".ring");
  for (int i = 0; i < extent(place_.mesh, place_.sequence); ++i) {
    if (i > 0) {
      step.inputs[2] = moved_on(step.inputs[2]);
      step.inputs[3] = moved_on(step.inputs[3]);
      dk = moved_on(dk);
      dv = moved_on(dv);
      step.attributes.accumulate = 7;
      step.attributes.shift = i;
    }
    step.outputs = {op.outputs[0], dk, dv};
    ops_->push_back(step);
  }
  collective(OpKind::RingShift, dk, op.outputs[1]);
  collective(OpKind::RingShift, dv, op.outputs[2]);
}

// [s/cp, b, g, ...] -> [cp, s/cp, b, g/cp, ...], which the exchange turns into [s, b, g/cp, ...].
TensorId ContextAttention::packed(TensorId rows) {
  const int parts = extent(place_.mesh, place_.sequence);
  const TensorId id = like(rows, ".packed");
  LocalTensor& tensor = block_.tensors[id];
  tensor.letters = "xsby" + tensor.letters.substr(3);
  tensor.shape[2] /= parts;
  tensor.shape.insert(tensor.shape.begin(), parts);
  tensor.sharding.axes.insert(tensor.sharding.axes.begin(), AxisSet{});
  return id;
}

TensorId ContextAttention::as_heads(TensorId rows) {
  const int parts = extent(place_.mesh, place_.sequence);
  const TensorId id = like(rows, ".heads");
  LocalTensor& tensor = block_.tensors[id];
  MEGA_CHECK(tensor.shape[2] % parts == 0, "heads don't split over the ranks of the sequence");
  tensor.shape[0] *= parts;
  tensor.shape[2] /= parts;
  tensor.sharding.axes[2] = tensor.sharding.axes[2] | place_.sequence;
  tensor.sharding.axes[0] = {};
  return heads_[rows] = id;
}

TensorId ContextAttention::to_heads(TensorId rows) {
  if (const auto found = heads_.find(rows); found != heads_.end()) return found->second;
  const TensorId parts = packed(rows);
  LocalOp pack;
  pack.kind = OpKind::Pack;
  pack.index = block_.tensors[rows].letters + "->" + block_.tensors[parts].letters;
  pack.inputs = {rows};
  pack.outputs = {parts};
  ops_->push_back(std::move(pack));
  return collective(OpKind::AllToAll, parts, as_heads(rows));
}

void ContextAttention::from_heads(TensorId heads, TensorId rows) {
  const TensorId parts = packed(rows);
  collective(OpKind::AllToAll, heads, parts);
  LocalOp unpack;
  unpack.kind = OpKind::Unpack;
  unpack.index = block_.tensors[parts].letters + "->" + block_.tensors[rows].letters;
  unpack.inputs = {parts};
  unpack.outputs = {rows};
  ops_->push_back(std::move(unpack));
}

void ContextAttention::by_heads(const LocalOp& op) {
  LocalOp whole = op;
  whole.attributes.length = whole.attributes.parts = 0;  // every rank sees all rows, in order
  whole.origin.clear();
  for (TensorId& input : whole.inputs) input = to_heads(input);
  for (TensorId& output : whole.outputs) output = as_heads(output);
  const std::vector<TensorId> heads = whole.outputs;
  ops_->push_back(std::move(whole));
  for (std::size_t i = 0; i < heads.size(); ++i) {
    // Only backward reads the log-sum-exps, and it reads them by heads.
    if (!is_of_log_sums(block_.tensors[op.outputs[i]])) from_heads(heads[i], op.outputs[i]);
  }
}

}  // namespace mega::planner
