// What the proofs of a plan share: the list of violations, the names of places, and sequences with
// their loops counted out. Internal to plan_verify.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"
#include "ir/plan.h"

namespace mega::verifying {

// One execution of an instruction by a program.
struct Instance {
  const Instruction* instruction = nullptr;
  int number = 0;             // of the instruction in the text of its sequence, from 1
  std::int64_t turn = -1;     // of the loop; -1 outside
  std::int32_t position = 0;  // among the instances of its queue
  int queue() const { return instruction->queue.index; }
};

// A sequence with its loops counted out, and what surely has ended when each instance starts.
//
// Clocks are the usual vector clocks with one entry per queue: entry q of an instance says how
// many instructions of queue q have ended before it starts, by the order within queues and by the
// waits, whatever the timing.
class Unrolled {
 public:
  Unrolled(const Plan& plan, const Sequence& sequence);
  const std::string& name() const { return *name_; }
  const std::vector<Instance>& instances() const { return instances_; }
  // On `queue`, in order: numbers into instances().
  const std::vector<std::int32_t>& on_queue(int queue) const;
  std::int32_t ended(std::int32_t instance, int queue) const;
  bool is_before(std::int32_t a, std::int32_t b) const;  // a has ended when b starts

 private:
  void add(const Instruction& instruction, int number, std::int64_t turn);

  const std::string* name_;
  std::vector<Instance> instances_;
  std::vector<std::vector<std::int32_t>> on_queue_;
  std::vector<std::int32_t> clocks_;  // [instance][queue]
};

class Report {
 public:
  Report(const Plan& plan, std::string file) : plan_(plan), file_(std::move(file)) {}

  void add(std::string message, std::string help = {});
  void add(std::string message, std::vector<std::string> notes, std::string help = {});
  // The same mistake in the other turns of a loop or on other ranks is not worth a line.
  bool is_new(const std::string& kind) { return seen_.insert(kind).second; }
  std::size_t size() const { return count_; }
  std::vector<Diagnostic> take();

  // "stage2 (pp=2)": the program, and where along Plan::by it first runs.
  std::string program(int number) const;
  std::string program_at(int number, int position) const;
  // "train instruction 14 (i=3), run b1 mb=3 slot=1"
  std::string instance(int program, const Unrolled& sequence, std::int32_t instance) const;
  std::string op(int program, SegmentId segment, std::size_t op) const;

 private:
  const Plan& plan_;
  std::string file_;
  std::vector<Diagnostic> diagnostics_;
  std::size_t count_ = 0;
  std::set<std::string> seen_;
};

// A name for a message: as it is, in quotes when it is odd.
std::string named(const std::string& name);

}  // namespace mega::verifying
