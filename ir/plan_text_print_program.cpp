#include <cmath>

#include "ir/base/check.h"
#include "ir/base/text.h"
#include "ir/plan_text_printer.h"

namespace mega {

void PlanPrinter::program() {
  put("\nprogram ").name(program_->name);
  put(" persistent=").put(program_->persistent.count());
  put(" scratch=").put(program_->scratch.count());
  put("  # arena ").put(to_string(arena_bytes(*program_))).put("\n");
  for (const Chunk& chunk : program_->chunks) {
    put(" chunk ").name(chunk.name).put(" slots=").put(chunk.slot_count);
    put(" slot_bytes=").put(chunk.slot_bytes.count()).put("\n");
  }
  for (const Buffer& each : program_->buffers) buffer(each);
  for (const Segment& each : program_->segments) segment(each);
  for (const Sequence& each : program_->sequences) sequence(each);
}

void PlanPrinter::buffer(const Buffer& buffer) {
  if (buffer.parent) {
    put(" view ");
  } else if (buffer.region == Region::Persistent) {
    put(" persistent ");
  } else {
    put(buffer.region == Region::Scratch ? " scratch " : " slot ");
  }
  name(buffer.name);
  if (buffer.dtype != DType::Fp32) put(" ").put(name_of(buffer.dtype));
  put(" ");
  shape(buffer.shape);
  if (buffer.parent) {
    put(" in ").name(program_->buffers[buffer.parent].name);
  } else if (buffer.region == Region::Slot && program_->chunks.size() > 1) {
    of_chunk(buffer.chunk);
  }
  put(" @").put(buffer.offset.count());
  if (buffer.move) move(*buffer.move);
  if (buffer.shard) shard(buffer, *buffer.shard);
  put("\n");
}

void PlanPrinter::move(const Move& move) {
  if (move.stride >= 0) put("+");
  put(move.stride).put("*");
  in_mesh(move.mesh);
  axes(mesh(move.mesh), move.axes);
}

void PlanPrinter::shard(const Buffer& buffer, const Shard& shard) {
  switch (shard.role) {
    case Role::Parameter:
      put(" parameter ");
      break;
    case Role::Gradient:
      put(" gradient ");
      break;
    case Role::Activation:
      put(" activation ");
      break;
    case Role::WorkingCopy:
      put(" copy ");
      break;
  }
  // Long names are most of a plan's text.
  if (shard.name == tensor_of(buffer.name)) {
    put("=");
  } else {
    name(shard.name);
  }
  put(" ");
  in_mesh(shard.mesh);
  put("[");
  MEGA_CHECK(shard.axes.size() == shard.global_shape.size(), "shard of " + buffer.name);
  for (std::size_t i = 0; i < shard.global_shape.size(); ++i) {
    if (i > 0) put(",");
    put(shard.global_shape[i]);
    if (shard.axes[i].empty()) continue;
    put("/");
    axes(mesh(shard.mesh), shard.axes[i]);
  }
  put("]");
}

void PlanPrinter::segment(const Segment& segment) {
  put(" segment ").name(segment.name);
  of_chunk(segment.chunk);
  if (segment.predicted_ns != 0) put(" ns=").put(segment.predicted_ns);
  put("\n");
  for (const Op& each : segment.ops) op(each);
}

void PlanPrinter::op(const Op& op) {
  put("  ").put(info(op.kind).name);
  if (op.index != info(op.kind).index) put(":").put(op.index);
  for (const BufferId input : op.inputs) put(" ").name(program_->buffers[input].name);
  put(" ->");
  for (const BufferId output : op.outputs) put(" ").name(program_->buffers[output].name);
  separate_ = true;
  attributes(op);
  origin(op);
  if (op.group) group(*op.group);
  put("\n");
}

void PlanPrinter::flag(std::string_view key, bool value) {
  if (!value) return;
  put(separate_ ? " | " : " ").put(key);
  separate_ = false;
}

void PlanPrinter::real(std::string_view key, double value) {
  const bool is_default = value == 0 && !std::signbit(value);
  flag(key, !is_default);
  if (!is_default) put("=").put(format_real(value));
}

void PlanPrinter::integer(std::string_view key, std::int64_t value) {
  flag(key, value != 0);
  if (value != 0) put("=").put(value);
}

void PlanPrinter::attributes(const Op& op) {
  const Attributes& a = op.attributes;
  real("epsilon", a.epsilon);
  real("scale", a.scale);
  real("theta", a.theta);
  real("value", a.value);
  real("beta1", a.beta1);
  real("beta2", a.beta2);
  real("clip", a.clip);
  real("z", a.z);
  real("balance", a.balance);
  real("factor", a.factor);
  real("ramp_begin", a.ramp_begin);
  real("ramp_end", a.ramp_end);
  integer("limit", a.limit);
  integer("stride", a.stride);
  integer("length", a.length);
  integer("parts", a.parts);
  integer("shift", a.shift);
  integer("groups", a.groups);
  integer("group_limit", a.group_limit);
  flag("causal", a.causal);
  flag("inverse", a.inverse);
  flag("interleaved", a.interleaved);
  flag("decay", a.decay);
  flag("sigmoid", a.sigmoid);
  flag("over_all", a.over_all);
  flag("normalize", a.normalize);
  flag("by_frequency", a.by_frequency);
  flag("sum", a.combine == Combine::Sum);
  flag("max", a.combine == Combine::Max);
  accumulate(a.accumulate);
}

// A bare "accumulate" is the common case of one output; else the outputs are listed.
void PlanPrinter::accumulate(std::uint32_t mask) {
  flag("accumulate", mask != 0);
  if (mask <= 1) return;
  char separator = '=';
  for (int bit = 0; bit < 32; ++bit) {
    if ((mask >> static_cast<unsigned>(bit) & 1U) == 0) continue;
    out_ += separator;
    put(bit);
    separator = '+';
  }
}

void PlanPrinter::origin(const Op& op) {
  if (op.mesh != 0) {
    flag("mesh", true);
    put("=").name(mesh(op.mesh).name);
  }
  if (!op.origin.empty()) flag("origin", true);
  for (std::size_t i = 0; i < op.origin.size(); ++i) {
    put(i == 0 ? "=" : ",").put(op.origin[i].stride).put("*");
    axes(mesh(op.mesh), op.origin[i].axes);
  }
  if (!op.owner.empty()) {
    flag("owner", true);
    put("=");
    axes(mesh(op.mesh), op.owner);
  }
}

void PlanPrinter::group(const Group& group) {
  flag("along", true);
  put("=");
  in_mesh(group.mesh);
  axes(mesh(group.mesh), group.along);
  for (std::size_t i = 0; i < group.only.size(); ++i) {
    put(i == 0 ? "{" : ",").put(group.only[i]);
  }
  if (!group.only.empty()) put("}");
}

}  // namespace mega
