#include "ir/plan.h"

#include <algorithm>

#include "ir/base/check.h"

namespace mega {

Bytes arena_bytes(const Program& program) {
  Bytes total = program.persistent + program.scratch;
  for (const Chunk& chunk : program.chunks) total += chunk.slot_bytes * chunk.slot_count;
  return total;
}

Bytes moved(const Plan& plan, int rank, const Buffer& buffer) {
  if (!buffer.move) return {};
  const Mesh& mesh = plan.meshes[static_cast<std::size_t>(buffer.move->mesh)];
  return Bytes(buffer.move->stride * position_along(mesh, rank, buffer.move->axes));
}

Reach reach_of(const Plan& plan, const Buffer& buffer) {
  Reach reach{buffer.offset, buffer.offset + bytes_of(buffer.dtype, buffer.shape)};
  if (!buffer.move) return reach;
  const Mesh& mesh = plan.meshes[static_cast<std::size_t>(buffer.move->mesh)];
  const Bytes farthest(buffer.move->stride * (extent(mesh, buffer.move->axes) - 1));
  reach.begin += std::min(farthest, Bytes());
  reach.end += std::max(farthest, Bytes());
  return reach;
}

bool is_partly_here(const Plan& plan, const Program& program, const Buffer& buffer) {
  if (!buffer.move) return false;
  const Buffer& parent = program.buffers[buffer.parent];
  const Reach reach = reach_of(plan, buffer);
  return reach.begin < Bytes() || reach.end > bytes_of(parent.dtype, parent.shape);
}

Bytes arena_offset(const Plan& plan, int rank, BufferId id, std::int64_t slot) {
  const Program& program = plan.programs[static_cast<std::size_t>(program_of(plan, rank))];
  const Buffer& buffer = program.buffers[id];
  if (buffer.parent) {
    return arena_offset(plan, rank, buffer.parent, slot) + buffer.offset +
           moved(plan, rank, buffer);
  }
  switch (buffer.region) {
    case Region::Persistent:
      return buffer.offset;
    case Region::Scratch:
      return program.persistent + buffer.offset;
    case Region::Slot:
      break;
  }
  Bytes base = program.persistent + program.scratch;
  for (int i = 0; i < buffer.chunk; ++i) {
    const Chunk& chunk = program.chunks[static_cast<std::size_t>(i)];
    base += chunk.slot_bytes * chunk.slot_count;
  }
  const Chunk& own = program.chunks[static_cast<std::size_t>(buffer.chunk)];
  return base + own.slot_bytes * (slot % own.slot_count) + buffer.offset;
}

const Sequence* find_sequence(const Program& program, const std::string& name) {
  for (const Sequence& sequence : program.sequences) {
    if (sequence.name == name) return &sequence;
  }
  return nullptr;
}

std::optional<BufferId> find_buffer(const Program& program, const std::string& name) {
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferId id{static_cast<std::int32_t>(i)};
    if (program.buffers[id].name == name) return id;
  }
  return std::nullopt;
}

int world_size(const Plan& plan) {
  return world_size(plan.meshes.front());
}

int program_of(const Plan& plan, int rank) {
  const int position = position_along(plan.meshes.front(), rank, plan.by);
  return plan.assignment[static_cast<std::size_t>(position)];
}

}  // namespace mega
