#include "runtime/tensors.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "runtime/alarm.h"
#include "runtime/describe.h"
#include "runtime/ready.h"

namespace mega::runtime {
namespace {

// A rank's part of a global tensor. Of a view that moves out of its parent only the elements
// [first, last) are here; `data` is the first of them.
struct Part {
  int rank = 0;
  const Buffer* buffer = nullptr;
  const std::byte* data = nullptr;
  std::vector<std::int64_t> start;
  std::int64_t first = 0, last = 0;
};

Part part_of(const Plan& plan, const Program& program, int rank, BufferId id,
             const std::byte* arena) {
  const Buffer& buffer = program.buffers[id];
  Part part{rank,
            &buffer,
            arena + arena_offset(plan, rank, id, 0).count(),
            shard_start(plan, buffer, rank),
            0,
            element_count(buffer.shape)};
  if (!buffer.move) return part;
  const Buffer& parent = program.buffers[buffer.parent];
  const std::int64_t size = size_of(buffer.dtype);
  const std::int64_t from = (buffer.offset + moved(plan, rank, buffer)).count() / size;
  const std::int64_t room = bytes_of(parent.dtype, parent.shape).count() / size;
  part.first = std::clamp<std::int64_t>(-from, 0, part.last);
  part.last = std::clamp<std::int64_t>(room - from, part.first, part.last);
  part.data += part.first * size;
  return part;
}

template <class Visit>
Status for_each_part(const Plan& plan, Arenas arenas, const Visit& visit) {
  for (int rank = 0; rank < world_size(plan); ++rank) {
    const Program& program = plan.programs[static_cast<std::size_t>(program_of(plan, rank))];
    for (std::size_t i = 0; i < program.buffers.size(); ++i) {
      const BufferId id{static_cast<std::int32_t>(i)};
      const Buffer& buffer = program.buffers[id];
      if (!buffer.shard || buffer.shard->role == Role::WorkingCopy) continue;
      const Buffer* root = &buffer;
      while (root->parent) root = &program.buffers[root->parent];
      if (root->region != Region::Persistent) continue;
      const Part part = part_of(plan, program, rank, id, arenas[static_cast<std::size_t>(rank)]);
      if (part.first == part.last) continue;
      MEGA_TRY_STATUS(visit(part));
    }
  }
  return Ok{};
}

// Copies what of `part` lies inside the global shape; returns how many elements that is.
std::int64_t copy_part(const Part& part, GlobalTensor& tensor) {
  const Shape& local = part.buffer->shape;
  const float* const from = reinterpret_cast<const float*>(part.data) - part.first;
  if (local.empty()) {
    tensor.data[0] = *from;
    return 1;
  }
  const std::size_t last = local.size() - 1;
  const std::int64_t width =
      std::min(local[last], std::max<std::int64_t>(0, tensor.shape[last] - part.start[last]));
  if (width == 0) return 0;
  const std::int64_t rows = element_count(local) / local[last];
  std::int64_t copied = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t rest = row;
    std::int64_t offset = part.start[last];
    std::int64_t stride = tensor.shape[last];
    bool is_padding = false;
    for (std::size_t i = last; i-- > 0;) {
      const std::int64_t at = part.start[i] + rest % local[i];
      rest /= local[i];
      is_padding = is_padding || at >= tensor.shape[i];
      offset += at * stride;
      stride *= tensor.shape[i];
    }
    if (is_padding) continue;
    const std::int64_t begin = std::max(row * local[last], part.first);
    const std::int64_t end = std::min(row * local[last] + width, part.last);
    if (begin >= end) continue;
    std::copy(from + begin, from + end, tensor.data.begin() + offset + begin - row * local[last]);
    copied += end - begin;
  }
  return copied;
}

// Name, start and first element: copies of one part agree in all of them.
using PartKey = std::tuple<std::string, std::vector<std::int64_t>, std::int64_t>;

}  // namespace

Result<std::vector<GlobalTensor>> gather(const Plan& plan, Arenas arenas, Role role) {
  struct Found {
    GlobalTensor tensor;
    std::int64_t filled = 0;
  };
  std::map<std::string, Found> found;
  std::set<PartKey> seen;
  MEGA_TRY_STATUS(for_each_part(plan, arenas, [&](const Part& part) -> Status {
    const Shard& shard = *part.buffer->shard;
    if (shard.role != role || part.buffer->dtype != DType::Fp32) return Ok{};
    Found& entry = found[shard.name];
    if (entry.tensor.name.empty()) {
      const auto count = static_cast<std::size_t>(element_count(shard.global_shape));
      entry.tensor = {shard.name, shard.global_shape, std::vector<float>(count)};
    }
    if (entry.tensor.shape != shard.global_shape) {
      return failure("tensor '" + shard.name + "' is " + to_string(shard.global_shape) + " on " +
                     describe_rank(plan, part.rank) + " and " + to_string(entry.tensor.shape) +
                     " elsewhere");
    }
    if (seen.emplace(shard.name, part.start, part.first).second)
      entry.filled += copy_part(part, entry.tensor);
    return Ok{};
  }));
  std::vector<GlobalTensor> tensors;
  for (auto& [name, entry] : found) {
    if (entry.filled != element_count(entry.tensor.shape)) {
      return failure("tensor '" + name + "' has " + std::to_string(entry.filled) + " of its " +
                     std::to_string(element_count(entry.tensor.shape)) + " elements on the ranks");
    }
    tensors.push_back(std::move(entry.tensor));
  }
  return tensors;
}

Status compare_replicas(const Plan& plan, Arenas arenas) {
  std::map<std::pair<Role, PartKey>, Part> first;
  return for_each_part(plan, arenas, [&](const Part& part) -> Status {
    const Shard& shard = *part.buffer->shard;
    const auto [entry, is_new] =
        first.emplace(std::pair{shard.role, PartKey{shard.name, part.start, part.first}}, part);
    const Part& other = entry->second;
    // Where shapes differ there is no copy to compare (one part of several, the whole elsewhere).
    if (is_new || other.buffer->shape != part.buffer->shape || other.last != part.last ||
        other.buffer->dtype != part.buffer->dtype) {
      return Ok{};
    }
    const std::int64_t bytes = (part.last - part.first) * size_of(part.buffer->dtype);
    if (std::memcmp(part.data, other.data, static_cast<std::size_t>(bytes)) == 0) return Ok{};
    const auto differs = std::mismatch(part.data, part.data + bytes, other.data).first - part.data;
    return failure("copies of tensor '" + shard.name + "' differ between " +
                   describe_rank(plan, other.rank) + " and " + describe_rank(plan, part.rank) +
                   ", first at element " + std::to_string(differs / size_of(part.buffer->dtype)));
  });
}

}  // namespace mega::runtime
