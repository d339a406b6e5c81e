// Small changes of a plan, each of a kind that a slip of the planner could make. Seeded, so that a
// mutant is named by its plan and number.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/plan.h"

namespace mega::testing {

enum class Mutation : std::uint8_t {
  DropInstruction,
  SwapInstructions,
  RunAnother,
  Waits,
  Transfers,
  MicroBatch,
  Count,
  DropOp,
  RepeatOp,
  SwapOps,
  Operand,
  Result,
  Group,
  Origin,
  Attribute,
  Shape,
  Offset,
  Slots,
};
inline constexpr int kMutations = static_cast<int>(Mutation::Slots) + 1;

inline const char* name_of(Mutation kind) {
  constexpr std::array<const char*, kMutations> kNames = {"drop_instruction",
                                                          "swap_instructions",
                                                          "run_another",
                                                          "waits",
                                                          "transfers",
                                                          "micro_batch",
                                                          "count",
                                                          "drop_op",
                                                          "repeat_op",
                                                          "swap_ops",
                                                          "operand",
                                                          "result",
                                                          "group",
                                                          "origin",
                                                          "attribute",
                                                          "shape",
                                                          "offset",
                                                          "slots"};
  return kNames[static_cast<std::size_t>(kind)];
}

// Changes one thing of a plan, somewhere.
class Mutator {
 public:
  Mutator(Plan plan, std::uint64_t seed) : original_(std::move(plan)), random_(seed) {}

  struct Mutant {
    Plan plan;
    std::string what;  // "stage0 f0 op 3, matmul: drop_op"
  };
  // Nothing where the plan has no place for it, or the change is none.
  std::optional<Mutant> draw(Mutation kind) {
    plan_ = original_;
    what_.clear();
    program_ = &plan_.programs[below(plan_.programs.size())];
    change(kind);
    if (plan_ == original_) return std::nullopt;
    return Mutant{std::move(plan_), program_->name + " " + what_ + ": " + name_of(kind)};
  }

 private:
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }
  bool coin() { return random_() % 2 == 0; }

  void change(Mutation kind) {
    switch (kind) {
      case Mutation::DropInstruction:
      case Mutation::SwapInstructions:
        return order(kind == Mutation::DropInstruction);
      case Mutation::RunAnother:
      case Mutation::Waits:
      case Mutation::Transfers:
      case Mutation::MicroBatch:
        return instruction(kind);
      case Mutation::Count:
        return count();
      case Mutation::DropOp:
      case Mutation::RepeatOp:
      case Mutation::SwapOps:
      case Mutation::Operand:
      case Mutation::Result:
      case Mutation::Group:
      case Mutation::Origin:
      case Mutation::Attribute:
        return op(kind);
      case Mutation::Shape:
      case Mutation::Offset:
        return buffer(kind);
      case Mutation::Slots:
        return slots();
    }
  }

  // ---- sequences ----
  std::vector<Step>& train() {
    for (Sequence& sequence : program_->sequences) {
      if (sequence.name == "train") return sequence.steps;
    }
    return program_->sequences.front().steps;
  }

  void order(bool drops) {
    std::vector<Step>* steps = &train();
    std::size_t i = below(steps->size());
    what_ = "step " + std::to_string(i + 1);
    auto* repeat = std::get_if<Repeat>(&(*steps)[i]);
    if (repeat != nullptr) {
      const std::size_t inner = below(repeat->body.size());
      what_ += "." + std::to_string(inner + 1);
      if (drops) {
        repeat->body.erase(repeat->body.begin() + static_cast<std::ptrdiff_t>(inner));
        if (repeat->body.empty()) steps->erase(steps->begin() + static_cast<std::ptrdiff_t>(i));
      } else if (inner + 1 < repeat->body.size()) {
        std::swap(repeat->body[inner], repeat->body[inner + 1]);
      }
      return;
    }
    if (drops) {
      steps->erase(steps->begin() + static_cast<std::ptrdiff_t>(i));
    } else if (i + 1 < steps->size()) {
      std::swap((*steps)[i], (*steps)[i + 1]);
    }
  }

  std::vector<Instruction*> row() {
    std::vector<Instruction*> all;
    for (Step& step : train()) {
      if (auto* one = std::get_if<Instruction>(&step)) all.push_back(one);
      if (auto* repeat = std::get_if<Repeat>(&step)) {
        for (Instruction& each : repeat->body) all.push_back(&each);
      }
    }
    return all;
  }

  void instruction(Mutation kind) {
    std::vector<Instruction*> candidates;
    for (Instruction* each : row()) {
      const bool transfers = std::holds_alternative<Exchange>(each->body);
      const bool fits = kind == Mutation::Waits       ? !each->waits.empty()
                        : kind == Mutation::Transfers ? transfers
                        : kind == Mutation::RunAnother
                            ? !transfers
                            : transfers || std::get<Run>(each->body).micro_batch.has_value();
      if (fits) candidates.push_back(each);
    }
    if (candidates.empty()) return;
    const std::size_t i = below(candidates.size());
    what_ = "instruction " + std::to_string(i + 1) + " of these";
    Instruction& chosen = *candidates[i];
    if (kind == Mutation::Waits) return waits(chosen);
    if (kind == Mutation::Transfers) return transfers(std::get<Exchange>(chosen.body));
    if (kind == Mutation::MicroBatch) return micro_batch(chosen);
    Run& run = std::get<Run>(chosen.body);
    run.segment.index = static_cast<int>(below(program_->segments.size()));
  }

  void waits(Instruction& chosen) {
    const std::size_t w = below(chosen.waits.size());
    switch (below(3)) {
      case 0:
        chosen.waits.erase(chosen.waits.begin() + static_cast<std::ptrdiff_t>(w));
        break;
      case 1:
        ++chosen.waits[w].behind;
        break;
      default:
        chosen.waits[w].queue.index = static_cast<int>(below(plan_.queues.size()));
    }
  }

  void transfers(Exchange& exchange) {
    const std::size_t t = below(exchange.transfers.size());
    Transfer& transfer = exchange.transfers[t];
    switch (below(4)) {
      case 0:
        transfer.hop += coin() ? 1 : -1;
        break;
      case 1:
        transfer.is_send = !transfer.is_send;
        break;
      case 2:
        transfer.buffer = alike(transfer.buffer);
        break;
      default:
        exchange.transfers.erase(exchange.transfers.begin() + static_cast<std::ptrdiff_t>(t));
    }
  }

  void micro_batch(Instruction& chosen) {
    const std::int64_t by = coin() ? 1 : -1;
    const bool is_slot = coin();
    const auto shift = [&](auto& of) {
      std::optional<Affine>& value = is_slot ? of.slot : of.micro_batch;
      if (value) value->base += by;
    };
    if (auto* run = std::get_if<Run>(&chosen.body)) return shift(*run);
    auto& all = std::get<Exchange>(chosen.body).transfers;
    if (!all.empty()) shift(all[below(all.size())]);
  }

  void count() {
    std::vector<Repeat*> loops;
    for (Step& step : train()) {
      if (auto* repeat = std::get_if<Repeat>(&step)) loops.push_back(repeat);
    }
    if (loops.empty()) return;
    loops[below(loops.size())]->count += coin() ? 1 : -1;
    what_ = "loop";
  }

  // ---- ops ----
  void op(Mutation kind) {
    std::vector<std::pair<SegmentId, std::size_t>> places;
    for (std::size_t s = 0; s < program_->segments.size(); ++s) {
      const SegmentId id{static_cast<std::int32_t>(s)};
      for (std::size_t i = 0; i < program_->segments[id].ops.size(); ++i) {
        const Op& each = program_->segments[id].ops[i];
        const bool fits = kind == Mutation::Group     ? each.group.has_value()
                          : kind == Mutation::Operand ? !each.inputs.empty()
                          : kind == Mutation::Origin  ? !each.origin.empty() || !each.owner.empty()
                                                      : true;
        if (fits) places.emplace_back(id, i);
      }
    }
    if (places.empty()) return;
    const auto [segment, i] = places[below(places.size())];
    std::vector<Op>& ops = program_->segments[segment].ops;
    what_ = program_->segments[segment].name + " op " + std::to_string(i + 1) + ", " +
            std::string(info(ops[i].kind).name);
    const auto here = ops.begin() + static_cast<std::ptrdiff_t>(i);
    switch (kind) {
      case Mutation::DropOp:
        ops.erase(here);
        return;
      case Mutation::RepeatOp:
        ops.insert(here, Op(ops[i]));
        return;
      case Mutation::SwapOps:
        if (i + 1 < ops.size()) std::swap(ops[i], ops[i + 1]);
        return;
      case Mutation::Operand:
        return replace(ops[i].inputs);
      case Mutation::Result:
        return replace(ops[i].outputs);
      case Mutation::Group:
        return group(*ops[i].group);
      case Mutation::Origin:
        return origin(ops[i]);
      default:
        return attribute(ops[i]);
    }
  }

  void replace(std::vector<BufferId>& operands) {
    BufferId& operand = operands[below(operands.size())];
    operand = alike(operand);
    what_ += " " + program_->buffers[operand].name;
  }

  // Another buffer of the same type and shape.
  BufferId alike(BufferId id) {
    const Buffer& original = program_->buffers[id];
    std::vector<BufferId> all;
    for (std::size_t b = 0; b < program_->buffers.size(); ++b) {
      const BufferId other{static_cast<std::int32_t>(b)};
      const Buffer& buffer = program_->buffers[other];
      const bool fits = other != id && buffer.dtype == original.dtype &&
                        buffer.shape == original.shape && buffer.chunk == original.chunk;
      if (fits) all.push_back(other);
    }
    return all.empty() ? id : all[below(all.size())];
  }

  void group(Group& group) {
    const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(group.mesh)];
    const auto axis = AxisSet::of(static_cast<int>(below(mesh.axes.size())));
    switch (below(3)) {
      case 0:
        group.along = group.along.contains(axis) ? group.along - axis : group.along | axis;
        break;
      case 1:
        group.along = axis;
        break;
      default:
        group.mesh = static_cast<int>(below(plan_.meshes.size()));
        group.only.clear();
    }
  }

  void origin(Op& op) {
    const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(op.mesh)];
    const auto axis = AxisSet::of(static_cast<int>(below(mesh.axes.size())));
    if (!op.owner.empty() && (op.origin.empty() || coin())) {
      op.owner = coin() ? AxisSet{} : axis;
      return;
    }
    OriginTerm& term = op.origin[below(op.origin.size())];
    switch (below(3)) {
      case 0:
        op.origin.clear();
        break;
      case 1:
        term.stride = term.stride / 2;
        break;
      default:
        term.axes = axis;
    }
  }

  void attribute(Op& op) {
    Attributes& a = op.attributes;
    const std::array<double*, 12> reals = {&a.epsilon, &a.scale, &a.theta,      &a.value,
                                           &a.beta1,   &a.beta2, &a.clip,       &a.factor,
                                           &a.balance, &a.z,     &a.ramp_begin, &a.ramp_end};
    const std::array<std::int64_t*, 7> integers = {&a.limit, &a.stride, &a.length,     &a.parts,
                                                   &a.shift, &a.groups, &a.group_limit};
    std::vector<std::function<void()>> changes;
    for (double* real : reals) {
      if (*real != 0) changes.emplace_back([real] { *real *= 0.75; });
    }
    for (std::int64_t* integer : integers) {
      if (*integer != 0) {
        changes.emplace_back([integer] { --*integer; });
        changes.emplace_back([integer] { *integer = 0; });
      }
    }
    if (a.accumulate != 0) changes.emplace_back([&] { a.accumulate &= a.accumulate - 1; });
    if (a.accumulate == 0 && info(op.kind).can_accumulate != 0) {
      changes.emplace_back([&] { a.accumulate = 1; });
    }
    if (op.kind == OpKind::Attention || op.kind == OpKind::AttentionBackward) {
      changes.emplace_back([&] { a.causal = !a.causal; });
    }
    if (op.kind == OpKind::Rope) {
      changes.emplace_back([&] { a.inverse = !a.inverse; });
      changes.emplace_back([&] { a.interleaved = !a.interleaved; });
    }
    if (op.kind == OpKind::AdamW || op.kind == OpKind::Sgd) {
      changes.emplace_back([&] { a.decay = !a.decay; });
    }
    if (op.kind == OpKind::Route || op.kind == OpKind::RouteBackward) {
      changes.emplace_back([&] { a.sigmoid = !a.sigmoid; });
      changes.emplace_back([&] { a.over_all = !a.over_all; });
      changes.emplace_back([&] { a.normalize = !a.normalize; });
    }
    if (a.combine != Combine::None) {
      changes.emplace_back(
          [&] { a.combine = a.combine == Combine::Sum ? Combine::Max : Combine::Sum; });
    }
    if (!changes.empty()) changes[below(changes.size())]();
  }

  // ---- memory ----
  void buffer(Mutation kind) {
    const BufferId id{static_cast<std::int32_t>(below(program_->buffers.size()))};
    Buffer& chosen = program_->buffers[id];
    what_ = "buffer " + chosen.name;
    if (kind == Mutation::Shape) {
      if (coin() && chosen.dtype == DType::Fp64) {
        chosen.dtype = DType::Fp32;
      } else if (!chosen.shape.empty()) {
        std::int64_t& size = chosen.shape[below(chosen.shape.size())];
        if (size > 1) --size;
      }
      return;
    }
    switch (below(3)) {
      case 0: {
        const BufferId other{static_cast<std::int32_t>(below(program_->buffers.size()))};
        const Buffer& target = program_->buffers[other];
        if (target.region == chosen.region && !target.parent && !chosen.parent) {
          chosen.offset = target.offset;
        }
        break;
      }
      case 1:
        chosen.offset += Bytes(kBufferAlignmentBytes);
        break;
      default:
        if (chosen.offset.count() >= kBufferAlignmentBytes) {
          chosen.offset -= Bytes(kBufferAlignmentBytes);
        }
    }
  }

  void slots() {
    if (program_->chunks.empty()) return;
    Chunk& chunk = program_->chunks[below(program_->chunks.size())];
    what_ = "chunk " + chunk.name;
    if (coin()) {
      if (chunk.slot_count > 1) --chunk.slot_count;
    } else {
      chunk.slot_bytes -= Bytes(kBufferAlignmentBytes);
    }
  }

  Plan original_;
  std::mt19937_64 random_;
  Plan plan_;
  Program* program_ = nullptr;
  std::string what_;
};

}  // namespace mega::testing
