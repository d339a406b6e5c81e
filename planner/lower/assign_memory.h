// Where everything of a rank lives: sizes and offsets of buckets, slots and scratch.
//
// Memory composes block by block, so that the cost model prices a stage cut without lowering it
// and the plan's arena is that price, to the byte:
//   slot of a chunk = sum over its blocks of (input stream + saved) + output stream + gradient
//                     of the stream
//   scratch         = the largest of its blocks' scratch, in either direction
//   persistent      = scalars + gradients + weights + optimizer state, by flat buckets
#pragma once

#include <vector>

#include "ir/partitioned_graph.h"
#include "planner/lower/buckets.h"
#include "planner/spec/job_spec.h"
#include "planner/strategy.h"

namespace mega::planner {

// The blocks of one virtual stage: chain[first .. first + count).
struct BlockRange {
  int first = 0;
  int count = 0;
  bool operator==(const BlockRange&) const = default;
};

// Of every virtual stage, in model order; `stages` counts layers, the embedding joins the first
// and the head the last.
std::vector<BlockRange> cut_blocks(const std::vector<int>& stages);
// Of the chunks of pipeline rank `rank`: virtual stages rank, rank + pp, ...
std::vector<BlockRange> chunks_of_rank(const std::vector<int>& stages, int pp, int rank);

struct ChunkLayout {
  BlockRange blocks;
  std::vector<Bytes> block_offset;  // in the slot: of each block's input stream, then its saved
  Bytes output_offset;              // stream to send; only if a block follows on another rank
  Bytes gradient_offset;            // gradient of the stream
  Bytes slot_bytes;
  bool operator==(const ChunkLayout&) const = default;
};

// Persistent region, in this order: scalars, gradients, weights, optimizer state.
struct RankLayout {
  std::vector<ChunkLayout> chunks;
  std::vector<BucketLayout> buckets;  // by chunk, block and class
  BucketShare elements;               // of all
  int states = 0;                     // optimizer states per element: AdamW 2, SGD 0 or 1
  Bytes scratch;
  bool operator==(const RankLayout&) const = default;
};

// loss, gradient_square_sum and, with auxiliary losses, aux_loss side by side (one collective sums
// them all), then token_count.
inline constexpr std::int64_t kMetricsBytes = kBufferAlignmentBytes;
inline constexpr std::int64_t kTokenCountOffset = kMetricsBytes;
inline constexpr std::int64_t kScalarBytes = 2 * kBufferAlignmentBytes;

std::int64_t metrics_count(const PartitionedGraph& graph);  // 2 or 3

int optimizer_states(const OptimizerSpec& optimizer);

RankLayout lay_out_rank(const PartitionedGraph& graph, const std::vector<BlockRange>& chunks,
                        int optimizer_states);

Bytes persistent_bytes(const RankLayout& layout);
// Of them what a bucket of so many elements takes.
Bytes bucket_bytes(int zero, int states, const BucketClass& bucket, std::int64_t elements);

// The parts of one rank's arena with `slots[chunk]` copies of each slot; they add up to it.
StageMemory stage_memory(const RankLayout& layout, const std::vector<int>& slots, int stage);

}  // namespace mega::planner
