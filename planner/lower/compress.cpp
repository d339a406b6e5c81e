// Finds the loops of a program: the steady state of a schedule, whatever its period.
#include <map>
#include <optional>
#include <utility>

#include "planner/lower/emit_plan.h"

namespace mega::planner {
namespace {

// Micro-batch of an instruction; none for those that belong to the step as a whole.
std::optional<std::int64_t> micro_batch_of(const Instruction& instruction) {
  if (const Run* run = std::get_if<Run>(&instruction.body)) {
    if (!run->micro_batch) return std::nullopt;
    return run->micro_batch->base;
  }
  return std::get<Exchange>(instruction.body).transfers.front().micro_batch->base;
}

// Everything of an instruction but its micro-batch.
std::vector<std::int64_t> key_of(const Instruction& instruction) {
  std::vector<std::int64_t> key = {instruction.queue.index};
  for (const Wait& wait : instruction.waits) {
    key.push_back(wait.queue.index);
    key.push_back(wait.behind);
  }
  key.push_back(-1);
  if (const Run* run = std::get_if<Run>(&instruction.body)) {
    key.push_back(run->segment.index);
    return key;
  }
  const Exchange& exchange = std::get<Exchange>(instruction.body);
  key.insert(key.end(), {-1, exchange.axis, exchange.predicted_ns});
  for (const Transfer& transfer : exchange.transfers) {
    key.insert(key.end(), {transfer.buffer.index, transfer.hop, transfer.is_send ? 1 : 0});
  }
  return key;
}

// The instruction at a turn's start, counting on by `step` a turn.
Instruction with_step(Instruction instruction, std::int64_t step) {
  const auto set = [&](std::optional<Affine>& affine) {
    if (affine) affine->step = step;
  };
  if (Run* run = std::get_if<Run>(&instruction.body)) {
    set(run->micro_batch);
    set(run->slot);
  } else {
    for (Transfer& transfer : std::get<Exchange>(instruction.body).transfers) {
      set(transfer.micro_batch);
      set(transfer.slot);
    }
  }
  return instruction;
}

class Compressor {
 public:
  explicit Compressor(std::vector<Instruction> instructions)
      : instructions_(std::move(instructions)) {
    // Instructions alike but for their micro-batch get one kind; comparing is then cheap.
    std::map<std::vector<std::int64_t>, int> kinds;
    for (const Instruction& instruction : instructions_) {
      micro_batch_.push_back(micro_batch_of(instruction));
      const int next = static_cast<int>(kinds.size());
      kind_.push_back(kinds.emplace(key_of(instruction), next).first->second);
    }
    next_same_.assign(kind_.size(), kind_.size());
    std::vector<std::size_t> seen(kinds.size(), kind_.size());
    for (std::size_t i = kind_.size(); i-- > 0;) {
      next_same_[i] = seen[static_cast<std::size_t>(kind_[i])];
      seen[static_cast<std::size_t>(kind_[i])] = i;
    }
  }

  std::vector<Step> run() {
    std::vector<Step> steps;
    for (std::size_t i = 0; i < instructions_.size();) {
      const Loop loop = best_loop(i);
      if (loop.count < 2) {
        steps.emplace_back(instructions_[i++]);
        continue;
      }
      Repeat repeat;
      repeat.count = static_cast<std::int64_t>(loop.count);
      for (std::size_t j = i; j < i + loop.period; ++j) {
        repeat.body.push_back(with_step(instructions_[j], loop.step));
      }
      steps.emplace_back(std::move(repeat));
      i += loop.period * loop.count;
    }
    return steps;
  }

 private:
  struct Loop {
    std::size_t period = 1, count = 1;
    std::int64_t step = 0;
    std::size_t saved() const { return period * (count - 1); }
  };

  // How far the program repeats itself at distance `period` with micro-batches `step` apart.
  Loop loop_at(std::size_t start, std::size_t period) const {
    if (!micro_batch_[start] || !micro_batch_[start + period]) return {};
    const std::int64_t step = *micro_batch_[start + period] - *micro_batch_[start];
    std::size_t i = start;
    while (i + period < kind_.size() && kind_[i] == kind_[i + period] && micro_batch_[i] &&
           micro_batch_[i + period] && *micro_batch_[i + period] - *micro_batch_[i] == step) {
      ++i;
    }
    return {period, (i - start) / period + 1, step};
  }

  Loop best_loop(std::size_t start) const {
    constexpr int kTries = 64;  // candidates: distances to the next instructions of the same kind
    Loop best;
    std::size_t next = next_same_[start];
    for (int i = 0; i < kTries && next < kind_.size(); ++i, next = next_same_[next]) {
      const Loop loop = loop_at(start, next - start);
      if (loop.count >= 2 && loop.saved() > best.saved()) best = loop;
      // Longer periods can't do better once the rest of the program is covered.
      if (best.period * best.count >= (kind_.size() - start) / 2) break;
    }
    return best;
  }

  std::vector<Instruction> instructions_;
  std::vector<std::optional<std::int64_t>> micro_batch_;
  std::vector<int> kind_;
  std::vector<std::size_t> next_same_;
};

}  // namespace

std::vector<Step> compress(std::vector<Instruction> instructions) {
  return Compressor(std::move(instructions)).run();
}

}  // namespace mega::planner
