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

// A virtual stage on its rank, and whose slot it works in: its own, but that of its neighbour where
// two neighbours in the model share a rank (the bottom of a V).
struct ChunkLayout {
  BlockRange blocks;
  int slot = 0;
  bool operator==(const ChunkLayout&) const = default;
};
// Of pipeline rank `rank`; needs `stages`.
std::vector<ChunkLayout> chunks_of_rank(const Strategy& strategy, int rank);

// Whether the first and the last virtual stage share a rank: a tied tensor has one copy.
bool has_one_end(const Strategy& strategy);

struct SlotLayout {
  BlockRange blocks;                // of all chunks that work in it
  std::vector<Bytes> block_offset;  // in the slot: of each block's input stream, then its saved
  Bytes output_offset;              // stream to send; only if a block follows on another rank.
                                    // Without blocks it is the stream received, too
  Bytes gradient_offset;            // gradient of the stream
  Bytes slot_bytes;
  bool operator==(const SlotLayout&) const = default;
};

// Persistent region, in this order: scalars, gradients, weights, optimizer state.
struct RankLayout {
  std::vector<ChunkLayout> chunks;
  std::vector<SlotLayout> slots;
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

RankLayout lay_out_rank(const PartitionedGraph& graph, std::vector<ChunkLayout> chunks,
                        int optimizer_states);
bool holds_first_block(const RankLayout& layout);

Bytes persistent_bytes(const RankLayout& layout);
// Of them what a bucket of so many elements takes.
Bytes bucket_bytes(int zero, int states, const BucketClass& bucket, std::int64_t elements);

// The parts of one rank's arena with `slots[i]` copies of each slot; they add up to it.
StageMemory stage_memory(const RankLayout& layout, const std::vector<int>& slots, int stage);

}  // namespace mega::planner
