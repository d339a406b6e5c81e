#include "planner/lower/assign_memory.h"

#include <algorithm>
#include <set>

#include "ir/base/check.h"

namespace mega::planner {
namespace {

const PartitionedBlock& block_at(const PartitionedGraph& graph, int position) {
  return graph.kinds[graph.chain[static_cast<std::size_t>(position)]];
}

ChunkLayout lay_out_chunk(const PartitionedGraph& graph, BlockRange blocks) {
  ChunkLayout chunk;
  chunk.blocks = blocks;
  const Bytes stream = stream_bytes(graph);
  Bytes offset;
  for (int i = blocks.first; i < blocks.first + blocks.count; ++i) {
    const PartitionedBlock& block = block_at(graph, i);
    chunk.block_offset.push_back(offset);
    offset += block.saved + (block.input ? stream : Bytes());
  }
  chunk.output_offset = offset;
  if (block_at(graph, blocks.first + blocks.count - 1).output) offset += stream;
  chunk.gradient_offset = offset;
  offset += stream;
  chunk.slot_bytes = offset;
  return chunk;
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

std::vector<BlockRange> chunks_of_rank(const std::vector<int>& stages, int pp, int rank) {
  const std::vector<BlockRange> all = cut_blocks(stages);
  std::vector<BlockRange> own;
  for (std::size_t s = static_cast<std::size_t>(rank); s < all.size();
       s += static_cast<std::size_t>(pp)) {
    own.push_back(all[s]);
  }
  return own;
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

bool is_reduced_in_update(const PartitionedGraph& graph, const BucketClass& bucket) {
  if (bucket.mesh != 0) return false;                  // then nothing is reduced beside backward
  const AxisSet data = graph.stream_sharding.axes[1];  // those that split the micro-batch
  return !data.contains(bucket.reduce);
}

RankLayout lay_out_rank(const PartitionedGraph& graph, const std::vector<BlockRange>& chunks,
                        int optimizer_states) {
  RankLayout layout;
  layout.states = optimizer_states;
  const int last_block = static_cast<int>(graph.chain.size()) - 1;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    layout.chunks.push_back(lay_out_chunk(graph, chunks[c]));
    const int end = chunks[c].first + chunks[c].count;
    std::set<BucketClass> classes;
    for (int i = chunks[c].first; i < end; ++i) {
      const PartitionedBlock& block = block_at(graph, i);
      layout.scratch = std::max({layout.scratch, block.forward_scratch, block.backward_scratch});
      for (const BucketClass& bucket : bucket_classes(block)) classes.insert(bucket);
    }
    // A tied tensor whose two uses share a chunk has one copy: the embedding's.
    const bool is_whole_model = chunks[c].first == 0 && end == last_block + 1;
    for (const BucketClass& bucket : classes) {
      std::int64_t elements = 0;
      for (int i = chunks[c].first; i < end; ++i) {
        if (is_whole_model && bucket.is_tied && i == last_block) continue;
        elements += bucket_elements(block_at(graph, i), bucket);
      }
      layout.buckets.push_back({static_cast<int>(c), bucket, elements});
      layout.bucket_elements += elements;
    }
  }
  return layout;
}

Bytes persistent_bytes(const RankLayout& layout) {
  return Bytes(kScalarBytes + 4 * layout.bucket_elements * (2 + layout.states));
}

StageMemory stage_memory(const RankLayout& layout, const std::vector<int>& slots, int stage) {
  MEGA_CHECK(slots.size() == layout.chunks.size(), "slot counts of another stage");
  StageMemory memory;
  memory.stage = stage;
  memory.parameters = memory.gradients = Bytes(4 * layout.bucket_elements);
  memory.optimizer = memory.parameters * layout.states;
  memory.temporary = layout.scratch;
  for (std::size_t c = 0; c < slots.size(); ++c) {
    memory.activations += layout.chunks[c].slot_bytes * slots[c];
  }
  memory.overhead = Bytes(kScalarBytes);
  memory.total = memory.parameters + memory.gradients + memory.optimizer + memory.activations +
                 memory.temporary + memory.overhead;
  return memory;
}

}  // namespace mega::planner
