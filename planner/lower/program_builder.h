// The buffers and segments of one pipeline rank's program: those of blocks in program_builder.cpp,
// parameters and their buckets in _parameters, what runs once a step in _step.
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

Buffer persistent_buffer(std::string name, DType dtype, Shape shape, Bytes offset,
                         BufferId parent = {});

// What transfers of the chunks that work in a slot move.
struct SlotBuffers {
  BufferId input;     // stream received
  BufferId output;    // stream sent
  BufferId gradient;  // gradient of the stream, received and sent
};

class ProgramBuilder {
 public:
  ProgramBuilder(const JobSpec& job, const PartitionedGraph& graph, const RankLayout& layout,
                 int pipeline_rank, int pipeline_size);

  // Weights are gathered at the start of the step that uses them, not at the end of the one that
  // changed them: in between, only the own parts count.
  void gather_at_start() { gathers_at_start_ = true; }
  void add_buffers();
  // Each adds one segment and returns its id.
  SegmentId add_init();
  SegmentId add_begin(std::int64_t labels_per_rank, std::int64_t predicted_ns);
  SegmentId add_forward(int chunk, std::int64_t predicted_ns);
  SegmentId add_backward(int chunk, std::int64_t predicted_ns);
  SegmentId add_weight_gradient(int chunk, std::int64_t predicted_ns);
  SegmentId add_reduce(int chunk, std::int64_t predicted_ns);
  SegmentId add_gather(int chunk, std::int64_t predicted_ns);
  SegmentId add_tied(std::int64_t predicted_ns);
  SegmentId add_update(std::int64_t predicted_ns);

  const SlotBuffers& buffers_of_chunk(int chunk) const {
    return slot_buffers_[static_cast<std::size_t>(slot_of(chunk))];
  }
  Program take() { return std::move(program_); }
  Program& program() { return program_; }

 private:
  // The own parts are the whole where nothing is cut.
  struct Bucket {
    BufferId gradients, own_gradients, weights, own_weights;
    std::vector<BufferId> states;
  };
  using Ops = std::vector<Op>;

  void add_scalars();
  void add_roots();
  void add_buckets();
  void add_bucket(std::size_t index, const BucketShare& first);
  BufferId add_own_part(BufferId whole, const BucketClass& bucket);
  void add_slot(int slot);
  void add_block(int slot, int position, Bytes slot_offset);
  void add_parameters(int position);
  void add_parameter(const LocalParameter& parameter, int position, std::size_t bucket,
                     std::int64_t element);
  void annotate_part(const Buffer& whole, BufferId part, const BucketClass& bucket,
                     const Shard& shard);
  void add_shards(int position);
  BufferId add_view(int position, TensorId id, int slot, Bytes slot_offset);
  // Whether the head's use of a tied tensor is of the embedding's copy.
  bool shares_tied(int position, const BucketClass& bucket) const;
  std::size_t bucket_of(int position, const BucketClass& bucket) const;
  BufferId add_tensor(const PartitionedBlock& block, int position, TensorId id, int slot,
                      Bytes slot_offset);
  BufferId add_stream(const std::string& name, int slot, Bytes offset);
  Shard stream_shard(const std::string& name) const;
  void add_shifts(std::vector<Op>& ops) const;
  Op lower(const LocalOp& op, int position) const;
  void initialize(const LocalParameter& parameter, int position, Ops& ops) const;
  void initialize(const ShardedBucket& sharded, int position, Ops& ops) const;
  void add_reductions(std::size_t bucket, Ops& ops) const;
  void add_gathers(std::size_t bucket, Ops& ops) const;
  Op optimizer_op(std::size_t bucket) const;
  SegmentId add_segment(std::string name, int chunk, std::vector<Op> ops,
                        std::int64_t predicted_ns);
  BufferId buffer_of(int position, TensorId id) const { return buffers_.at({position, id}); }
  int slot_of(int chunk) const { return layout_.chunks[static_cast<std::size_t>(chunk)].slot; }
  int chunk_of(int position) const;  // whose block it is
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
  std::vector<std::int64_t> next_element_;  // per bucket: where its next block's part begins
  std::vector<SlotBuffers> slot_buffers_;
  std::map<std::pair<int, TensorId>, BufferId> buffers_;      // (chain position, tensor)
  std::map<std::pair<int, TensorId>, BufferId> own_weights_;  // parts of whole weights in scratch
  bool gathers_at_start_ = false;
};

}  // namespace mega::planner
