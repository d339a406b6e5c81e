// What the pieces of a schedule are called and where they go.
#include <array>
#include <cstddef>

#include "ir/schedule.h"

namespace mega {
namespace {

const char* name_of_pass(Work work) {
  if (work == Work::Forward) return " F";
  if (work == Work::Backward) return " B";
  return work == Work::WeightGradient ? " W" : nullptr;
}

}  // namespace

std::string to_string(Work work) {
  constexpr std::array kNames = {"prologue",           "gather_parameters", "forward",
                                 "backward",           "weight_gradient",   "send_activation",
                                 "receive_activation", "send_gradient",     "receive_gradient",
                                 "reduce_gradients",   "reduce_tied",       "update"};
  static_assert(kNames.size() == static_cast<std::size_t>(Work::Update) + 1);
  return kNames[static_cast<std::size_t>(work)];
}

bool is_transfer(Work work) {
  return work == Work::SendActivation || work == Work::ReceiveActivation ||
         work == Work::SendGradient || work == Work::ReceiveGradient;
}

int hop(const ScheduleShape& shape, int chunk, Work work) {
  if (!is_transfer(work)) return 0;
  const bool is_up = work == Work::SendActivation || work == Work::ReceiveGradient;
  const bool turns = is_folded(shape.kind) && chunk == 1;  // the way back
  return is_up != turns ? 1 : -1;
}

int edge_of(const ScheduleShape& shape, int rank, int chunk, Work work) {
  return hop(shape, chunk, work) > 0 ? rank : (rank + shape.pp - 1) % shape.pp;
}

int slot_owner(ScheduleKind kind, int pp, StagePlace place) {
  return is_folded(kind) && place.rank == pp - 1 ? 0 : place.chunk;
}

std::string print(const Schedule& schedule) {
  std::string text;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    text += "rank " + std::to_string(rank) + " |";
    for (const ScheduledInstruction& instruction : schedule.ranks[rank]) {
      const char* name = name_of_pass(instruction.work);
      if (name == nullptr) continue;
      text += name;
      text += std::to_string(instruction.micro_batch);
      if (schedule.shape.vpp > 1) text += static_cast<char>('a' + instruction.chunk);
    }
    text += '\n';
  }
  return text;
}

}  // namespace mega
