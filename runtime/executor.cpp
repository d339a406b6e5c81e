#include "runtime/executor.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "runtime/all_to_all.h"
#include "runtime/describe.h"

namespace mega::runtime {
namespace {

// Every member's data to the next, around the ring.
Status ring_shift(Communicator& communicator, const void* in, void* out, std::int64_t bytes) {
  const int size = communicator.size(), here = communicator.position();
  // A send only reads.
  const TransferCall transfers[] = {{true, (here + 1) % size, const_cast<void*>(in), bytes},
                                    {false, (here + size - 1) % size, out, bytes}};
  return communicator.exchange(transfers);
}

Status run_collective(const ReadyOp& op, std::int64_t slot) {
  Communicator& communicator = *op.communicator;
  const DType dtype = op.call.outputs[0].dtype;
  const Combine combine = op.call.attributes.combine;
  const void* in = op.inputs[0].at(slot);
  void* out = op.outputs[0].at(slot);
  // Both operands are contiguous: only their element counts matter.
  const std::int64_t size = size_of(dtype);
  const std::int64_t in_count = op.inputs[0].bytes.count() / size;
  const std::int64_t out_count = op.outputs[0].bytes.count() / size;
  switch (op.call.kind) {
    case OpKind::AllToAll:
      return all_to_all(op, slot);
    case OpKind::AllToAllV:
      return all_to_all_v(op, slot);
    case OpKind::RingShift:
      return ring_shift(communicator, in, out, op.outputs[0].bytes.count());
    case OpKind::AllReduce:
      return communicator.all_reduce(out, out_count, dtype, combine);
    case OpKind::ReduceScatter:
      return communicator.reduce_scatter(in, out, out_count, dtype, combine);
    default:
      return communicator.all_gather(in, out, in_count, dtype);
  }
}

}  // namespace

Executor::Executor(const Plan& plan, int rank, ReadyProgram program, Device& device, Alarm& alarm,
                   ExecutorOptions options)
    : plan_(plan),
      program_(plan.programs[static_cast<std::size_t>(program_of(plan, rank))]),
      rank_(rank),
      ready_(std::move(program)),
      device_(device),
      alarm_(alarm),
      options_(std::move(options)),
      progress_(plan.queues.size()),
      walk_([this](QueueSet queues) { return walk(*running_, queues); }) {}

void Executor::set_step(const kernels::BatchView& batch, const kernels::Scalars& scalars) {
  batch_ = batch;
  scalars_ = scalars;
}

Status Executor::run(const std::string& name) {
  const auto found =
      std::find_if(ready_.sequences.begin(), ready_.sequences.end(),
                   [&](const ReadySequence& sequence) { return sequence.source->name == name; });
  if (found == ready_.sequences.end()) return Ok{};
  for (Progress& progress : progress_) {
    progress.finished.instruction.store(nullptr, std::memory_order_relaxed);
    progress.current.instruction.store(nullptr, std::memory_order_relaxed);
  }
  if (options_.poison) device_.poison(ready_.transient.base, ready_.transient.bytes);
  running_ = &*found;
  return device_.drive(walk_);
}

Status Executor::walk(ReadySequence& sequence, QueueSet queues) {
  Counts issued{};
  for (ReadyLoop& loop : sequence.loops) {
    for (std::int64_t turn = 0; turn < loop.turns; ++turn) {
      for (ReadyInstruction& instruction : loop.body) {
        if (queues.contains(instruction.queue)) {
          MEGA_TRY_STATUS(step(instruction, turn, issued));
        }
        ++issued[static_cast<std::size_t>(instruction.queue)];
      }
    }
  }
  return Ok{};
}

Status Executor::step(ReadyInstruction& instruction, std::int64_t turn, const Counts& issued) {
  Progress& progress = progress_[static_cast<std::size_t>(instruction.queue)];
  progress.current.turn.store(turn, std::memory_order_relaxed);
  progress.current.instruction.store(instruction.source, std::memory_order_relaxed);
  for (const Wait& wait : instruction.source->waits) {
    const std::int64_t count = issued[static_cast<std::size_t>(wait.queue.index)] - wait.behind;
    MEGA_TRY_STATUS(device_.wait(instruction.queue, wait.queue.index, count));
  }
  if (alarm_.raised()) return alarm_.errors();
  if (options_.baton != nullptr) options_.baton->take(instruction.position);
  Status status = execute(instruction, turn);
  if (options_.baton != nullptr) options_.baton->drop();
  if (!status.ok()) return fail(std::move(status).errors(), instruction, turn);
  progress.finished.turn.store(turn, std::memory_order_relaxed);
  progress.finished.instruction.store(instruction.source, std::memory_order_relaxed);
  progress.current.instruction.store(nullptr, std::memory_order_relaxed);
  device_.finish_instruction(instruction.queue);
  return Ok{};
}

// Exceptions end here: a queue's thread has nobody to catch them.
Status Executor::execute(ReadyInstruction& instruction, std::int64_t turn) {
  try {
    if (options_.before) {
      MEGA_TRY_STATUS(options_.before(rank_, *instruction.source, turn));
    }
    return std::visit([&](auto& body) { return run_body(body, instruction.queue, turn); },
                      instruction.body);
  } catch (const std::exception& error) {
    return failure("threw '" + std::string(error.what()) + "'");
  }
}

Status Executor::run_body(const ReadyRun& ready, int queue, std::int64_t turn) {
  const Run& run = *ready.run;
  const std::int64_t slot = run.slot ? run.slot->at(turn) : 0;
  const std::int64_t micro_batch = run.micro_batch ? run.micro_batch->at(turn) : 0;
  if (options_.poison) {
    for (const Place& place : ready.segment->fresh) device_.poison(place.at(slot), place.bytes);
  }
  for (const ReadyOp& op : ready.segment->ops) {
    if (alarm_.raised()) return alarm_.errors();
    if (op.communicator != nullptr) {
      MEGA_TRY_STATUS(run_collective(op, slot));
      continue;
    }
    // A copy on the stack: two queues may run one segment at once.
    kernels::Call call = op.call;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) call.inputs[i].data = op.inputs[i].at(slot);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      call.outputs[i].data = op.outputs[i].at(slot);
    }
    call.batch = batch_;
    call.scalars = scalars_;
    call.scalars.micro_batch = micro_batch;
    device_.run(queue, call);
  }
  return Ok{};
}

Status Executor::run_body(ReadyExchange& exchange, int /*queue*/, std::int64_t turn) {
  for (std::size_t i = 0; i < exchange.transfers.size(); ++i) {
    const ReadyTransfer& ready = exchange.transfers[i];
    const std::optional<Affine>& slot = ready.transfer->slot;
    std::byte* data = ready.place.at(slot ? slot->at(turn) : 0);
    if (options_.poison && !ready.transfer->is_send) device_.poison(data, ready.place.bytes);
    exchange.calls[i].data = data;
  }
  return exchange.communicator->exchange(exchange.calls);
}

// Raises the alarm in this rank's name, unless another failure came first.
Status Executor::fail(Errors errors, const ReadyInstruction& instruction, std::int64_t turn) {
  if (!alarm_.raised()) {
    const std::string place = describe_rank(plan_, rank_) + ", " +
                              describe(plan_, program_, *instruction.source, turn) + ": ";
    for (Diagnostic& error : errors) error.message = place + error.message;
    alarm_.raise(std::move(errors));
  }
  return alarm_.errors();
}

std::string Executor::describe_position(const Position& position) const {
  const Instruction* instruction = position.instruction.load(std::memory_order_relaxed);
  if (instruction == nullptr) return {};
  return describe(plan_, program_, *instruction, position.turn.load(std::memory_order_relaxed));
}

std::vector<std::string> Executor::progress() const {
  std::vector<std::string> lines;
  for (std::size_t queue = 0; queue < progress_.size(); ++queue) {
    const std::string finished = describe_position(progress_[queue].finished);
    const std::string current = describe_position(progress_[queue].current);
    if (finished.empty() && current.empty()) continue;
    lines.push_back(plan_.queues[queue] + ": " +
                    (finished.empty() ? "finished nothing" : "finished " + finished) + ", " +
                    (current.empty() ? "at its end" : "in " + current));
  }
  return lines;
}

}  // namespace mega::runtime
