// Who runs what in which order: the instructions of every pipeline rank for one step, before they
// know any buffer. A pure function of the shape, shared by the cost model and the lowering.
//
// Transfers have queues of their own, so that a receive that is not there yet never holds back a
// send. Neighbours along the ring of pipeline ranks are coloured so that the edge into a rank and
// the edge out of it differ (an odd ring needs a third colour):
//
//   rank 0 ──forward_0──► rank 1 ──forward_1──► rank 2 ──forward_2──► rank 0 (vpp)
//          ◄─backward_0─        ◄─backward_1─        ◄─backward_2─
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mega {

struct ScheduleShape {
  int pp = 1;
  int vpp = 1;
  std::int64_t micro_batches = 1;
  bool overlap_pipeline = false;  // issue each receive one computation early: hides its time,
                                  // holds one more slot
  bool overlap_gradient_reduce = false;  // reduce on a queue of its own
  bool reduces_gradients = false;        // dp or anything else makes gradients partial
  bool has_tied_copies = false;          // first and last stage hold copies of one tensor
  bool gathers_parameters = false;       // at the start of the step, on a queue of its own
  bool operator==(const ScheduleShape&) const = default;
  auto operator<=>(const ScheduleShape&) const = default;
};

// One forward or backward of one chunk on one micro-batch.
struct ComputeStep {
  bool is_forward = true;
  int chunk = 0;
  std::int64_t micro_batch = 0;
  bool operator==(const ComputeStep&) const = default;
};

// Micro-batches that go through a chunk before the next chunk's turn: the least N >= pp with
// m % N == 0 or m % N >= pp (Megatron's rule); m itself when no smaller one is legal, 0 when
// m < pp, which no interleaved schedule allows.
std::int64_t micro_batch_group(int pp, std::int64_t micro_batches);

// 1F1B, interleaved when vpp > 1 (Narayanan et al. 2021): the order of computations of a rank.
std::vector<ComputeStep> compute_order(const ScheduleShape& shape, int rank);

enum class Work : std::uint8_t {
  Prologue,          // zero the gradients, count the tokens
  GatherParameters,  // of one chunk
  Forward,
  Backward,
  SendActivation,
  ReceiveActivation,
  SendGradient,
  ReceiveGradient,
  ReduceGradients,  // of one chunk
  ReduceTied,       // sum the tied copies over the stages that hold one
  Update,
};
std::string to_string(Work work);

struct ScheduledWait {
  int queue = 0;
  int behind = 0;  // as in Wait of ir/plan.h
  bool operator==(const ScheduledWait&) const = default;
};

struct ScheduledInstruction {
  Work work = Work::Forward;
  int queue = 0;
  int chunk = -1;
  std::int64_t micro_batch = -1;
  std::vector<ScheduledWait> waits;
  bool operator==(const ScheduledInstruction&) const = default;
};

struct Schedule {
  ScheduleShape shape;
  std::vector<std::string> queues;                       // labels
  std::vector<std::vector<ScheduledInstruction>> ranks;  // per pipeline rank, in program order
  std::vector<std::vector<int>> slots;  // [pipeline rank][chunk]; micro-batch k is in slot k % n
};

// How long each piece of a schedule takes, whole nanoseconds; [pipeline rank][chunk] or
// [pipeline rank].
struct Durations {
  std::vector<std::vector<std::int64_t>> forward_ns, backward_ns, reduce_ns, gather_ns;
  std::vector<std::int64_t> prologue_ns, update_ns;
  std::int64_t tied_ns = 0;
  std::vector<std::int64_t> transfer_ns;  // of the edge between rank r and r + 1 (modulo pp)
  bool operator==(const Durations&) const = default;
};

bool is_transfer(Work work);
// +1 towards the next pipeline rank, -1 towards the one before.
int hop(Work work);

Schedule build_schedule(const ScheduleShape& shape);

// Schedule::slots alone, without walking more micro-batches than the steady state needs.
std::vector<std::vector<int>> slot_counts(const ScheduleShape& shape);

// "rank 0 | F0 F1 F2 B0 F3 B1 ...": one line per rank, chunks as letters when vpp > 1.
std::string print(const Schedule& schedule);

}  // namespace mega
