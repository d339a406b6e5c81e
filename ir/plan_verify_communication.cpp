// Ranks agree on what they say to each other. First every conversation is written down: the
// collectives of each communicator and the messages of each channel, in program order per class of
// ranks. Then partners are compared.
#include <algorithm>

#include "ir/base/text.h"
#include "ir/plan_verify_conversation.h"

namespace mega::verifying {
namespace {

class Communication {
 public:
  Communication(const Plan& plan, const World& world, const UnrolledSequences& sequence,
                Report& report)
      : plan_(plan), world_(world), ranks_(plan, world, sequence, report), report_(report) {}

  void check() {
    const std::size_t before = report_.size();
    for (int c = 0; c < world_.size(); ++c) {
      if (ranks_.sequence(c)) listen(c, *ranks_.sequence(c));
    }
    compare_collectives();
    match_transfers();
    // Partners that disagree wait for ever anyway; one reason is enough.
    if (report_.size() == before) check_circles(ranks_, plan_, communicators_, channels_, report_);
  }

 private:
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
    const Segment& segment = ranks_.program(place.of_class).segments[run.segment];
    for (const std::size_t op : ranks_.joint_ops(place.of_class, run)) {
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
          report_.add(ranks_.describe(place) + ": a transfer to the rank itself");
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
    const auto& run = std::get<Run>(ranks_.instance(place).instruction->body);
    const std::size_t op =
        ranks_.joint_ops(place.of_class, run)[static_cast<std::size_t>(place.step)];
    return ranks_.program(place.of_class).segments[run.segment].ops[op];
  }

  // "all_reduce sum of 4 fp32 along pp"
  std::string signature(const Place& place) {
    const Op& op = op_at(place);
    const Buffer& input = ranks_.program(place.of_class).buffers[op.inputs.front()];
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
    const Buffer& in = ranks_.program(a.of_class).buffers[x.inputs.front()];
    const Buffer& other = ranks_.program(b.of_class).buffers[y.inputs.front()];
    return x.kind == y.kind && x.attributes.combine == y.attributes.combine &&
           in.dtype == other.dtype && element_count(in.shape) == element_count(other.shape);
  }

  void compare_collectives() {
    for (const auto& each : communicators_) {
      const CommunicatorKey& key = each.first;
      const std::vector<int>& classes = world_.members(key.group, key.first_class);
      const auto of = [&](int c) -> const std::vector<Place>& {
        static const std::vector<Place> kNone;
        const auto found = each.second.find(c);
        return found == each.second.end() ? kNone : found->second;
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
                      " differs: " + signature(in_a[i]) + " for " + ranks_.describe(in_a[i]) +
                      "; " + signature(in_b[i]) + " for " + ranks_.describe(in_b[i]),
                  "all members of a group issue the same collectives in the same order");
      return false;
    }
    if (in_a.size() == in_b.size()) return true;
    const Place& extra = in_a.size() > both ? in_a[both] : in_b[both];
    report_.add(ranks_.who(a) + " issues " + std::to_string(in_a.size()) + " " + where + ", " +
                    ranks_.who(b) + " " + std::to_string(in_b.size()) +
                    "; the first without partner is " + signature(extra) + " of " +
                    ranks_.describe(extra),
                "all members of a group issue the same collectives in the same order");
    return false;
  }

  const Transfer& transfer_at(const Place& place) const {
    return std::get<Exchange>(ranks_.instance(place).instruction->body)
        .transfers[static_cast<std::size_t>(place.step)];
  }

  std::optional<std::int64_t> micro_batch_of(const Place& place) const {
    const Transfer& transfer = transfer_at(place);
    if (!transfer.micro_batch) return std::nullopt;
    return transfer.micro_batch->at(std::max<std::int64_t>(0, ranks_.instance(place).turn));
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
      report_.add(ranks_.describe(extra) + ": " + ranks_.who(partner) +
                  (is_send ? " never receives " : " never sends ") +
                  named(ranks_.program(extra.of_class).buffers[transfer_at(extra).buffer].name) +
                  " on queue " + named(plan_.queues[static_cast<std::size_t>(key.queue)]));
    }
  }

  bool fits(const Place& send, const Place& receive) {
    const Buffer& from = ranks_.program(send.of_class).buffers[transfer_at(send).buffer];
    const Buffer& to = ranks_.program(receive.of_class).buffers[transfer_at(receive).buffer];
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
    report_.add(ranks_.describe(send) + ": " + reason + " by " + ranks_.describe(receive),
                "sends match receives in program order, per pair of ranks and queue");
    return false;
  }

  const Plan& plan_;
  const World& world_;
  Ranks ranks_;
  Report& report_;
  Communicators communicators_;
  Channels channels_;
};

}  // namespace

void check_communication(const Plan& plan, const World& world, const UnrolledSequences& sequence,
                         Report& report) {
  Communication(plan, world, sequence, report).check();
}

}  // namespace mega::verifying
