// A rank's program with everything looked up: what the executor walks.
//
// Built once when a session opens. Operands are addresses, groups are communicators, origins and
// owners are this rank's numbers; a step only adds slot * stride and counts loops. Nothing here
// is expanded: a loop of the plan stays a loop.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "ir/plan.h"
#include "kernels/call.h"
#include "runtime/communicator.h"

namespace mega::runtime {

// Bytes in the arena that repeat once per slot.
struct Place {
  std::byte* base = nullptr;
  std::int64_t stride = 0;  // between slots; 0 outside of them
  std::int64_t slots = 1;
  Bytes bytes;
  std::byte* at(std::int64_t slot) const { return base + stride * (slot % slots); }
};

struct ReadyOp {
  kernels::Call call;  // all but the addresses and the step's numbers
  std::vector<Place> inputs;
  std::vector<Place> outputs;
  Index index;                           // call.index points here
  std::vector<std::int64_t> box_start;   // call.box.start points here
  Communicator* communicator = nullptr;  // of a collective
  std::string output_name;               // its buffer, for messages
};

struct ReadySegment {
  std::vector<ReadyOp> ops;
  // What the segment overwrites without reading it first: under --check poisoned before the run.
  std::vector<Place> fresh;
};

struct ReadyRun {
  const Run* run = nullptr;
  const ReadySegment* segment = nullptr;
};

struct ReadyTransfer {
  const Transfer* transfer = nullptr;
  Place place;
};

struct ReadyExchange {
  Communicator* communicator = nullptr;
  std::vector<ReadyTransfer> transfers;
  std::vector<TransferCall> calls;  // addresses are filled in per run
};

struct ReadyInstruction {
  const Instruction* source = nullptr;
  int queue = 0;
  std::int64_t position = 0;  // in program order, loops counted once
  std::variant<ReadyRun, ReadyExchange> body;
};

// A single instruction is a loop of one turn.
struct ReadyLoop {
  std::int64_t turns = 1;
  std::vector<ReadyInstruction> body;
};

struct ReadySequence {
  const Sequence* source = nullptr;
  std::vector<ReadyLoop> loops;
};

struct ReadyProgram {
  std::vector<std::vector<ReadySegment>> segments;  // [queue][segment]; empty where not run
  std::vector<ReadySequence> sequences;
  Place transient;  // scratch and slots: nothing in there outlives a sequence
};

// Which communicators a program needs: pairs of group and queue, sorted, without repeats.
struct GroupOnQueue {
  int queue = 0;
  Group group;
  auto operator<=>(const GroupOnQueue&) const = default;
};
std::vector<GroupOnQueue> groups_of(const Program& program);

// The queues that a program's instructions name.
std::uint64_t queues_of(const Program& program);

// `plan` must outlive the result. `communicator_for` finds what groups_of() named.
using CommunicatorFor = std::function<Communicator*(const GroupOnQueue&)>;
ReadyProgram make_ready(const Plan& plan, int rank, std::byte* arena,
                        const CommunicatorFor& communicator_for);

Place place_of(const Plan& plan, int rank, BufferId buffer, std::byte* arena);

// Global start of a rank's part of a sharded buffer, per dimension.
std::vector<std::int64_t> shard_start(const Plan& plan, const Buffer& buffer, int rank);

}  // namespace mega::runtime
