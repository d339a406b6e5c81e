// Runs a plan on symbols instead of numbers, in one of many possible timings.
//
// A second opinion on the verifier: it knows queues, waits, rendezvous and bytes, but none of the
// proofs. Every four bytes of an arena hold a 64-bit symbol; an op writes symbols that depend on
// all that it reads, so anything stale, early or foreign changes the outcome. Sums are sums of
// symbols, because their order is free. A plan is right if every timing ends, and ends alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "ir/plan.h"

namespace mega::testing {

class PlanInterpreter {
 public:
  using Symbols = std::vector<std::uint64_t>;

  PlanInterpreter(const Plan& plan, std::uint64_t timing) : plan_(plan), random_(timing * 2 + 1) {
    for (int rank = 0; rank < world_size(plan); ++rank) {
      const auto granules = static_cast<std::size_t>(arena_bytes(program(rank)).count() / 4);
      // What was in memory before is different in every run.
      Symbols memory(granules);
      for (std::uint64_t& symbol : memory) symbol = next();
      memory_.push_back(std::move(memory));
      is_written_.emplace_back(granules, false);
    }
  }

  // False when it stops before the end, or two partners don't fit.
  bool run(const std::string& sequence) {
    start(sequence);
    std::vector<Action> actions;
    while (true) {
      actions.clear();
      find_actions(actions);
      if (failed_) return false;
      if (actions.empty()) return is_finished();
      take(choose(actions));
    }
  }

  // What the persistent buffers of `rank` hold, by name; views are part of their parents. Nothing
  // is said about bytes that nobody wrote.
  std::map<std::string, Symbols> persistent(int rank) const {
    std::map<std::string, Symbols> buffers;
    std::int32_t number = 0;
    for (const Buffer& buffer : program(rank).buffers) {
      const BufferId id{number++};
      if (buffer.parent || buffer.region != Region::Persistent) continue;
      Symbols& symbols = buffers[buffer.name] = read(rank, id, 0);
      for (std::size_t g = 0; g < symbols.size(); ++g) {
        const std::size_t at = granule(rank, id, 0) + g;
        if (!is_written_[static_cast<std::size_t>(rank)][at]) symbols[g] = 0;
      }
    }
    return buffers;
  }

 private:
  struct Work {
    const Instruction* instruction = nullptr;
    std::int64_t turn = 0;
    std::vector<std::pair<int, std::size_t>> needs;  // queue, how many of it have finished
  };
  struct Line {
    std::vector<Work> work;
    std::size_t finished = 0;
    bool is_started = false;
    std::size_t op = 0;         // of a segment that runs
    bool is_waiting = false;    // in a collective
    std::size_t transfers = 0;  // of an exchange that are not done
    double speed = 1;
  };
  struct Posted {
    int rank = 0;
    int queue = 0;
    BufferId buffer;
    std::int64_t slot = 0;
  };
  struct Channel {
    std::vector<Posted> sends, receives;
    std::size_t done = 0;
  };
  struct Meeting {  // of the members of a communicator
    std::vector<Posted> arrived;
    std::vector<int> members;
  };
  using ChannelKey = std::tuple<int, int, int, int, int>;  // mesh, axis, queue, from, to
  using MeetingKey = std::tuple<Group, int, std::vector<int>>;
  struct Action {
    enum class Kind { Start, Op, Transfer, Meet } kind = Kind::Start;
    int rank = 0;
    int queue = 0;
    Channel* channel = nullptr;
    Meeting* meeting = nullptr;
  };

  // Steele, Lea and Flood's splitmix64: symbols that differ look nothing alike.
  static std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31U);
  }
  std::uint64_t next() { return mix(random_++); }

  int program_index(int rank) const { return program_of(plan_, rank); }
  const Program& program(int rank) const {
    return plan_.programs[static_cast<std::size_t>(program_index(rank))];
  }
  Line& line(int rank, int queue) {
    return lines_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(queue)];
  }

  void start(const std::string& name) {
    lines_.assign(memory_.size(), std::vector<Line>(plan_.queues.size()));
    channels_.clear();
    meetings_.clear();
    failed_ = false;
    for (int rank = 0; rank < static_cast<int>(memory_.size()); ++rank) {
      for (Line& each : lines_[static_cast<std::size_t>(rank)]) {
        each.speed = next() % 3 == 0 ? 0.01 : 1;  // some queues crawl
      }
      const Sequence* sequence = find_sequence(program(rank), name);
      if (sequence == nullptr) continue;
      for (const Step& step : sequence->steps) {
        if (const auto* one = std::get_if<Instruction>(&step)) issue(rank, *one, 0);
        if (const auto* repeat = std::get_if<Repeat>(&step)) {
          for (std::int64_t i = 0; i < repeat->count; ++i) {
            for (const Instruction& each : repeat->body) issue(rank, each, i);
          }
        }
      }
    }
  }

  void issue(int rank, const Instruction& instruction, std::int64_t turn) {
    Work work{&instruction, turn, {}};
    for (const Wait& wait : instruction.waits) {
      const std::size_t issued = line(rank, wait.queue.index).work.size();
      const auto behind = static_cast<std::size_t>(wait.behind);
      if (issued > behind) work.needs.emplace_back(wait.queue.index, issued - behind);
    }
    line(rank, instruction.queue.index).work.push_back(std::move(work));
  }

  bool is_finished() const {
    for (const auto& of_rank : lines_) {
      for (const Line& each : of_rank) {
        if (each.finished < each.work.size()) return false;
      }
    }
    return true;
  }

  void find_actions(std::vector<Action>& actions) {
    for (int rank = 0; rank < static_cast<int>(lines_.size()); ++rank) {
      for (int queue = 0; queue < static_cast<int>(plan_.queues.size()); ++queue) {
        Line& each = line(rank, queue);
        if (each.finished == each.work.size()) continue;
        if (each.is_started) {
          const bool runs = std::holds_alternative<Run>(body(each)) && !each.is_waiting;
          if (runs) actions.push_back({Action::Kind::Op, rank, queue, nullptr, nullptr});
          continue;
        }
        const auto& needs = each.work[each.finished].needs;
        const bool is_ready = std::all_of(needs.begin(), needs.end(), [&](const auto& need) {
          return line(rank, need.first).finished >= need.second;
        });
        if (is_ready) actions.push_back({Action::Kind::Start, rank, queue, nullptr, nullptr});
      }
    }
    for (auto& [key, channel] : channels_) {
      if (channel.done >= std::min(channel.sends.size(), channel.receives.size())) continue;
      const Posted& to = channel.receives[channel.done];
      actions.push_back({Action::Kind::Transfer, to.rank, to.queue, &channel, nullptr});
    }
    for (auto& [key, meeting] : meetings_) {
      if (meeting.arrived.size() < meeting.members.size()) continue;
      const Posted& last = meeting.arrived.back();
      actions.push_back({Action::Kind::Meet, last.rank, last.queue, nullptr, &meeting});
    }
  }

  const Action& choose(const std::vector<Action>& actions) {
    for (int tries = 0; tries < 20; ++tries) {
      const Action& action = actions[next() % actions.size()];
      const double luck = static_cast<double>(next() >> 11U) * 0x1p-53;
      if (luck < line(action.rank, action.queue).speed) return action;
    }
    return actions.front();
  }

  void take(const Action& action) {
    switch (action.kind) {
      case Action::Kind::Start:
        return begin(action.rank, action.queue);
      case Action::Kind::Op:
        return run_op(action.rank, action.queue);
      case Action::Kind::Transfer:
        return transfer(*action.channel);
      case Action::Kind::Meet:
        return meet(*action.meeting);
    }
  }

  static const std::variant<Run, Exchange>& body(const Line& line) {
    return line.work[line.finished].instruction->body;
  }

  void finish(Line& line) {
    line.is_started = false;
    line.op = 0;
    ++line.finished;
  }

  void begin(int rank, int queue) {
    Line& own = line(rank, queue);
    own.is_started = true;
    const std::int64_t turn = own.work[own.finished].turn;
    const auto* exchange = std::get_if<Exchange>(&body(own));
    if (exchange == nullptr) return;
    own.transfers = exchange->transfers.size();
    if (own.transfers == 0) finish(own);
    const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(exchange->mesh)];
    const AxisSet along = AxisSet::of(exchange->axis);
    const int size = extent(mesh, along);
    for (const Transfer& each : exchange->transfers) {
      const int place = coordinate(mesh, rank, exchange->axis) + each.hop;
      const int peer = rank_at(mesh, rank, along, (place % size + size) % size);
      const Posted posted{rank, queue, each.buffer, each.slot ? each.slot->at(turn) : 0};
      const int from = each.is_send ? rank : peer;
      const int to = each.is_send ? peer : rank;
      Channel& channel = channels_[{exchange->mesh, exchange->axis, queue, from, to}];
      (each.is_send ? channel.sends : channel.receives).push_back(posted);
    }
  }

  void transfer(Channel& channel) {
    const Posted& from = channel.sends[channel.done];
    const Posted& to = channel.receives[channel.done];
    ++channel.done;
    const Symbols sent = read(from.rank, from.buffer, from.slot);
    if (sent.size() != read(to.rank, to.buffer, to.slot).size()) {
      failed_ = true;
      return;
    }
    write(to.rank, to.buffer, to.slot, sent);
    for (const Posted& end : {from, to}) {
      Line& own = line(end.rank, end.queue);
      if (--own.transfers == 0) finish(own);
    }
  }

  // ---- segments ----
  void run_op(int rank, int queue) {
    Line& own = line(rank, queue);
    const Work& work = own.work[own.finished];
    const auto& run = std::get<Run>(work.instruction->body);
    const Segment& segment = program(rank).segments[run.segment];
    if (own.op == segment.ops.size()) return finish(own);
    const Op& op = segment.ops[own.op];
    const std::int64_t slot = run.slot ? run.slot->at(work.turn) : 0;
    if (op.group) return arrive(rank, queue, op, slot);
    const std::int64_t micro_batch = run.micro_batch ? run.micro_batch->at(work.turn) : -1;
    compute(rank, op, slot, micro_batch);
    ++own.op;
  }

  static bool is_update(const Op& op) { return op.kind == OpKind::AdamW || op.kind == OpKind::Sgd; }

  // Symbols depend on the op, its numbers and everything it reads; inputs of the batch on the
  // micro-batch and the rank's part of it.
  void compute(int rank, const Op& op, std::int64_t slot, std::int64_t micro_batch) {
    std::uint64_t all = mix(static_cast<std::uint64_t>(op.kind));
    const auto fold = [&](std::uint64_t value) { all = mix(all ^ mix(value)); };
    if (op.inputs.empty()) {
      fold(static_cast<std::uint64_t>(micro_batch));
      fold(static_cast<std::uint64_t>(rank));
    }
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (is_update(op) && i == 1 && op.attributes.clip == 0) continue;
      for (const std::uint64_t symbol : read(rank, op.inputs[i], slot)) fold(symbol);
    }
    std::vector<Symbols> before;
    for (const BufferId id : op.outputs) before.push_back(read(rank, id, slot));
    for (std::size_t o = 0; o < op.outputs.size(); ++o) {
      if (op.kind == OpKind::Sgd && o == 1 && op.attributes.beta1 == 0) continue;
      const bool adds = (op.attributes.accumulate >> o & 1U) != 0;
      Symbols out = before[o];
      for (std::size_t g = 0; g < out.size(); ++g) {
        const std::uint64_t part = mix(all ^ mix(o * 1000003 + g));
        out[g] = is_update(op) ? mix(out[g] ^ part) : adds ? out[g] + part : part;
      }
      write(rank, op.outputs[o], slot, out);
    }
  }

  void arrive(int rank, int queue, const Op& op, std::int64_t slot) {
    const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(op.group->mesh)];
    const std::vector<int> ranks = members(mesh, *op.group, rank);
    Meeting& meeting = meetings_[{*op.group, queue, ranks}];
    const auto is_own = [&](const Posted& posted) { return posted.rank == rank; };
    if (std::any_of(meeting.arrived.begin(), meeting.arrived.end(), is_own) ||
        std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) {
      failed_ = true;
      return;
    }
    meeting.members = ranks;
    meeting.arrived.push_back({rank, queue, op.outputs.front(), slot});
    line(rank, queue).is_waiting = true;
  }

  const Op& op_of(const Posted& posted) {
    Line& own = line(posted.rank, posted.queue);
    return program(posted.rank).segments[std::get<Run>(body(own)).segment].ops[own.op];
  }

  void meet(Meeting& meeting) {
    std::vector<Symbols> inputs;
    const Op& first = op_of(meeting.arrived.front());
    for (const int rank : meeting.members) {
      const auto own = std::find_if(meeting.arrived.begin(), meeting.arrived.end(),
                                    [&](const Posted& posted) { return posted.rank == rank; });
      const Op& op = op_of(*own);
      inputs.push_back(read(rank, op.inputs.front(), own->slot));
      failed_ = failed_ || op.kind != first.kind ||
                op.attributes.combine != first.attributes.combine ||
                inputs.back().size() != inputs.front().size();
    }
    if (failed_) return;
    for (const Posted& posted : meeting.arrived) {
      const auto member = std::find(meeting.members.begin(), meeting.members.end(), posted.rank);
      const auto position = static_cast<std::size_t>(member - meeting.members.begin());
      write(posted.rank, posted.buffer, posted.slot, joined(first.kind, inputs, position));
      Line& own = line(posted.rank, posted.queue);
      own.is_waiting = false;
      ++own.op;
    }
    meeting.arrived.clear();
  }

  static Symbols joined(OpKind kind, const std::vector<Symbols>& inputs, std::size_t position) {
    Symbols all;
    if (kind == OpKind::AllGather) {
      for (const Symbols& each : inputs) all.insert(all.end(), each.begin(), each.end());
      return all;
    }
    all.assign(inputs.front().size(), 0);
    for (const Symbols& each : inputs) {
      for (std::size_t g = 0; g < all.size(); ++g) all[g] += each[g];
    }
    for (std::uint64_t& symbol : all) symbol = mix(symbol);
    if (kind == OpKind::AllReduce) return all;
    const std::size_t part = all.size() / inputs.size();
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(part * position);
    return {begin, begin + static_cast<std::ptrdiff_t>(part)};
  }

  // ---- memory ----
  std::size_t granule(int rank, BufferId id, std::int64_t slot) const {
    return static_cast<std::size_t>(arena_offset(plan_, rank, id, slot).count() / 4);
  }
  std::size_t granules(int rank, BufferId id) const {
    const Buffer& buffer = program(rank).buffers[id];
    return static_cast<std::size_t>(bytes_of(buffer.dtype, buffer.shape).count() / 4);
  }
  Symbols read(int rank, BufferId id, std::int64_t slot) const {
    const Symbols& memory = memory_[static_cast<std::size_t>(rank)];
    const auto begin = memory.begin() + static_cast<std::ptrdiff_t>(granule(rank, id, slot));
    return {begin, begin + static_cast<std::ptrdiff_t>(granules(rank, id))};
  }
  void write(int rank, BufferId id, std::int64_t slot, const Symbols& symbols) {
    const auto of = static_cast<std::size_t>(rank);
    const auto begin = static_cast<std::ptrdiff_t>(granule(rank, id, slot));
    std::copy(symbols.begin(), symbols.end(), memory_[of].begin() + begin);
    std::fill_n(is_written_[of].begin() + begin, symbols.size(), true);
  }

  const Plan& plan_;
  std::uint64_t random_;
  std::vector<Symbols> memory_;  // by rank
  std::vector<std::vector<bool>> is_written_;
  std::vector<std::vector<Line>> lines_;  // by rank and queue
  std::map<ChannelKey, Channel> channels_;
  std::map<MeetingKey, Meeting> meetings_;
  bool failed_ = false;
};

}  // namespace mega::testing
