// Ranks agree on what they say to each other. First every conversation is written down: the
// collectives of each communicator and the messages of each channel, in program order per class of
// ranks. Then partners are compared, and at last all that waits for something is one graph:
//
//   class 0   o──►o═══►o──►          o  an instruction starts, or a collective of it is done
//                   ╲╱               ═  needs the partner to have arrived; ─ runs in order
//   class 1   o──►o═══►o──►             a circle is a deadlock, with or without buffers
#include <algorithm>
#include <map>
#include <tuple>

#include "ir/base/text.h"
#include "ir/plan_verify_cycle.h"
#include "ir/plan_verify_proofs.h"

namespace mega::verifying {
namespace {

constexpr std::int64_t kMaxEvents = 60'000'000;
constexpr std::size_t kMaxNotes = 12;

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

class Communication {
 public:
  Communication(const Plan& plan, const World& world, const UnrolledSequences& sequence,
                Report& report)
      : plan_(plan), world_(world), sequence_(sequence), report_(report) {}

  void check() {
    if (!number_events()) return;
    const std::size_t before = report_.size();
    for (int c = 0; c < world_.size(); ++c) {
      if (sequence(c)) listen(c, *sequence(c));
    }
    compare_collectives();
    match_transfers();
    // Partners that disagree wait for ever anyway; one reason is enough.
    if (report_.size() == before) find_deadlock();
  }

 private:
  const std::optional<Unrolled>& sequence(int of_class) const {
    return sequence_[static_cast<std::size_t>(world_.program(of_class))];
  }
  const Program& program(int of_class) const {
    return plan_.programs[static_cast<std::size_t>(world_.program(of_class))];
  }
  const Instance& instance(const Place& place) const {
    return sequence(place.of_class)->instances()[static_cast<std::size_t>(place.instance)];
  }
  std::string who(int of_class) const {
    const int position = position_along(plan_.meshes.front(), world_.rank(of_class), plan_.by);
    std::string text = report_.program_at(world_.program(of_class), position);
    const bool is_single = world_.size() > extent(plan_.meshes.front(), plan_.by);
    return is_single ? text + " (rank " + std::to_string(world_.rank(of_class)) + ")" : text;
  }
  std::string describe(const Place& place) const {
    return who(place.of_class) + ": " +
           report_.instance(world_.program(place.of_class), *sequence(place.of_class),
                            place.instance);
  }

  // ---- events: one where an instruction starts, one after each thing that it waits for ----
  bool number_events() {
    std::int64_t count = 0;
    for (int c = 0; c < world_.size(); ++c) {
      std::vector<int>& first = first_event_.emplace_back();
      if (!sequence(c)) continue;
      for (const Instance& each : sequence(c)->instances()) {
        first.push_back(static_cast<int>(count));
        const auto* run = std::get_if<Run>(&each.instruction->body);
        count += 1 + (run == nullptr ? 1 : static_cast<std::int64_t>(joint_ops(c, *run).size()));
        if (count > kMaxEvents) {
          report_.add("the plan has over " + std::to_string(kMaxEvents) +
                      " events, too many to prove that they end");
          return false;
        }
      }
    }
    events_ = static_cast<int>(count);
    return true;
  }

  // The collectives of a segment that reach other classes. Among ranks of one class each runs the
  // same program, so these agree without a proof.
  const std::vector<std::size_t>& joint_ops(int of_class, const Run& run) {
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

  int event(const Place& place, int step) const {
    return first_event_[static_cast<std::size_t>(place.of_class)]
                       [static_cast<std::size_t>(place.instance)] +
           step;
  }

  // ---- writing down the conversations ----
  void listen(int of_class, const Unrolled& sequence) {
    for (std::size_t i = 0; i < sequence.instances().size(); ++i) {
      const Instance& each = sequence.instances()[i];
      const Place place{of_class, static_cast<std::int32_t>(i), 0};
      const auto* run = std::get_if<Run>(&each.instruction->body);
      if (run != nullptr) {
        listen_to(*run, each, place);
      } else {
        listen_to(std::get<Exchange>(each.instruction->body), each, place);
      }
    }
  }

  void listen_to(const Run& run, const Instance& instance, Place place) {
    const Segment& segment = program(place.of_class).segments[run.segment];
    for (const std::size_t op : joint_ops(place.of_class, run)) {
      const Group& group = *segment.ops[op].group;
      const int first = world_.members(group, place.of_class).front();
      communicators_[{group, instance.queue(), first}][place.of_class].push_back(place);
      ++place.step;
    }
  }

  void listen_to(const Exchange& exchange, const Instance& instance, Place place) {
    for (const Transfer& transfer : exchange.transfers) {
      const int c = place.of_class;
      const int peer = world_.neighbour(exchange.mesh, exchange.axis, transfer.hop, c);
      const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(exchange.mesh)];
      const int size = mesh.axes[static_cast<std::size_t>(exchange.axis)].size;
      const int hop = (transfer.hop % size + size) % size;
      if (hop == 0) {
        if (report_.is_new("self " + std::to_string(world_.program(c)) + " " +
                           std::to_string(instance.number))) {
          report_.add(describe(place) + ": a transfer to the rank itself");
        }
      } else if (transfer.is_send) {
        Channel& channel = channels_[{exchange.mesh, exchange.axis, instance.queue(), c, hop}];
        channel.receiver = peer;
        channel.sends.push_back(place);
      } else {
        Channel& channel =
            channels_[{exchange.mesh, exchange.axis, instance.queue(), peer, size - hop}];
        channel.receiver = c;
        channel.receives.push_back(place);
      }
      ++place.step;
    }
  }

  // ---- comparing them ----
  const Op& op_at(const Place& place) {
    const auto& run = std::get<Run>(instance(place).instruction->body);
    const std::size_t op = joint_ops(place.of_class, run)[static_cast<std::size_t>(place.step)];
    return program(place.of_class).segments[run.segment].ops[op];
  }

  // "all_reduce sum of 4 fp32 along pp"
  std::string signature(const Place& place) {
    const Op& op = op_at(place);
    const Buffer& input = program(place.of_class).buffers[op.inputs.front()];
    const Combine combine = op.attributes.combine;
    return std::string(info(op.kind).name) +
           (combine == Combine::Sum   ? " sum"
            : combine == Combine::Max ? " max"
                                      : "") +
           " of " + std::to_string(element_count(input.shape)) + " " +
           std::string(name_of(input.dtype));
  }

  bool same(const Place& a, const Place& b) {
    const Op& x = op_at(a);
    const Op& y = op_at(b);
    const Buffer& in = program(a.of_class).buffers[x.inputs.front()];
    const Buffer& other = program(b.of_class).buffers[y.inputs.front()];
    return x.kind == y.kind && x.attributes.combine == y.attributes.combine &&
           in.dtype == other.dtype && element_count(in.shape) == element_count(other.shape);
  }

  void compare_collectives() {
    for (const auto& [key, by_class] : communicators_) {
      const std::vector<int>& classes = world_.members(key.group, key.first_class);
      const auto of = [&](int c) -> const std::vector<Place>& {
        static const std::vector<Place> kNone;
        const auto found = by_class.find(c);
        return found == by_class.end() ? kNone : found->second;
      };
      for (std::size_t i = 1; i < classes.size(); ++i) {
        if (!agree(key, classes.front(), of(classes.front()), classes[i], of(classes[i]))) break;
      }
    }
  }

  bool agree(const CommunicatorKey& key, int a, const std::vector<Place>& in_a, int b,
             const std::vector<Place>& in_b) {
    const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(key.group.mesh)];
    const std::string where = "collectives along '" + to_string(mesh, key.group) + "' on queue " +
                              named(plan_.queues[static_cast<std::size_t>(key.queue)]);
    const std::size_t both = std::min(in_a.size(), in_b.size());
    for (std::size_t i = 0; i < both; ++i) {
      if (same(in_a[i], in_b[i])) continue;
      report_.add("number " + std::to_string(i + 1) + " of the " + where +
                      " differs: " + signature(in_a[i]) + " for " + describe(in_a[i]) + "; " +
                      signature(in_b[i]) + " for " + describe(in_b[i]),
                  "all members of a group issue the same collectives in the same order");
      return false;
    }
    if (in_a.size() == in_b.size()) return true;
    const Place& extra = in_a.size() > both ? in_a[both] : in_b[both];
    report_.add(who(a) + " issues " + std::to_string(in_a.size()) + " " + where + ", " + who(b) +
                    " " + std::to_string(in_b.size()) + "; the first without partner is " +
                    signature(extra) + " of " + describe(extra),
                "all members of a group issue the same collectives in the same order");
    return false;
  }

  const Transfer& transfer_at(const Place& place) const {
    return std::get<Exchange>(instance(place).instruction->body)
        .transfers[static_cast<std::size_t>(place.step)];
  }

  std::optional<std::int64_t> micro_batch_of(const Place& place) const {
    const Transfer& transfer = transfer_at(place);
    if (!transfer.micro_batch) return std::nullopt;
    return transfer.micro_batch->at(std::max<std::int64_t>(0, instance(place).turn));
  }

  void match_transfers() {
    for (const auto& [key, channel] : channels_) {
      const std::size_t both = std::min(channel.sends.size(), channel.receives.size());
      const bool good = std::equal(
          channel.sends.begin(), channel.sends.begin() + static_cast<std::ptrdiff_t>(both),
          channel.receives.begin(),
          [&](const Place& send, const Place& receive) { return fits(send, receive); });
      if (!good || channel.sends.size() == channel.receives.size()) continue;
      const bool is_send = channel.sends.size() > both;
      const Place& extra = is_send ? channel.sends[both] : channel.receives[both];
      const int partner = is_send ? channel.receiver : key.source;
      report_.add(describe(extra) + ": " + who(partner) +
                  (is_send ? " never receives " : " never sends ") +
                  named(program(extra.of_class).buffers[transfer_at(extra).buffer].name) +
                  " on queue " + named(plan_.queues[static_cast<std::size_t>(key.queue)]));
    }
  }

  bool fits(const Place& send, const Place& receive) {
    const Buffer& from = program(send.of_class).buffers[transfer_at(send).buffer];
    const Buffer& to = program(receive.of_class).buffers[transfer_at(receive).buffer];
    const auto sent = micro_batch_of(send);
    const auto received = micro_batch_of(receive);
    std::string reason;
    if (from.dtype != to.dtype || from.shape != to.shape) {
      reason = std::string(name_of(from.dtype)) + " " + to_string(from.shape) +
               " is sent, and received as " + std::string(name_of(to.dtype)) + " " +
               to_string(to.shape);
    } else if (sent != received) {
      const auto text = [](const std::optional<std::int64_t>& micro_batch) {
        return micro_batch ? "micro-batch " + std::to_string(*micro_batch) : "no micro-batch";
      };
      reason = text(sent) + " is sent, and received as " + text(received);
    } else {
      return true;
    }
    report_.add(describe(send) + ": " + reason + " by " + describe(receive),
                "sends match receives in program order, per pair of ranks and queue");
    return false;
  }

  // ---- the graph of all that waits ----
  void find_deadlock() {
    for (int c = 0; c < world_.size(); ++c) {
      if (sequence(c)) add_order(c, *sequence(c));
    }
    for (const auto& [key, by_class] : communicators_) add_collectives(by_class);
    for (const auto& [key, channel] : channels_) {
      for (std::size_t i = 0; i < channel.sends.size(); ++i) {
        edges_.emplace_back(event(channel.receives[i], 0), event(channel.sends[i], 1));
        edges_.emplace_back(event(channel.sends[i], 0), event(channel.receives[i], 1));
      }
    }
    const std::vector<int> cycle = find_cycle(events_, edges_);
    if (!cycle.empty()) report_cycle(cycle);
  }

  // Queues run in order, waits are kept, and an instruction's own events follow each other.
  void add_order(int of_class, const Unrolled& sequence) {
    std::vector<std::vector<int>> ends(plan_.queues.size());
    for (std::size_t i = 0; i < sequence.instances().size(); ++i) {
      const Instance& each = sequence.instances()[i];
      const Place place{of_class, static_cast<std::int32_t>(i), 0};
      const int start = event(place, 0);
      const auto* run = std::get_if<Run>(&each.instruction->body);
      const int steps = run == nullptr ? 1 : static_cast<int>(joint_ops(of_class, *run).size());
      std::vector<int>& own = ends[static_cast<std::size_t>(each.queue())];
      if (!own.empty()) edges_.emplace_back(own.back(), start);
      for (const Wait& wait : each.instruction->waits) {
        const std::vector<int>& other = ends[static_cast<std::size_t>(wait.queue.index)];
        const auto issued = static_cast<std::int64_t>(other.size());
        if (issued <= wait.behind) continue;
        edges_.emplace_back(other[static_cast<std::size_t>(issued - wait.behind - 1)], start);
      }
      for (int step = 0; step < steps; ++step) {
        edges_.emplace_back(start + step, start + step + 1);
      }
      own.push_back(start + steps);
    }
  }

  // Nobody leaves a collective before all have come: through one event per collective, so that
  // edges grow with the members and not with their pairs.
  void add_collectives(const std::map<int, std::vector<Place>>& by_class) {
    for (std::size_t i = 0; i < by_class.begin()->second.size(); ++i) {
      const int all_here = events_++;
      for (const auto& [of_class, places] : by_class) {
        edges_.emplace_back(event(places[i], places[i].step), all_here);
        edges_.emplace_back(all_here, event(places[i], places[i].step + 1));
      }
    }
  }

  // The place of an event; nothing for the meeting point of a collective.
  std::optional<Place> place_of(int event) const {
    for (int c = 0; c < world_.size(); ++c) {
      const std::vector<int>& first = first_event_[static_cast<std::size_t>(c)];
      const auto after = std::upper_bound(first.begin(), first.end(), event);
      if (after == first.begin()) continue;
      const auto index = static_cast<std::int32_t>(after - first.begin()) - 1;
      const bool is_last = after == first.end();
      if (is_last && event - first.back() > steps_of_last(c)) continue;
      return Place{c, index, event - first[static_cast<std::size_t>(index)]};
    }
    return std::nullopt;
  }

  int steps_of_last(int of_class) const {
    const auto* run = std::get_if<Run>(&sequence(of_class)->instances().back().instruction->body);
    if (run == nullptr) return 1;
    return static_cast<int>(joint_ops_.at(std::pair(of_class, run->segment)).size());
  }

  void report_cycle(const std::vector<int>& cycle) {
    std::vector<Place> places;
    for (const int event : cycle) {
      if (const auto place = place_of(event)) places.push_back(*place);
    }
    std::vector<std::string> notes;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Place& needed = places[i];
      const Place& needs = places[(i + 1) % places.size()];
      const bool is_same = needed.of_class == needs.of_class && needed.instance == needs.instance;
      // Only partners make an event wait that isn't a start; the rest is order within a rank.
      if (is_same || needs.step == 0) continue;
      notes.push_back(describe(needs) + " waits for " + describe(needed));
    }
    std::reverse(notes.begin(), notes.end());
    if (notes.size() > kMaxNotes) {
      const std::size_t left = notes.size() - kMaxNotes;
      notes.resize(kMaxNotes);
      notes.push_back("... and " + std::to_string(left) + " more until the circle is closed");
    }
    report_.add(
        "ranks wait for each other in a circle, each before it comes to what the next "
        "one needs",
        std::move(notes), "put transfers that meet into one exchange, or order them alike");
  }

  const Plan& plan_;
  const World& world_;
  const UnrolledSequences& sequence_;
  Report& report_;
  std::map<std::pair<int, SegmentId>, std::vector<std::size_t>> joint_ops_;
  std::map<CommunicatorKey, std::map<int, std::vector<Place>>> communicators_;
  std::map<ChannelKey, Channel> channels_;
  std::vector<std::vector<int>> first_event_;  // by class and instance
  int events_ = 0;
  std::vector<std::pair<int, int>> edges_;
};

}  // namespace

void check_communication(const Plan& plan, const World& world, const UnrolledSequences& sequence,
                         Report& report) {
  Communication(plan, world, sequence, report).check();
}

}  // namespace mega::verifying
