// Ranks that can stand for each other. Internal to plan_verify.
//
// Ranks at one position along Plan::by run one program, so a proof about one of them is a proof
// about all, as long as their partners are alike too: every group and every neighbour of theirs
// must fall into the same classes. Where that fails (a map written by hand), each rank is a class
// of its own. A cycle among ranks maps to a cycle among classes, so none is missed.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ir/plan.h"

namespace mega::verifying {

class World {
 public:
  explicit World(const Plan& plan);

  int size() const { return static_cast<int>(representative_.size()); }
  int rank(int of_class) const { return representative_[static_cast<std::size_t>(of_class)]; }
  int program(int of_class) const { return program_of(plan_, rank(of_class)); }
  // The classes of the members of the group that a rank of this class is in, ascending; empty
  // when it isn't in one.
  const std::vector<int>& members(const Group& group, int of_class) const;
  // The class of the rank `hop` places along an axis.
  int neighbour(int mesh, int axis, int hop, int of_class) const;

 private:
  // Groups and hops of the plan; hops modulo the size of their axis.
  struct Hop {
    int mesh = 0, axis = 0, hop = 0;
    auto operator<=>(const Hop&) const = default;
  };
  void collect();
  void collect(const Instruction& instruction);
  Hop hop_of(int mesh, int axis, int hop) const;
  std::vector<int> sets_by_rank(const Group& group);
  bool add(const Group& group);
  bool add(const Hop& hop);
  bool build();

  const Plan& plan_;
  std::vector<int> class_of_;           // by rank
  std::vector<int> representative_;     // by class
  std::vector<std::vector<int>> sets_;  // of classes; the first is empty
  std::map<std::vector<int>, int> set_numbers_;
  std::map<Group, std::vector<int>> members_;   // by class, a number into sets_
  std::map<Hop, std::vector<int>> neighbours_;  // by class
};

}  // namespace mega::verifying
