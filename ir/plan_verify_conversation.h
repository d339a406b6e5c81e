// Conversations among classes of ranks, written down, and the events in which they wait for each
// other. Internal to plan_verify; see plan_verify_communication.cpp.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/plan_verify_proofs.h"

namespace mega::verifying {

struct Place {
  int of_class = 0;
  std::int32_t instance = 0;
  int step = 0;  // within the instance: which collective, or which transfer
};

// A communicator: one group on one queue, told apart by its first class.
struct CommunicatorKey {
  Group group;
  int queue = 0;
  int first_class = 0;
  auto operator<=>(const CommunicatorKey&) const = default;
};

// All messages from one class to a neighbour on one queue.
struct ChannelKey {
  int mesh = 0, axis = 0, queue = 0, source = 0, hop = 0;
  auto operator<=>(const ChannelKey&) const = default;
};
struct Channel {
  int receiver = 0;
  std::vector<Place> sends, receives;
};

// Who runs what, for those who follow conversations.
class Ranks {
 public:
  Ranks(const Plan& plan, const World& world, const UnrolledSequences& sequence, Report& report)
      : plan_(plan), world_(world), sequence_(sequence), report_(report) {}

  int size() const { return world_.size(); }
  const std::optional<Unrolled>& sequence(int of_class) const {
    return sequence_[static_cast<std::size_t>(world_.program(of_class))];
  }
  const Program& program(int of_class) const {
    return plan_.programs[static_cast<std::size_t>(world_.program(of_class))];
  }
  const Instance& instance(const Place& place) const {
    return sequence(place.of_class)->instances()[static_cast<std::size_t>(place.instance)];
  }
  std::string who(int of_class) const;             // "stage2 (pp=2)"
  std::string describe(const Place& place) const;  // and its instruction
  // The ops of a segment whose group reaches other classes. Ranks of one class run one program,
  // so the others agree without a proof.
  const std::vector<std::size_t>& joint_ops(int of_class, const Run& run);

 private:
  const Plan& plan_;
  const World& world_;
  const UnrolledSequences& sequence_;
  Report& report_;
  std::map<std::pair<int, SegmentId>, std::vector<std::size_t>> joint_ops_;
};

using Communicators = std::map<CommunicatorKey, std::map<int, std::vector<Place>>>;
using Channels = std::map<ChannelKey, Channel>;

// Proves that conversations whose partners agree come to their end; else names the circle.
void check_circles(Ranks& ranks, const Plan& plan, const Communicators& communicators,
                   const Channels& channels, Report& report);

}  // namespace mega::verifying
