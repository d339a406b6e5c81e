// Runs one rank's sequences: walks the instructions, counts the loops, and decides nothing.
//
//   for each loop, turn, instruction of my queues:
//     hold the queue up for its waits │ run the ops or the transfers │ count it as finished
//
// Several threads walk the same sequence at once, one per queue on a CPU; each keeps its own
// count of what has been issued to which queue, so that waits mean the same to all of them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "runtime/alarm.h"
#include "runtime/baton.h"
#include "runtime/device.h"
#include "runtime/ready.h"

namespace mega::runtime {

// Called before each instruction of a rank: tests stall or fail a rank here.
using InstructionHook = std::function<Status(int rank, const Instruction&, std::int64_t turn)>;

struct ExecutorOptions {
  bool poison = false;     // fill what a segment will overwrite with NaN first
  Baton* baton = nullptr;  // one operation at a time
  InstructionHook before = {};
};

class Executor {
 public:
  Executor(const Plan& plan, int rank, ReadyProgram program, Device& device, Alarm& alarm,
           ExecutorOptions options);

  // The numbers of the next run.
  void set_step(const kernels::BatchView& batch, const kernels::Scalars& scalars);
  // Runs the sequence to its end, or until the alarm. Does nothing if the program has none.
  Status run(const std::string& sequence);
  // Per queue: the instruction finished last and the one under way. While it runs, from anywhere.
  std::vector<std::string> progress() const;

 private:
  struct Position {
    std::atomic<const Instruction*> instruction{nullptr};
    std::atomic<std::int64_t> turn{0};
  };
  struct Progress {
    Position finished;
    Position current;
  };

  using Counts = std::array<std::int64_t, kMaxQueues>;

  Status walk(ReadySequence& sequence, QueueSet queues);
  Status step(ReadyInstruction& instruction, std::int64_t turn, const Counts& issued);
  Status execute(ReadyInstruction& instruction, std::int64_t turn);
  std::string describe_position(const Position& position) const;
  Status run_body(const ReadyRun& ready, int queue, std::int64_t turn);
  Status run_body(ReadyExchange& exchange, int queue, std::int64_t turn);
  Status fail(Errors errors, const ReadyInstruction& instruction, std::int64_t turn);

  const Plan& plan_;
  const Program& program_;
  int rank_;
  ReadyProgram ready_;
  Device& device_;
  Alarm& alarm_;
  ExecutorOptions options_;
  kernels::BatchView batch_;
  kernels::Scalars scalars_;
  std::vector<Progress> progress_;
  ReadySequence* running_ = nullptr;
  Device::Walk walk_;
};

}  // namespace mega::runtime
