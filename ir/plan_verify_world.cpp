#include "ir/plan_verify_world.h"

#include <algorithm>

namespace mega::verifying {
namespace {

const Mesh& mesh_of(const Plan& plan, int mesh) {
  return plan.meshes[static_cast<std::size_t>(mesh)];
}

}  // namespace

World::World(const Plan& plan) : plan_(plan), sets_(1) {
  collect();
  const Mesh& first = plan.meshes.front();
  const int ranks = world_size(plan);
  class_of_.resize(static_cast<std::size_t>(ranks));
  representative_.assign(static_cast<std::size_t>(extent(first, plan.by)), -1);
  for (int rank = 0; rank < ranks; ++rank) {
    const int position = position_along(first, rank, plan.by);
    class_of_[static_cast<std::size_t>(rank)] = position;
    int& representative = representative_[static_cast<std::size_t>(position)];
    if (representative < 0) representative = rank;
  }
  if (build()) return;
  representative_.clear();
  for (int rank = 0; rank < ranks; ++rank) {
    class_of_[static_cast<std::size_t>(rank)] = rank;
    representative_.push_back(rank);
  }
  build();
}

void World::collect() {
  for (const Program& program : plan_.programs) {
    for (const Segment& segment : program.segments) {
      for (const Op& op : segment.ops) {
        if (op.group) members_[*op.group];
      }
    }
    for (const Sequence& sequence : program.sequences) {
      for (const Step& step : sequence.steps) {
        if (const auto* one = std::get_if<Instruction>(&step)) collect(*one);
        if (const auto* repeat = std::get_if<Repeat>(&step)) {
          for (const Instruction& each : repeat->body) collect(each);
        }
      }
    }
  }
}

void World::collect(const Instruction& instruction) {
  const auto* exchange = std::get_if<Exchange>(&instruction.body);
  if (exchange == nullptr) return;
  for (const Transfer& transfer : exchange->transfers) {
    neighbours_[hop_of(exchange->mesh, exchange->axis, transfer.hop)];
    neighbours_[hop_of(exchange->mesh, exchange->axis, -transfer.hop)];
  }
}

World::Hop World::hop_of(int mesh, int axis, int hop) const {
  const int size = mesh_of(plan_, mesh).axes[static_cast<std::size_t>(axis)].size;
  return {mesh, axis, (hop % size + size) % size};
}

// Whether all ranks of every class see the same classes around them.
bool World::build() {
  return std::all_of(members_.begin(), members_.end(),
                     [&](const auto& each) { return add(each.first); }) &&
         std::all_of(neighbours_.begin(), neighbours_.end(),
                     [&](const auto& each) { return add(each.first); });
}

// The set of classes in the group of each rank, 0 for a rank that isn't in one. Each group is
// looked at once, from its member at position 0.
std::vector<int> World::sets_by_rank(const Group& group) {
  const Mesh& mesh = mesh_of(plan_, group.mesh);
  std::vector<int> set_of(class_of_.size(), 0);
  for (int rank = 0; rank < static_cast<int>(class_of_.size()); ++rank) {
    if (position_along(mesh, rank, group.along) != 0) continue;
    const std::vector<int> ranks = mega::members(mesh, group, rank);
    std::vector<int> classes;
    classes.reserve(ranks.size());
    for (const int member : ranks) {
      classes.push_back(class_of_[static_cast<std::size_t>(member)]);
    }
    std::sort(classes.begin(), classes.end());
    classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
    const auto next = static_cast<int>(sets_.size());
    const auto [found, is_new] = set_numbers_.try_emplace(classes, next);
    if (is_new) sets_.push_back(std::move(classes));
    for (const int member : ranks) set_of[static_cast<std::size_t>(member)] = found->second;
  }
  return set_of;
}

bool World::add(const Group& group) {
  const std::vector<int> set_of = sets_by_rank(group);
  std::vector<int>& of_class = members_[group];
  of_class.assign(representative_.size(), -1);
  for (std::size_t rank = 0; rank < class_of_.size(); ++rank) {
    int& known = of_class[static_cast<std::size_t>(class_of_[rank])];
    if (known >= 0 && known != set_of[rank]) return false;
    known = set_of[rank];
  }
  return true;
}

bool World::add(const Hop& hop) {
  const Mesh& mesh = mesh_of(plan_, hop.mesh);
  const AxisSet along = AxisSet::of(hop.axis);
  const int size = extent(mesh, along);
  std::vector<int>& of_class = neighbours_[hop];
  of_class.assign(representative_.size(), -1);
  for (int rank = 0; rank < static_cast<int>(class_of_.size()); ++rank) {
    const int place = (coordinate(mesh, rank, hop.axis) + hop.hop) % size;
    const int peer = class_of_[static_cast<std::size_t>(rank_at(mesh, rank, along, place))];
    int& known = of_class[static_cast<std::size_t>(class_of_[static_cast<std::size_t>(rank)])];
    if (known >= 0 && known != peer) return false;
    known = peer;
  }
  return true;
}

const std::vector<int>& World::members(const Group& group, int of_class) const {
  const int set = members_.at(group)[static_cast<std::size_t>(of_class)];
  return sets_[static_cast<std::size_t>(set)];
}

int World::neighbour(int mesh, int axis, int hop, int of_class) const {
  return neighbours_.at(hop_of(mesh, axis, hop))[static_cast<std::size_t>(of_class)];
}

}  // namespace mega::verifying
