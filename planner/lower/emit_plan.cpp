#include "planner/lower/emit_plan.h"

#include <array>
#include <utility>

#include "ir/base/check.h"
#include "planner/lower/program_builder.h"

namespace mega::planner {
namespace {

// Segments of one program by the work that runs them.
struct Segments {
  SegmentId begin, tied, update;
  std::vector<SegmentId> forward, backward, weight, reduce, gather;  // per chunk
};

SegmentId segment_of(const Segments& segments, const ScheduledInstruction& instruction) {
  const std::size_t chunk = static_cast<std::size_t>(instruction.chunk);
  switch (instruction.work) {
    case Work::Prologue:
      return segments.begin;
    case Work::Forward:
      return segments.forward[chunk];
    case Work::Backward:
      return segments.backward[chunk];
    case Work::WeightGradient:
      return segments.weight[chunk];
    case Work::ReduceGradients:
      return segments.reduce[chunk];
    case Work::GatherParameters:
      return segments.gather[chunk];
    case Work::ReduceTied:
      return segments.tied;
    case Work::Update:
      return segments.update;
    case Work::SendActivation:
    case Work::ReceiveActivation:
    case Work::SendGradient:
    case Work::ReceiveGradient:
      break;
  }
  MEGA_CHECK(false, "a transfer runs no segment");
}

Transfer transfer_of(const ScheduleShape& shape, const SlotBuffers& buffers,
                     const ScheduledInstruction& instruction) {
  Transfer transfer;
  transfer.is_send =
      instruction.work == Work::SendActivation || instruction.work == Work::SendGradient;
  transfer.hop = hop(shape, instruction.chunk, instruction.work);
  transfer.micro_batch = Affine{instruction.micro_batch, 0};
  transfer.slot = Affine{instruction.micro_batch, 0};
  transfer.buffer = instruction.work == Work::SendActivation      ? buffers.output
                    : instruction.work == Work::ReceiveActivation ? buffers.input
                                                                  : buffers.gradient;
  return transfer;
}

Instruction lower(const ScheduledInstruction& scheduled, const ScheduleShape& shape,
                  const ProgramBuilder& builder, const Segments& segments, int pipeline_axis,
                  std::int64_t transfer_ns) {
  Instruction instruction;
  instruction.queue = QueueId{scheduled.queue};
  for (const ScheduledWait& wait : scheduled.waits) {
    instruction.waits.push_back({QueueId{wait.queue}, wait.behind});
  }
  if (is_transfer(scheduled.work)) {
    Exchange exchange;
    exchange.axis = pipeline_axis;
    exchange.transfers = {transfer_of(shape, builder.buffers_of_chunk(scheduled.chunk), scheduled)};
    exchange.predicted_ns = transfer_ns;
    instruction.body = std::move(exchange);
    return instruction;
  }
  Run run;
  run.segment = segment_of(segments, scheduled);
  if (scheduled.micro_batch >= 0) {
    run.micro_batch = Affine{scheduled.micro_batch, 0};
    run.slot = Affine{scheduled.micro_batch, 0};
  }
  instruction.body = run;
  return instruction;
}

Program emit_program(const JobSpec& job, const PartitionedGraph& graph, const Strategy& strategy,
                     const Schedule& schedule, const Durations& durations, int rank) {
  const std::size_t r = static_cast<std::size_t>(rank);
  const RankLayout layout =
      lay_out_rank(graph, chunks_of_rank(strategy, rank), optimizer_states(job.training.optimizer));
  ProgramBuilder builder(job, graph, layout, rank, strategy.pp);
  if (schedule.shape.gathers_parameters) builder.gather_at_start();
  builder.add_buffers();
  for (std::size_t i = 0; i < layout.slots.size(); ++i) {
    builder.program().chunks[i].slot_count = schedule.slots[r][i];
  }
  const SegmentId init = builder.add_init();
  Segments segments;
  const std::int64_t labels =
      schedule.shape.micro_batches * strategy.micro_batch * job.training.sequence_length;
  segments.begin = builder.add_begin(labels, durations.prologue_ns[r]);
  for (std::size_t c = 0; c < layout.chunks.size(); ++c) {
    const int chunk = static_cast<int>(c);
    segments.forward.push_back(builder.add_forward(chunk, durations.forward_ns[r][c]));
    segments.backward.push_back(builder.add_backward(chunk, durations.backward_ns[r][c]));
    if (splits_backward(strategy.schedule)) {
      segments.weight.push_back(builder.add_weight_gradient(chunk, durations.weight_ns[r][c]));
    }
    if (schedule.shape.gathers_parameters) {
      segments.gather.push_back(builder.add_gather(chunk, durations.gather_ns[r][c]));
    }
    if (schedule.shape.reduces_gradients) {
      segments.reduce.push_back(builder.add_reduce(chunk, durations.reduce_ns[r][c]));
    }
  }
  const bool holds_tied =
      schedule.shape.has_tied_copies && strategy.pp > 1 && (rank == 0 || rank == strategy.pp - 1);
  if (holds_tied) segments.tied = builder.add_tied(durations.tied_ns);
  segments.update = builder.add_update(durations.update_ns[r]);

  const int pipeline_axis = axis_index(graph.mesh, "pp");
  std::vector<Instruction> instructions;
  for (const ScheduledInstruction& scheduled : schedule.ranks[r]) {
    std::int64_t transfer_ns = 0;
    if (is_transfer(scheduled.work)) {
      const int edge = edge_of(schedule.shape, rank, scheduled.chunk, scheduled.work);
      transfer_ns = durations.transfer_ns[static_cast<std::size_t>(edge)];
    }
    instructions.push_back(
        lower(scheduled, schedule.shape, builder, segments, pipeline_axis, transfer_ns));
  }
  Run run_init;
  run_init.segment = init;
  Instruction initialize;
  initialize.queue = QueueId{0};
  initialize.body = run_init;
  builder.program().sequences = {{"init", {initialize}},
                                 {"train", compress(std::move(instructions))}};
  return builder.take();
}

}  // namespace

Plan emit_plan(const JobSpec& job, const PartitionedGraph& graph, const Strategy& strategy,
               const Schedule& schedule, const Durations& durations) {
  Plan plan;
  Header& header = plan.header;
  header.job = job.name;
  header.fingerprint = job.fingerprint;
  header.precision = job.training.precision;
  header.seed = job.training.seed;
  header.global_batch = job.training.global_batch;
  header.sequence_length = job.training.sequence_length;
  header.vocab = job.model.vocab;
  header.threads_per_rank = job.cluster ? job.cluster->threads_per_rank : 1;
  header.weight_decay = job.training.optimizer.weight_decay;
  const ScheduleSpec& rate = job.training.optimizer.schedule;
  header.schedule = {.kind = rate.kind,
                     .learning_rate = job.training.optimizer.learning_rate,
                     .min_learning_rate = rate.min_learning_rate,
                     .warmup_steps = rate.warmup_steps,
                     .decay_steps = rate.decay_steps};
  plan.meshes = {graph.mesh};
  if (!graph.experts.axes.empty()) plan.meshes.push_back(graph.experts);
  plan.queues = schedule.queues;
  plan.by = graph.pipeline;
  for (int rank = 0; rank < strategy.pp; ++rank) {
    plan.programs.push_back(emit_program(job, graph, strategy, schedule, durations, rank));
    plan.assignment.push_back(rank);
  }
  return plan;
}

}  // namespace mega::planner
