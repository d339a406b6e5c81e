#include "runtime/ready.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "ir/base/check.h"
#include "ir/base/text.h"

namespace mega::runtime {
namespace {

template <class Visit>
void for_each_instruction(const Sequence& sequence, const Visit& visit) {
  for (const Step& step : sequence.steps) {
    if (const auto* repeat = std::get_if<Repeat>(&step)) {
      for (const Instruction& instruction : repeat->body) visit(instruction);
    } else {
      visit(std::get<Instruction>(step));
    }
  }
}

Group group_of(const Exchange& exchange) {
  return {exchange.mesh, AxisSet::of(exchange.axis), {}};
}

class Resolver {
 public:
  Resolver(const Plan& plan, int rank, std::byte* arena, const CommunicatorFor& communicator_for)
      : plan_(plan),
        program_(plan.programs[static_cast<std::size_t>(program_of(plan, rank))]),
        rank_(rank),
        arena_(arena),
        communicator_for_(communicator_for) {}

  ReadyProgram program() {
    ready_.segments.resize(plan_.queues.size());
    for (auto& segments : ready_.segments) segments.resize(program_.segments.size());
    for (const Sequence& source : program_.sequences) {
      ReadySequence sequence{&source, {}};
      position_ = 0;
      for (const Step& step : source.steps) sequence.loops.push_back(loop(step));
      ready_.sequences.push_back(std::move(sequence));
    }
    ready_.transient.base = arena_ + program_.persistent.count();
    ready_.transient.bytes = arena_bytes(program_) - program_.persistent;
    return std::move(ready_);
  }

 private:
  ReadyLoop loop(const Step& step) {
    ReadyLoop result;
    if (const auto* repeat = std::get_if<Repeat>(&step)) {
      result.turns = repeat->count;
      for (const Instruction& source : repeat->body) result.body.push_back(instruction(source));
    } else {
      result.body.push_back(instruction(std::get<Instruction>(step)));
    }
    return result;
  }

  ReadyInstruction instruction(const Instruction& source) {
    ReadyInstruction result{&source, source.queue.index, position_++, {}};
    if (const auto* run = std::get_if<Run>(&source.body)) {
      ReadySegment& segment = ready_.segments[static_cast<std::size_t>(result.queue)]
                                             [static_cast<std::size_t>(run->segment.index)];
      if (segment.ops.empty()) fill(segment, program_.segments[run->segment], result.queue);
      result.body = ReadyRun{run, &segment};
    } else {
      result.body = exchange(std::get<Exchange>(source.body), result.queue);
    }
    return result;
  }

  ReadyExchange exchange(const Exchange& source, int queue) {
    const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(source.mesh)];
    const int size = mesh.axes[static_cast<std::size_t>(source.axis)].size;
    const int own = coordinate(mesh, rank_, source.axis);
    ReadyExchange result{communicator_for_({queue, group_of(source)}), {}, {}};
    for (const Transfer& transfer : source.transfers) {
      const Place place = place_of(plan_, rank_, transfer.buffer, arena_);
      const int peer = ((own + transfer.hop) % size + size) % size;
      result.transfers.push_back({&transfer, place});
      result.calls.push_back({transfer.is_send, peer, place.base, place.bytes.count()});
    }
    return result;
  }

  void fill(ReadySegment& segment, const Segment& source, int queue) {
    std::set<BufferId> touched;
    for (const Op& op : source.ops) {
      segment.ops.push_back(ready_op(op, queue));
      for (const BufferId input : op.inputs) touched.insert(root_of(input));
      for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        const BufferId output = op.outputs[i];
        const bool is_new = touched.insert(root_of(output)).second;
        // Parts of a buffer may be written one by one; only whole buffers are fresh.
        if (is_new && overwrites(op, i) && root_of(output) == output &&
            program_.buffers[output].region != Region::Persistent) {
          segment.fresh.push_back(place_of(plan_, rank_, output, arena_));
        }
      }
    }
    // The vector does not grow any more: addresses into it are stable from here on.
    for (ReadyOp& op : segment.ops) {
      op.call.index = &op.index;
      op.call.box.start = op.box_start;
    }
  }

  BufferId root_of(BufferId id) const {
    while (program_.buffers[id].parent) id = program_.buffers[id].parent;
    return id;
  }

  static bool overwrites(const Op& op, std::size_t output) {
    const bool in_place =
        op.kind == OpKind::AllReduce || op.kind == OpKind::AdamW || op.kind == OpKind::Sgd;
    return !in_place && (op.attributes.accumulate >> output & 1U) == 0;
  }

  kernels::Operand operand(BufferId id) const {
    const Buffer& buffer = program_.buffers[id];
    return {nullptr, buffer.dtype, buffer.shape};
  }

  ReadyOp ready_op(const Op& op, int queue) {
    ReadyOp ready;
    MEGA_CHECK(op.inputs.size() <= ready.call.inputs.size(), "an op has too many inputs");
    MEGA_CHECK(op.outputs.size() <= ready.call.outputs.size(), "an op has too many outputs");
    std::vector<Shape> in_shapes, out_shapes;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      ready.call.inputs[i] = operand(op.inputs[i]);
      ready.inputs.push_back(place_of(plan_, rank_, op.inputs[i], arena_));
      in_shapes.push_back(program_.buffers[op.inputs[i]].shape);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      ready.call.outputs[i] = operand(op.outputs[i]);
      ready.outputs.push_back(place_of(plan_, rank_, op.outputs[i], arena_));
      out_shapes.push_back(program_.buffers[op.outputs[i]].shape);
    }
    std::optional<Index> index = parse_index(op.index);
    MEGA_CHECK(index.has_value(), "a verified plan has the index '" + op.index + "'");
    ready.index = std::move(*index);
    ready.call.kind = op.kind;
    ready.call.attributes = op.attributes;
    if (is_collective(op.kind)) {
      ready.communicator = communicator_for_({queue, *op.group});
      ready.output_name = program_.buffers[op.outputs.front()].name;
    } else {
      const ExtentsOrMessage found = extents_of(ready.index, in_shapes, out_shapes);
      MEGA_CHECK(found.extents.has_value(), found.message);
      ready.call.extents = *found.extents;
    }
    place_op(op, ready);
    return ready;
  }

  // Where this rank's part of the op lies.
  void place_op(const Op& op, ReadyOp& ready) const {
    const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(op.mesh)];
    for (const OriginTerm& term : op.origin) {
      ready.call.origin += position_along(mesh, rank_, term.axes) * term.stride;
    }
    ready.call.is_owner = position_along(mesh, rank_, op.owner) == 0;
    if (op.outputs.empty()) return;
    const Buffer& buffer = program_.buffers[op.outputs.front()];
    if (!buffer.shard) return;
    ready.box_start = shard_start(plan_, buffer, rank_);
    ready.call.box.global_shape = buffer.shard->global_shape;
    ready.call.box.key = fnv1a(buffer.shard->name);
  }

  const Plan& plan_;
  const Program& program_;
  int rank_;
  std::byte* arena_;
  const CommunicatorFor& communicator_for_;
  ReadyProgram ready_;
  std::int64_t position_ = 0;
};

}  // namespace

std::vector<GroupOnQueue> groups_of(const Program& program) {
  std::set<GroupOnQueue> groups;
  for (const Sequence& sequence : program.sequences) {
    for_each_instruction(sequence, [&](const Instruction& instruction) {
      const int queue = instruction.queue.index;
      if (const auto* exchange = std::get_if<Exchange>(&instruction.body)) {
        groups.insert({queue, group_of(*exchange)});
        return;
      }
      const Run& run = std::get<Run>(instruction.body);
      for (const Op& op : program.segments[run.segment].ops) {
        if (op.group) groups.insert({queue, *op.group});
      }
    });
  }
  return {groups.begin(), groups.end()};
}

std::uint64_t queues_of(const Program& program) {
  std::uint64_t bits = 0;
  for (const Sequence& sequence : program.sequences) {
    for_each_instruction(sequence, [&](const Instruction& instruction) {
      bits |= std::uint64_t{1} << instruction.queue.index;
    });
  }
  return bits;
}

ReadyProgram make_ready(const Plan& plan, int rank, std::byte* arena,
                        const CommunicatorFor& communicator_for) {
  return Resolver(plan, rank, arena, communicator_for).program();
}

Place place_of(const Plan& plan, int rank, BufferId id, std::byte* arena) {
  const Program& program = plan.programs[static_cast<std::size_t>(program_of(plan, rank))];
  const Buffer& buffer = program.buffers[id];
  Place place;
  place.base = arena + arena_offset(plan, rank, id, 0).count();
  place.bytes = bytes_of(buffer.dtype, buffer.shape);
  const Buffer* root = &buffer;
  while (root->parent) root = &program.buffers[root->parent];
  if (root->region == Region::Slot) {
    const Chunk& chunk = program.chunks[static_cast<std::size_t>(root->chunk)];
    place.stride = chunk.slot_bytes.count();
    place.slots = chunk.slot_count;
  }
  return place;
}

std::vector<std::int64_t> shard_start(const Plan& plan, const Buffer& buffer, int rank) {
  const Mesh& mesh = plan.meshes[static_cast<std::size_t>(buffer.shard->mesh)];
  std::vector<std::int64_t> start;
  for (std::size_t i = 0; i < buffer.shape.size(); ++i) {
    start.push_back(position_along(mesh, rank, buffer.shard->axes[i]) * buffer.shape[i]);
  }
  return start;
}

}  // namespace mega::runtime
