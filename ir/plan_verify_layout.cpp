#include <algorithm>
#include <map>
#include <utility>

#include "ir/base/text.h"
#include "ir/plan_text.h"
#include "ir/plan_verify_proofs.h"

namespace mega::verifying {
namespace {

class Layout {
 public:
  Layout(const Plan& plan, int program, Report& report)
      : plan_(plan),
        program_(plan.programs[static_cast<std::size_t>(program)]),
        report_(report),
        here_("program " + named(program_.name) + ", ") {}

  void check() {
    region(program_.persistent, "persistent region");
    region(program_.scratch, "scratch region");
    Bytes total = program_.persistent + program_.scratch;
    for (const Chunk& chunk : program_.chunks) {
      region(chunk.slot_bytes, "slot of chunk " + named(chunk.name));
      const std::int64_t left = std::max<std::int64_t>(0, kMaxArenaBytes - total.count());
      if (chunk.slot_bytes.count() > left / chunk.slot_count) {
        return report_.add(here_ + "the arena is over " + to_string(Bytes(kMaxArenaBytes)));
      }
      total += chunk.slot_bytes * chunk.slot_count;
    }
    if (total.count() > kMaxArenaBytes) {
      report_.add(here_ + "the arena is over " + to_string(Bytes(kMaxArenaBytes)));
    }
    const std::size_t before = report_.size();
    for (const Buffer& buffer : program_.buffers) place(buffer);
    if (report_.size() == before) disjoint();
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.shard) shard(buffer, *buffer.shard);
    }
  }

 private:
  void region(Bytes size, const std::string& what) {
    if (size.count() >= 0 && size.count() % kBufferAlignmentBytes == 0) return;
    report_.add(here_ + "the " + what + " has " + std::to_string(size.count()) +
                " bytes, not a multiple of " + std::to_string(kBufferAlignmentBytes));
  }

  std::pair<Bytes, std::string> room_for(const Buffer& buffer) const {
    if (buffer.parent) {
      const Buffer& parent = program_.buffers[buffer.parent];
      return {bytes_of(parent.dtype, parent.shape), "its parent " + named(parent.name)};
    }
    switch (buffer.region) {
      case Region::Persistent:
        return {program_.persistent, "the persistent region"};
      case Region::Scratch:
        return {program_.scratch, "the scratch region"};
      case Region::Slot:
        break;
    }
    const Chunk& chunk = program_.chunks[static_cast<std::size_t>(buffer.chunk)];
    return {chunk.slot_bytes, "a slot of chunk " + named(chunk.name)};
  }

  void place(const Buffer& buffer) {
    const std::string who = here_ + "buffer " + named(buffer.name);
    const std::int64_t offset = buffer.offset.count();
    const std::int64_t size = bytes_of(buffer.dtype, buffer.shape).count();
    const auto [room, where] = room_for(buffer);
    if (is_partly_here(plan_, program_, buffer)) {
      // Only what its annotation says counts.
      if (!buffer.shard) {
        report_.add(who + " leaves " + where + " on some ranks, but holds no part of a tensor");
      }
    } else if (offset < 0 || offset > room.count() - size) {
      report_.add(who + " at " + std::to_string(offset) + " of " + std::to_string(size) +
                  " bytes leaves " + where + " of " + std::to_string(room.count()));
    }
    // A view may start at any element; all others on a line of the cache, for the kernels' sake.
    const std::int64_t alignment = buffer.parent ? size_of(buffer.dtype) : kBufferAlignmentBytes;
    if (buffer.move && buffer.move->stride % alignment != 0) {
      report_.add(who + " moves by " + std::to_string(buffer.move->stride) + ", no multiple of " +
                  std::to_string(alignment) + " bytes");
    }
    if (offset % alignment != 0) {
      report_.add(who + " at " + std::to_string(offset) + " is not aligned to " +
                  std::to_string(alignment) + " bytes");
    }
    if (!buffer.parent) return;
    const Buffer& parent = program_.buffers[buffer.parent];
    if (buffer.region == parent.region && buffer.chunk == parent.chunk) return;
    report_.add(who + " is in another region than " + named(parent.name) + ", which it views");
  }

  void shard(const Buffer& buffer, const Shard& shard) {
    const std::string who = here_ + "buffer " + named(buffer.name);
    const std::size_t dimensions = buffer.shape.size();
    if (shard.global_shape.size() != dimensions || shard.axes.size() != dimensions) {
      return report_.add(who + " of shape " + to_string(buffer.shape) +
                         " holds a part of a tensor of shape " + to_string(shard.global_shape));
    }
    const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(shard.mesh)];
    AxisSet used;
    for (std::size_t i = 0; i < dimensions; ++i) {
      if (!(used & shard.axes[i]).empty()) {
        report_.add(who + " splits two dimensions over '" + to_string(mesh, used & shard.axes[i]) +
                    "'");
      }
      used = used | shard.axes[i];
      const std::int64_t padded = buffer.shape[i] * extent(mesh, shard.axes[i]);
      if (shard.global_shape[i] >= 1 && padded >= shard.global_shape[i]) continue;
      report_.add(who + " covers only " + std::to_string(padded) + " of the " +
                  std::to_string(shard.global_shape[i]) + " elements of dimension " +
                  std::to_string(i) + " of " + named(shard.name));
    }
  }

  // Persistent buffers are always alive, a slot's as long as the slot; scratch is another proof.
  void disjoint() {
    std::map<std::pair<Region, int>, std::vector<const Buffer*>> regions;
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.parent || buffer.region == Region::Scratch) continue;
      regions[{buffer.region, buffer.chunk}].push_back(&buffer);
    }
    for (auto& [region, buffers] : regions) {
      std::stable_sort(buffers.begin(), buffers.end(),
                       [](const Buffer* a, const Buffer* b) { return a->offset < b->offset; });
      for (std::size_t i = 1; i < buffers.size(); ++i) {
        const Buffer& before = *buffers[i - 1];
        const Bytes end = before.offset + bytes_of(before.dtype, before.shape);
        if (buffers[i]->offset >= end) continue;
        report_.add(here_ + "buffers " + named(before.name) + " and " + named(buffers[i]->name) +
                    " overlap: " + std::to_string(before.offset.count()) + " to " +
                    std::to_string(end.count()) + " and from " +
                    std::to_string(buffers[i]->offset.count()));
      }
    }
  }

  const Plan& plan_;
  const Program& program_;
  Report& report_;
  std::string here_;
};

}  // namespace

void check_layout(const Plan& plan, int program, Report& report) {
  Layout(plan, program, report).check();
}

void check_tensors(const Plan& plan, Report& report) {
  std::map<std::pair<Role, std::string>, std::pair<const Shape*, const Program*>> tensors;
  for (const Program& program : plan.programs) {
    for (const Buffer& buffer : program.buffers) {
      if (!buffer.shard) continue;
      const Shard& shard = *buffer.shard;
      const auto [first, is_new] =
          tensors.try_emplace(std::pair(shard.role, shard.name), &shard.global_shape, &program);
      if (is_new || *first->second.first == shard.global_shape) continue;
      report.add("tensor " + named(shard.name) + " has shape " + to_string(shard.global_shape) +
                 " in program " + named(program.name) + " and " + to_string(*first->second.first) +
                 " in program " + named(first->second.second->name));
    }
  }
}

}  // namespace mega::verifying
