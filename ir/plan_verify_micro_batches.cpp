#include <algorithm>
#include <map>
#include <utility>

#include "ir/plan_verify_proofs.h"

namespace mega::verifying {
namespace {

// What one chunk of one program has seen.
struct Seen {
  std::vector<bool> micro_batches;
  bool has(std::int64_t micro_batch) const {
    return micro_batch < static_cast<std::int64_t>(micro_batches.size()) &&
           micro_batches[static_cast<std::size_t>(micro_batch)];
  }
  void add(std::int64_t micro_batch) {
    const auto index = static_cast<std::size_t>(micro_batch);
    if (index >= micro_batches.size()) micro_batches.resize(index + 1);
    micro_batches[index] = true;
  }
};

class MicroBatches {
 public:
  MicroBatches(const Plan& plan, const UnrolledSequences& sequence, Report& report)
      : plan_(plan), sequence_(sequence), report_(report) {}

  void check() {
    for (std::size_t p = 0; p < plan_.programs.size(); ++p) {
      if (sequence_[p]) collect(static_cast<int>(p), *sequence_[p]);
    }
    for (const auto& [chunk, seen] : chunks_) {
      count_ = std::max(count_, static_cast<std::int64_t>(seen.micro_batches.size()));
    }
    for (const auto& [chunk, seen] : chunks_) covers(chunk.first, chunk.second, seen);
  }

 private:
  void collect(int program, const Unrolled& sequence) {
    const Program& of = plan_.programs[static_cast<std::size_t>(program)];
    std::vector<Seen> segments(of.segments.size());
    for (std::size_t i = 0; i < sequence.instances().size(); ++i) {
      const Instance& instance = sequence.instances()[i];
      const auto* run = std::get_if<Run>(&instance.instruction->body);
      if (run == nullptr || !run->micro_batch) continue;
      const int chunk = of.segments[run->segment].chunk;
      if (chunk < 0) continue;  // refused elsewhere
      const auto micro_batch = run->micro_batch->at(std::max<std::int64_t>(0, instance.turn));
      // Nothing has more micro-batches than instructions that run them.
      const auto most = static_cast<std::int64_t>(sequence.instances().size());
      const auto number = static_cast<std::int32_t>(i);
      if (micro_batch < 0 || micro_batch >= most) {
        refuse(program, sequence, number, "there is no such micro-batch");
        continue;
      }
      Seen& seen = segments[static_cast<std::size_t>(run->segment.index)];
      if (seen.has(micro_batch)) {
        refuse(program, sequence, number, "the segment has run on this micro-batch before");
      }
      seen.add(micro_batch);
      chunks_[{program, chunk}].add(micro_batch);
    }
  }

  void refuse(int program, const Unrolled& sequence, std::int32_t instance, const char* reason) {
    report_.add(report_.program(program) + ": " + report_.instance(program, sequence, instance) +
                ": " + reason);
  }

  void covers(int program, int chunk, const Seen& seen) {
    const Program& of = plan_.programs[static_cast<std::size_t>(program)];
    for (std::int64_t m = 0; m < count_; ++m) {
      if (seen.has(m)) continue;
      report_.add(report_.program(program) + ": chunk " +
                  named(of.chunks[static_cast<std::size_t>(chunk)].name) +
                  " never runs micro-batch " + std::to_string(m) + " of " + std::to_string(count_));
      return;
    }
  }

  const Plan& plan_;
  const UnrolledSequences& sequence_;
  Report& report_;
  std::map<std::pair<int, int>, Seen> chunks_;  // by program and chunk
  std::int64_t count_ = 0;
};

}  // namespace

void check_micro_batches(const Plan& plan, const UnrolledSequences& sequence, Report& report) {
  MicroBatches(plan, sequence, report).check();
}

}  // namespace mega::verifying
