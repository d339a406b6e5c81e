#include <algorithm>

#include "ir/base/text.h"
#include "ir/plan_text.h"
#include "ir/plan_verify_proofs.h"

namespace mega::verifying {
namespace {

bool in_range(std::int64_t index, std::size_t size) {
  return index >= 0 && static_cast<std::size_t>(index) < size;
}

AxisSet axes_of(const Plan& plan, int mesh) {
  return all_axes(plan.meshes[static_cast<std::size_t>(mesh)]);
}

// Every number of a plan that a later proof follows. Parsed plans pass; others are our mistakes,
// found here rather than by a crash.
class References {
 public:
  References(const Plan& plan, Report& report) : plan_(plan), report_(report) {}

  void check() {
    if (plan_.meshes.empty() || plan_.queues.empty() || plan_.programs.empty()) {
      return report_.add("the plan has no mesh, no queue or no program");
    }
    for (const Mesh& mesh : plan_.meshes) {
      expect(mesh.axes.size() < 32, mesh.name, "has over 31 axes");
      for (const Axis& axis : mesh.axes) expect(axis.size >= 1, axis.name, "is an empty axis");
    }
    if (report_.size() > 0) return;
    for (const Mesh& mesh : plan_.meshes) {
      expect(world_size(mesh) == world_size(plan_), mesh.name, "has other ranks than mesh 0");
    }
    expect(axes_of(plan_, 0).contains(plan_.by), "the plan", "assigns along unknown axes");
    if (report_.size() > 0) return;
    const auto positions = static_cast<std::size_t>(extent(plan_.meshes.front(), plan_.by));
    expect(plan_.assignment.size() == positions, "the plan", "leaves ranks without a program");
    for (const int program : plan_.assignment) {
      expect(in_range(program, plan_.programs.size()), "a rank", "runs an unknown program");
    }
    for (const Program& program : plan_.programs) check(program);
  }

 private:
  // The message is put together only when it is needed.
  void expect(bool claim, const std::string& who, const char* what) {
    if (!claim) report_.add(who + " " + what);
  }

  void check(const Program& program) {
    program_ = &program;
    for (const Chunk& chunk : program.chunks) {
      expect(chunk.slot_count >= 1, here() + "chunk " + named(chunk.name), "has no slot");
    }
    std::int32_t number = 0;
    for (const Buffer& buffer : program.buffers) check(buffer, number++);
    for (const Segment& segment : program.segments) {
      expect(segment.chunk >= -1 && segment.chunk < static_cast<int>(program.chunks.size()),
             here() + "segment " + named(segment.name), "works on an unknown chunk");
      for (const Op& op : segment.ops) check(segment, op);
    }
    for (const Sequence& sequence : program.sequences) {
      for (const Step& step : sequence.steps) check(sequence, step);
    }
  }

  void check(const Buffer& buffer, std::int32_t number) {
    const std::string who = here() + "buffer " + named(buffer.name);
    const bool has_chunk = in_range(buffer.chunk, program_->chunks.size());
    expect(buffer.region == Region::Slot ? has_chunk : buffer.chunk == -1, who,
           "is of an unknown chunk, or of one outside of a slot");
    expect(buffer.parent.index < number, who, "is a view into a later buffer");
    if (buffer.move) move(buffer, *buffer.move, who);
    std::int64_t left = kMaxArenaBytes / size_of(buffer.dtype);
    for (const std::int64_t size : buffer.shape) {
      expect(size >= 1 && size <= left, who, "has an impossible shape");
      if (size < 1 || size > left) return;
      left /= size;
    }
    if (!buffer.shard) return;
    const bool has_mesh = in_range(buffer.shard->mesh, plan_.meshes.size());
    expect(has_mesh, who, "is split over an unknown mesh");
    for (const AxisSet axes : buffer.shard->axes) {
      expect(has_mesh && axes_of(plan_, buffer.shard->mesh).contains(axes), who,
             "is split over unknown axes");
    }
  }

  void move(const Buffer& buffer, const Move& move, const std::string& who) {
    expect(static_cast<bool>(buffer.parent), who, "moves, but is no view");
    if (!in_range(move.mesh, plan_.meshes.size()) ||
        !axes_of(plan_, move.mesh).contains(move.axes)) {
      return report_.add(who + " moves along unknown axes");
    }
    const std::int64_t last =
        extent(plan_.meshes[static_cast<std::size_t>(move.mesh)], move.axes) - 1;
    const std::int64_t most = kMaxArenaBytes / std::max<std::int64_t>(last, 1);
    expect(move.stride >= -most && move.stride <= most, who, "moves out of every arena");
  }

  void check(const Segment& segment, const Op& op) {
    const std::string who = here() + "segment " + named(segment.name);
    for (const auto* operands : {&op.inputs, &op.outputs}) {
      for (const BufferId id : *operands) {
        expect(in_range(id.index, program_->buffers.size()), who, "uses an unknown buffer");
      }
    }
    if (!in_range(op.mesh, plan_.meshes.size())) return report_.add(who + " has an unknown mesh");
    AxisSet used = op.owner;
    for (const OriginTerm& term : op.origin) used = used | term.axes;
    expect(axes_of(plan_, op.mesh).contains(used), who, "has an origin or owner of unknown axes");
    if (!op.group) return;
    const Group& group = *op.group;
    if (!in_range(group.mesh, plan_.meshes.size()) ||
        !axes_of(plan_, group.mesh).contains(group.along)) {
      return report_.add(who + " has a group along unknown axes");
    }
    const int size = extent(plan_.meshes[static_cast<std::size_t>(group.mesh)], group.along);
    for (std::size_t i = 0; i < group.only.size(); ++i) {
      const bool ascends = i == 0 || group.only[i] > group.only[i - 1];
      expect(ascends && in_range(group.only[i], static_cast<std::size_t>(size)), who,
             "has a group of positions that don't ascend or don't exist");
    }
  }

  void check(const Sequence& sequence, const Step& step) {
    if (const auto* one = std::get_if<Instruction>(&step)) return check(sequence, *one);
    const auto* repeat = std::get_if<Repeat>(&step);
    expect(repeat->count >= 0, here() + "sequence " + named(sequence.name), "counts below zero");
    for (const Instruction& each : repeat->body) check(sequence, each);
  }

  void check(const Sequence& sequence, const Instruction& instruction) {
    const std::string who = here() + "sequence " + named(sequence.name);
    expect(in_range(instruction.queue.index, plan_.queues.size()), who, "has an unknown queue");
    for (const Wait& wait : instruction.waits) {
      expect(in_range(wait.queue.index, plan_.queues.size()) && wait.behind >= 0, who,
             "waits for an unknown queue, or for the future");
    }
    if (const auto* run = std::get_if<Run>(&instruction.body)) {
      return expect(in_range(run->segment.index, program_->segments.size()), who,
                    "runs an unknown segment");
    }
    const auto* exchange = std::get_if<Exchange>(&instruction.body);
    expect(in_range(exchange->mesh, plan_.meshes.size()) &&
               in_range(exchange->axis,
                        plan_.meshes[static_cast<std::size_t>(exchange->mesh)].axes.size()),
           who, "exchanges along an unknown axis");
    for (const Transfer& transfer : exchange->transfers) {
      expect(in_range(transfer.buffer.index, program_->buffers.size()), who,
             "transfers an unknown buffer");
    }
  }

  std::string here() const { return "program " + named(program_->name) + ", "; }

  const Plan& plan_;
  Report& report_;
  const Program* program_ = nullptr;
};

}  // namespace

void check_references(const Plan& plan, Report& report) {
  References(plan, report).check();
}

}  // namespace mega::verifying
