// Random well-formed plans for the laws of the plan's text: every field takes odd values, names
// take odd characters. Such a plan parses; it makes no sense and does not verify.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>

#include "ir/plan.h"

namespace mega::testing {

class RandomPlan {
 public:
  explicit RandomPlan(std::uint64_t seed) : state_(seed * 2 + 1) {}

  Plan plan() {
    Plan plan;
    header(plan.header);
    plan.meshes.push_back({"dense " + name(), {{"a b", 2}, {"tp", 3}, {name("x"), 1}}});
    plan.meshes.push_back({"expert", {{"ep", 3}, {"e#2", 2}}});
    for (int i = 0; i <= pick(3); ++i) plan.queues.push_back(name("q" + std::to_string(i)));
    for (int i = 0; i <= pick(3); ++i) plan.programs.push_back(program(plan, i));
    plan.by = AxisSet{static_cast<std::uint32_t>(pick(7))};
    const int positions = extent(plan.meshes[0], plan.by);
    for (int i = 0; i < positions; ++i) {
      plan.assignment.push_back(pick(static_cast<int>(plan.programs.size()) - 1));
    }
    return plan;
  }

 private:
  // 0 .. most; the high bits of a linear congruential generator (Knuth's MMIX constants).
  int pick(int most) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<int>((state_ >> 33U) % (static_cast<std::uint64_t>(most) + 1));
  }
  bool coin() { return pick(1) == 1; }
  double real() {
    constexpr double kReals[] = {0, 1, -0.0, 0.1, 1e-300, 3e38, -2.5, 1.0 / 3, 6.02214076e23};
    return kReals[pick(static_cast<int>(std::size(kReals)) - 1)];
  }
  std::string name(const std::string& unique = "") {
    static const char* const kParts[] = {"w", "a b", "\"", "#",   "\n", "\\x", "é",   "→",    "->",
                                         "=", "-",   ":",  "/",   "%",  "in",  "i",   "\x01", "\t",
                                         "'", "mb=", "3",  "a.b", ",",  "|",   "end", "+",    "@"};
    std::string text = unique;
    for (int i = pick(4); i >= 0; --i)
      text += kParts[pick(static_cast<int>(std::size(kParts)) - 1)];
    return text;
  }

  void header(Header& header) {
    header.job = name();
    header.fingerprint = coin() ? "" : "0a1b";
    for (int i = 0; i < pick(5); ++i) header.entries.push_back({name(std::to_string(i)), name()});
    header.predicted_step_ns = pick(1 << 30);
    header.model_flops_per_step = real();
    header.peak_flops_per_rank = real();
    header.precision = name();
    header.seed = pick(100) - 50;
    header.global_batch = pick(1000);
    header.sequence_length = pick(9000);
    header.vocab = pick(50000);
    header.threads_per_rank = 1 + pick(7);
    header.weight_decay = real();
    header.schedule = {coin() ? "constant" : "inverse_sqrt", real(), real(), pick(9), pick(99)};
  }

  AxisSet axes(const Mesh& mesh) {
    return AxisSet{static_cast<std::uint32_t>(pick((1 << mesh.axes.size()) - 1))};
  }

  Program program(const Plan& plan, int number) {
    Program program;
    program.name = name("p" + std::to_string(number));
    program.persistent = Bytes(pick(1 << 20) * 64);
    program.scratch = Bytes(pick(1 << 20) * 64);
    for (int i = 0; i < pick(3); ++i) {
      program.chunks.push_back({name("c" + std::to_string(i)), Bytes(pick(99) * 64), pick(9)});
    }
    for (int i = 0; i < 3 + pick(9); ++i) program.buffers.add(buffer(plan, program, i));
    for (int i = 0; i < 1 + pick(4); ++i) program.segments.add(segment(plan, program, i));
    for (int i = 0; i < 1 + pick(2); ++i) program.sequences.push_back(sequence(plan, program, i));
    return program;
  }

  Buffer buffer(const Plan& plan, const Program& program, int number) {
    Buffer buffer;
    buffer.name = name("b" + std::to_string(number));
    buffer.dtype = static_cast<DType>(pick(2));
    for (int i = 0; i < pick(3); ++i) buffer.shape.push_back(1 + pick(99));
    buffer.offset = Bytes(pick(1 << 30));
    buffer.region = static_cast<Region>(pick(program.chunks.empty() ? 1 : 2));
    if (buffer.region == Region::Slot) {
      buffer.chunk = pick(static_cast<int>(program.chunks.size()) - 1);
    }
    if (number > 0 && coin()) {
      buffer.parent = BufferId{pick(number - 1)};
      buffer.region = program.buffers[buffer.parent].region;
      buffer.chunk = program.buffers[buffer.parent].chunk;
      if (coin()) {
        const int mesh = pick(1);
        buffer.move = Move{mesh, axes(plan.meshes[static_cast<std::size_t>(mesh)]),
                           pick(1 << 20) - (1 << 19)};
      }
    }
    if (coin()) buffer.shard = shard(plan, buffer);
    return buffer;
  }

  Shard shard(const Plan& plan, const Buffer& buffer) {
    Shard shard;
    shard.role = static_cast<Role>(pick(3));
    shard.name = coin() ? buffer.name : name();
    shard.mesh = pick(1);
    for (int i = 0; i < pick(3); ++i) {
      shard.global_shape.push_back(1 + pick(500));
      shard.axes.push_back(axes(plan.meshes[static_cast<std::size_t>(shard.mesh)]));
    }
    return shard;
  }

  BufferId any_buffer(const Program& program) {
    return BufferId{pick(static_cast<int>(program.buffers.size()) - 1)};
  }

  Segment segment(const Plan& plan, const Program& program, int number) {
    Segment segment;
    segment.name = name("s" + std::to_string(number));
    segment.chunk = pick(static_cast<int>(program.chunks.size())) - 1;
    segment.predicted_ns = coin() ? pick(1 << 30) : 0;
    for (int i = 0; i < pick(9); ++i) segment.ops.push_back(op(plan, program));
    return segment;
  }

  Op op(const Plan& plan, const Program& program) {
    Op op;
    op.kind =
        all_ops()[static_cast<std::size_t>(pick(static_cast<int>(all_ops().size()) - 1))].kind;
    op.index = coin() ? std::string(info(op.kind).index) : coin() ? "->n" : "sbh,nh->sbn,,s";
    for (int i = 0; i < pick(3); ++i) op.inputs.push_back(any_buffer(program));
    for (int i = 0; i < pick(3); ++i) op.outputs.push_back(any_buffer(program));
    Attributes& a = op.attributes;
    for (double* each : {&a.epsilon, &a.scale, &a.theta, &a.value, &a.beta1, &a.beta2, &a.clip}) {
      *each = coin() ? 0 : real();
    }
    a.limit = coin() ? 0 : pick(999) - 500;
    a.stride = coin() ? 0 : pick(999);
    a.accumulate = coin() ? 0 : static_cast<std::uint32_t>(pick(9));
    a.groups = coin() ? 0 : pick(9);
    a.group_limit = coin() ? 0 : pick(9);
    a.balance = coin() ? 0 : real();
    a.z = coin() ? 0 : real();
    for (bool* each :
         {&a.causal, &a.inverse, &a.interleaved, &a.decay, &a.sigmoid, &a.over_all, &a.normalize}) {
      *each = coin();
    }
    a.combine = static_cast<Combine>(pick(2));
    op.mesh = pick(1);
    const Mesh& mesh = plan.meshes[static_cast<std::size_t>(op.mesh)];
    for (int i = 0; i < pick(3); ++i) op.origin.push_back({axes(mesh), pick(999) - 500});
    op.owner = axes(mesh);
    if (coin()) op.group = group(plan);
    return op;
  }

  Group group(const Plan& plan) {
    Group group;
    group.mesh = pick(1);
    group.along = axes(plan.meshes[static_cast<std::size_t>(group.mesh)]);
    for (int i = 0; i < pick(3); ++i) group.only.push_back(pick(2) + 3 * i);
    return group;
  }

  Affine affine(bool in_loop) { return {pick(99) - 9, in_loop ? pick(6) - 3 : 0}; }

  Instruction instruction(const Plan& plan, const Program& program, bool in_loop) {
    Instruction instruction;
    const int last_queue = static_cast<int>(plan.queues.size()) - 1;
    instruction.queue = QueueId{pick(last_queue)};
    for (int i = 0; i < pick(3); ++i) {
      instruction.waits.push_back({QueueId{pick(last_queue)}, pick(3)});
    }
    if (coin()) {
      Run run{SegmentId{pick(static_cast<int>(program.segments.size()) - 1)}, {}, {}};
      if (coin()) run.micro_batch = affine(in_loop);
      if (coin()) run.slot = affine(in_loop);
      instruction.body = run;
      return instruction;
    }
    Exchange exchange;
    exchange.mesh = pick(1);
    exchange.axis = pick(1);
    exchange.predicted_ns = coin() ? 0 : pick(9999);
    for (int i = 0; i < pick(3); ++i) {
      Transfer transfer{coin(), any_buffer(program), {}, {}, pick(4) - 2};
      if (coin()) transfer.micro_batch = affine(in_loop);
      if (coin()) transfer.slot = affine(in_loop);
      exchange.transfers.push_back(transfer);
    }
    instruction.body = exchange;
    return instruction;
  }

  Sequence sequence(const Plan& plan, const Program& program, int number) {
    Sequence sequence;
    sequence.name = name("q" + std::to_string(number));
    for (int i = 0; i < pick(9); ++i) {
      if (coin()) {
        sequence.steps.emplace_back(instruction(plan, program, false));
        continue;
      }
      Repeat repeat;
      repeat.count = pick(9);
      for (int j = 0; j < pick(4); ++j) repeat.body.push_back(instruction(plan, program, true));
      sequence.steps.emplace_back(repeat);
    }
    return sequence;
  }

  std::uint64_t state_;
};

}  // namespace mega::testing
