// The buffers and segments of one pipeline rank's program.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/partitioned_graph.h"
#include "ir/plan.h"
#include "planner/lower/assign_memory.h"
#include "planner/spec/job_spec.h"

namespace mega::planner {

// What a transfer of a chunk moves.
struct ChunkBuffers {
  BufferId input;     // stream received
  BufferId output;    // stream sent
  BufferId gradient;  // gradient of the stream, received and sent
};

class ProgramBuilder {
 public:
  ProgramBuilder(const JobSpec& job, const PartitionedGraph& graph, const RankLayout& layout,
                 int pipeline_rank, int pipeline_size);

  void add_buffers();
  // Each adds one segment and returns its id.
  SegmentId add_init();
  SegmentId add_begin(std::int64_t labels_per_rank, std::int64_t predicted_ns);
  SegmentId add_forward(int chunk, std::int64_t predicted_ns);
  SegmentId add_backward(int chunk, std::int64_t predicted_ns);
  SegmentId add_reduce(int chunk, std::int64_t predicted_ns);
  SegmentId add_tied(std::int64_t predicted_ns);
  SegmentId add_update(std::int64_t predicted_ns);

  const ChunkBuffers& chunk_buffers(int chunk) const {
    return chunk_buffers_[static_cast<std::size_t>(chunk)];
  }
  Program take() { return std::move(program_); }
  Program& program() { return program_; }

 private:
  struct Bucket {
    BufferId gradients, weights;
    std::vector<BufferId> states;
  };

  void add_scalars();
  void add_roots();
  void add_bucket(std::size_t index, std::int64_t first_element);
  void add_chunk(int chunk);
  void add_block(int chunk, int position, Bytes slot_offset);
  void add_parameters(int chunk, int position);
  BufferId add_tensor(const PartitionedBlock& block, int position, TensorId id, int chunk,
                      Bytes slot_offset);
  BufferId add_stream(const std::string& name, int chunk, Bytes offset);
  Shard stream_shard(const std::string& name) const;
  void add_shifts(std::vector<Op>& ops) const;
  Op lower(const LocalOp& op, int position) const;
  SegmentId add_segment(std::string name, int chunk, std::vector<Op> ops,
                        std::int64_t predicted_ns);
  BufferId buffer_of(int position, TensorId id) const { return buffers_.at({position, id}); }
  bool has_last_block() const;
  // The second copy of a tied tensor: summed and updated, but counted in no norm.
  bool is_second_copy(const BucketLayout& bucket) const;
  const PartitionedBlock& block_at(int position) const;
  std::string label(int position) const;

  const JobSpec& job_;
  const PartitionedGraph& graph_;
  const RankLayout& layout_;
  int pipeline_rank_;
  int pipeline_size_;
  Program program_;
  BufferId loss_, auxiliary_loss_, square_sum_, metrics_, metrics_bits_, token_count_;
  BufferId gradients_, weights_;
  std::vector<BufferId> states_;
  std::vector<Bucket> buckets_;
  std::vector<std::int64_t> next_element_;  // per bucket: where its next parameter goes
  std::vector<ChunkBuffers> chunk_buffers_;
  std::map<std::pair<int, TensorId>, BufferId> buffers_;  // (chain position, tensor)
};

}  // namespace mega::planner
