#include "ir/plan_verify_conversation.h"

namespace mega::verifying {

std::string Ranks::who(int of_class) const {
  const int position = position_along(plan_.meshes.front(), world_.rank(of_class), plan_.by);
  std::string text = report_.program_at(world_.program(of_class), position);
  const bool is_single = world_.size() > extent(plan_.meshes.front(), plan_.by);
  return is_single ? text + " (rank " + std::to_string(world_.rank(of_class)) + ")" : text;
}

std::string Ranks::describe(const Place& place) const {
  return who(place.of_class) + ": " +
         report_.instance(world_.program(place.of_class), *sequence(place.of_class),
                          place.instance);
}

const std::vector<std::size_t>& Ranks::joint_ops(int of_class, const Run& run) {
  const auto [found, is_new] =
      joint_ops_.try_emplace(std::pair(of_class, run.segment), std::vector<std::size_t>{});
  if (!is_new) return found->second;
  const Segment& segment = program(of_class).segments[run.segment];
  for (std::size_t i = 0; i < segment.ops.size(); ++i) {
    if (!segment.ops[i].group) continue;
    const std::vector<int>& classes = world_.members(*segment.ops[i].group, of_class);
    if (classes.empty()) {
      report_.add(who(of_class) + ": " + report_.op(world_.program(of_class), run.segment, i) +
                  ": the rank is not a member of its group");
    } else if (classes.size() > 1) {
      found->second.push_back(i);
    }
  }
  return found->second;
}

}  // namespace mega::verifying
