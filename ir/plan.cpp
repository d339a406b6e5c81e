#include "ir/plan.h"

#include "ir/base/check.h"

namespace mega {

Bytes arena_bytes(const Program& program) {
  Bytes total = program.persistent + program.scratch;
  for (const Chunk& chunk : program.chunks) total += chunk.slot_bytes * chunk.slot_count;
  return total;
}

Bytes arena_offset(const Program& program, BufferId id, std::int64_t slot) {
  const Buffer& buffer = program.buffers[id];
  if (buffer.parent) return arena_offset(program, buffer.parent, slot) + buffer.offset;
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
