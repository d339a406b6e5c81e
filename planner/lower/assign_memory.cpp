#include "planner/lower/assign_memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/base/check.h"
#include "ir/schedule.h"
#include "planner/lower/shard_parameters.h"

namespace mega::planner {
namespace {

const PartitionedBlock& block_at(const PartitionedGraph& graph, int position) {
  return graph.kinds[graph.chain[static_cast<std::size_t>(position)]];
}

SlotLayout lay_out_slot(const PartitionedGraph& graph, BlockRange blocks) {
  SlotLayout slot;
  slot.blocks = blocks;
  const Bytes stream = stream_bytes(graph);
  Bytes offset;
  for (int i = blocks.first; i < blocks.first + blocks.count; ++i) {
    const PartitionedBlock& block = block_at(graph, i);
    slot.block_offset.push_back(offset);
    offset += block.saved + (block.input ? stream : Bytes());
  }
  slot.output_offset = offset;
  const int end = blocks.first + blocks.count;
  if (blocks.count == 0 || block_at(graph, end - 1).output) offset += stream;
  slot.gradient_offset = offset;
  offset += stream;
  slot.slot_bytes = offset;
  return slot;
}

// The blocks of the chunks that share each slot: neighbours in the model.
std::vector<BlockRange> blocks_of_slots(const std::vector<ChunkLayout>& chunks) {
  std::vector<BlockRange> slots;
  for (const ChunkLayout& chunk : chunks) {
    if (chunk.slot == static_cast<int>(slots.size())) {
      slots.push_back(chunk.blocks);
    } else {
      slots.back().count += chunk.blocks.count;
    }
  }
  return slots;
}

// Blocks share the buckets of a class, but for those whose gradients are whole for one block only.
void add_buckets(const PartitionedGraph& graph, int chunk, RankLayout& layout) {
  const BlockRange& blocks = layout.chunks[static_cast<std::size_t>(chunk)].blocks;
  const int last_block = static_cast<int>(graph.chain.size()) - 1;
  std::map<std::pair<int, BucketClass>, std::int64_t> elements;  // by block, then class
  for (int i = blocks.first; i < blocks.first + blocks.count; ++i) {
    const PartitionedBlock& block = block_at(graph, i);
    for (const BucketClass& bucket : bucket_classes(block)) {
      // A tied tensor whose two uses share a rank has one copy: the embedding's.
      if (bucket.is_tied && i == last_block && holds_first_block(layout)) continue;
      const int own = splits_gradients(graph.zero, bucket) ? i : -1;
      elements[{own, bucket}] += bucket_elements(block, bucket);
    }
  }
  for (const auto& [key, count] : elements) {
    layout.buckets.push_back({chunk, key.first, key.second, count});
    const BucketShare share = share_of(graph.zero, key.second, count);
    layout.elements.weights += share.weights;
    layout.elements.gradients += share.gradients;
    layout.elements.state += share.state;
  }
}

}  // namespace

std::vector<BlockRange> cut_blocks(const std::vector<int>& stages) {
  std::vector<BlockRange> ranges;
  int first = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const int ends = (s == 0 ? 1 : 0) + (s + 1 == stages.size() ? 1 : 0);
    ranges.push_back({first, stages[s] + ends});
    first += ranges.back().count;
  }
  return ranges;
}

std::vector<ChunkLayout> chunks_of_rank(const Strategy& strategy, int rank) {
  const std::vector<BlockRange> all = cut_blocks(strategy.stages);
  std::vector<ChunkLayout> own;
  for (int chunk = 0; chunk < strategy.vpp; ++chunk) {
    const StagePlace place{rank, chunk};
    const int stage = stage_of(strategy.schedule, strategy.pp, place);
    own.push_back(
        {all[static_cast<std::size_t>(stage)], slot_owner(strategy.schedule, strategy.pp, place)});
  }
  return own;
}

bool has_one_end(const Strategy& strategy) {
  return strategy.pp == 1 || is_folded(strategy.schedule);
}

std::int64_t metrics_count(const PartitionedGraph& graph) {
  for (const PartitionedBlock& block : graph.kinds) {
    for (const LocalTensor& tensor : block.tensors) {
      if (tensor.home == Home::Scalar && tensor.name == "aux_loss") return 3;
    }
  }
  return 2;
}

int optimizer_states(const OptimizerSpec& optimizer) {
  if (optimizer.kind == OptimizerKind::AdamW) return 2;
  return optimizer.momentum > 0 ? 1 : 0;
}

bool holds_first_block(const RankLayout& layout) {
  return layout.chunks.front().blocks.first == 0;
}

RankLayout lay_out_rank(const PartitionedGraph& graph, std::vector<ChunkLayout> chunks,
                        int optimizer_states) {
  RankLayout layout;
  layout.states = optimizer_states;
  layout.chunks = std::move(chunks);
  for (const BlockRange& blocks : blocks_of_slots(layout.chunks)) {
    layout.slots.push_back(lay_out_slot(graph, blocks));
  }
  for (std::size_t c = 0; c < layout.chunks.size(); ++c) {
    const BlockRange& blocks = layout.chunks[c].blocks;
    for (int i = blocks.first; i < blocks.first + blocks.count; ++i) {
      layout.scratch = std::max(layout.scratch, scratch_bytes(block_at(graph, i)));
    }
    add_buckets(graph, static_cast<int>(c), layout);
  }
  return layout;
}

Bytes bucket_bytes(int zero, int states, const BucketClass& bucket, std::int64_t elements) {
  const BucketShare share = share_of(zero, bucket, elements);
  return Bytes(4 * (share.weights + share.gradients + states * share.state));
}

Bytes persistent_bytes(const RankLayout& layout) {
  const BucketShare& share = layout.elements;
  return Bytes(kScalarBytes + 4 * (share.weights + share.gradients + layout.states * share.state));
}

StageMemory stage_memory(const RankLayout& layout, const std::vector<int>& slots, int stage) {
  MEGA_CHECK(slots.size() == layout.slots.size(), "slot counts of another stage");
  StageMemory memory;
  memory.stage = stage;
  memory.parameters = Bytes(4 * layout.elements.weights);
  memory.gradients = Bytes(4 * layout.elements.gradients);
  memory.optimizer = Bytes(4 * layout.elements.state * layout.states);
  memory.temporary = layout.scratch;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    memory.activations += layout.slots[i].slot_bytes * slots[i];
  }
  memory.overhead = Bytes(kScalarBytes);
  memory.total = memory.parameters + memory.gradients + memory.optimizer + memory.activations +
                 memory.temporary + memory.overhead;
  return memory;
}

}  // namespace mega::planner
