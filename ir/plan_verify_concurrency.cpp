#include <algorithm>
#include <map>
#include <utility>

#include "ir/plan_verify_proofs.h"

namespace mega::verifying {
namespace {

// One group on one queue.
using Communicator = std::pair<int, Group>;

class Concurrency {
 public:
  Concurrency(const Plan& plan, const World& world, const Unrolled& sequence, int of_class,
              Report& report)
      : plan_(plan),

        sequence_(sequence),
        program_(world.program(of_class)),
        rank_(world.rank(of_class)),
        report_(report) {}

  void check() {
    collect();
    for (auto a = uses_.begin(); a != uses_.end(); ++a) {
      for (auto b = std::next(a); b != uses_.end(); ++b) {
        if (a->first.first == b->first.first) continue;  // one queue, one order
        if (common_ranks(a->first.second, b->first.second) >= 2) compare(*a, *b);
      }
    }
  }

 private:
  void collect() {
    const Program& program = plan_.programs[static_cast<std::size_t>(program_)];
    std::map<SegmentId, std::vector<Group>> groups;
    for (std::size_t i = 0; i < sequence_.instances().size(); ++i) {
      const Instance& instance = sequence_.instances()[i];
      const auto* run = std::get_if<Run>(&instance.instruction->body);
      if (run == nullptr) continue;
      const auto [found, is_new] = groups.try_emplace(run->segment);
      if (is_new) {
        for (const Op& op : program.segments[run->segment].ops) {
          if (op.group) found->second.push_back(*op.group);
        }
        std::sort(found->second.begin(), found->second.end());
        const auto end = std::unique(found->second.begin(), found->second.end());
        found->second.erase(end, found->second.end());
      }
      for (const Group& group : found->second) {
        uses_[{instance.queue(), group}].push_back(static_cast<std::int32_t>(i));
      }
    }
  }

  std::size_t common_ranks(const Group& a, const Group& b) const {
    const auto ranks = [&](const Group& group) {
      const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(group.mesh)];
      std::vector<int> sorted = members(mesh, group, rank_);
      std::sort(sorted.begin(), sorted.end());
      return sorted;
    };
    const std::vector<int> in_a = ranks(a), in_b = ranks(b);
    std::vector<int> common;
    std::set_intersection(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(),
                          std::back_inserter(common));
    return common.size();
  }

  using Uses = std::map<Communicator, std::vector<std::int32_t>>;

  // An instance of `a` has an order with all of b's queue but those between what has ended when it
  // starts and what starts when it has ended; both only grow, so the first candidate decides.
  void compare(const Uses::value_type& a, const Uses::value_type& b) {
    for (const std::int32_t first : a.second) {
      const std::int32_t ended = sequence_.ended(first, b.first.first);
      const auto second = std::lower_bound(b.second.begin(), b.second.end(), ended,
                                           [&](std::int32_t instance, std::int32_t position) {
                                             return at(instance).position < position;
                                           });
      if (second == b.second.end() || sequence_.is_before(first, *second)) continue;
      const auto text = [&](std::int32_t instance) {
        return report_.instance(program_, sequence_, instance);
      };
      // One pair of communicators that isn't ordered is one mistake, however often it runs.
      if (!report_.is_new("concurrent " + std::to_string(program_) + along(a.first) +
                          along(b.first))) {
        return;
      }
      report_.add(report_.program(program_) + ": " + text(first) + " and " + text(*second) +
                      " run collectives of the same ranks on two queues in no order: " +
                      along(a.first) + " and " + along(b.first),
                  "let one wait for the other, or run both on one queue");
      return;
    }
  }

  std::string along(const Communicator& communicator) const {
    const Group& group = communicator.second;
    return "along '" + to_string(plan_.meshes[static_cast<std::size_t>(group.mesh)], group) +
           "' on " + named(plan_.queues[static_cast<std::size_t>(communicator.first)]);
  }

  const Instance& at(std::int32_t instance) const {
    return sequence_.instances()[static_cast<std::size_t>(instance)];
  }

  const Plan& plan_;
  const Unrolled& sequence_;
  int program_;
  int rank_;
  Report& report_;
  Uses uses_;
};

}  // namespace

void check_concurrency(const Plan& plan, const World& world, const UnrolledSequences& sequence,
                       Report& report) {
  for (int c = 0; c < world.size(); ++c) {
    const auto& own = sequence[static_cast<std::size_t>(world.program(c))];
    if (own) Concurrency(plan, world, *own, c, report).check();
  }
}

}  // namespace mega::verifying
