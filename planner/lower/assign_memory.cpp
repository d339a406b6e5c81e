#include "planner/lower/assign_memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/base/check.h"
#include "planner/lower/shard_parameters.h"

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

// Blocks share the buckets of a class, but for those whose gradients are whole for one block only.
void add_buckets(const PartitionedGraph& graph, BlockRange blocks, int chunk, RankLayout& layout) {
  const int last_block = static_cast<int>(graph.chain.size()) - 1;
  const int end = blocks.first + blocks.count;
  // A tied tensor whose two uses share a chunk has one copy: the embedding's.
  const bool is_whole_model = blocks.first == 0 && end == last_block + 1;
  std::map<std::pair<int, BucketClass>, std::int64_t> elements;  // by block, then class
  for (int i = blocks.first; i < end; ++i) {
    const PartitionedBlock& block = block_at(graph, i);
    for (const BucketClass& bucket : bucket_classes(block)) {
      if (is_whole_model && bucket.is_tied && i == last_block) continue;
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

RankLayout lay_out_rank(const PartitionedGraph& graph, const std::vector<BlockRange>& chunks,
                        int optimizer_states) {
  RankLayout layout;
  layout.states = optimizer_states;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    layout.chunks.push_back(lay_out_chunk(graph, chunks[c]));
    const int end = chunks[c].first + chunks[c].count;
    for (int i = chunks[c].first; i < end; ++i) {
      const PartitionedBlock& block = block_at(graph, i);
      layout.scratch = std::max({layout.scratch, block.forward_scratch, block.backward_scratch});
    }
    add_buckets(graph, chunks[c], static_cast<int>(c), layout);
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
  MEGA_CHECK(slots.size() == layout.chunks.size(), "slot counts of another stage");
  StageMemory memory;
  memory.stage = stage;
  memory.parameters = Bytes(4 * layout.elements.weights);
  memory.gradients = Bytes(4 * layout.elements.gradients);
  memory.optimizer = Bytes(4 * layout.elements.state * layout.states);
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
