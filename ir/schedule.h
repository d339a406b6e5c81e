// Who runs what in which order: the instructions of every pipeline rank for one step, before they
// know any buffer. A pure function of the shape, shared by the cost model and the lowering.
//
// Transfers have queues of their own, so that a receive that is not there yet never holds back a
// send. Neighbours along the ring of pipeline ranks are coloured so that the edge into a rank and
// the edge out of it differ (an odd ring needs a third colour):
//
//   rank 0 ──forward_0──► rank 1 ──forward_1──► rank 2 ──forward_2──► rank 0 (vpp)
//          ◄─backward_0─        ◄─backward_1─        ◄─backward_2─
//
// In a V the ring stays open and each chunk has colours of its own, as the two go opposite ways.
// At its bottom the last rank's two chunks are neighbours: nothing is sent, and they share a slot.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/schedule_order.h"

namespace mega {

enum class Work : std::uint8_t {
  Prologue,          // zero the gradients, count the tokens
  GatherParameters,  // of one chunk
  Forward,
  Backward,
  WeightGradient,
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
  std::vector<std::vector<int>> slots;  // [pipeline rank][slot_owner]; micro-batch k is in k % n
};

// How long each piece of a schedule takes, whole nanoseconds; [pipeline rank][chunk] or
// [pipeline rank].
struct Durations {
  std::vector<std::vector<std::int64_t>> forward_ns, backward_ns, weight_ns, reduce_ns, gather_ns;
  std::vector<std::int64_t> prologue_ns, update_ns;
  std::int64_t tied_ns = 0;
  std::vector<std::int64_t> transfer_ns;  // of the edge between rank r and r + 1 (modulo pp)
  bool operator==(const Durations&) const = default;
};

bool is_transfer(Work work);
// Of a transfer: +1 towards the next pipeline rank, -1 towards the one before.
int hop(const ScheduleShape& shape, int chunk, Work work);
// Of a transfer of `rank`: the edge it goes over; edge r joins pipeline rank r to r + 1 modulo pp.
int edge_of(const ScheduleShape& shape, int rank, int chunk, Work work);

// Whose slot a chunk works in: its own, but at the bottom of a V the first chunk's.
int slot_owner(ScheduleKind kind, int pp, StagePlace place);

Schedule build_schedule(const ScheduleShape& shape);

// Schedule::slots alone, without walking more micro-batches than the steady state needs.
std::vector<std::vector<int>> slot_counts(const ScheduleShape& shape);

// "rank 0 | F0 F1 F2 B0 F3 B1 ...": one line per rank, chunks as letters when vpp > 1, W for the
// weight gradients that a split backward leaves.
std::string print(const Schedule& schedule);

}  // namespace mega
