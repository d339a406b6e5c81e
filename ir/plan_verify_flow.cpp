#include "ir/plan_verify_flow.h"

#include <algorithm>

namespace mega::verifying {

ProgramFlow::ProgramFlow(const Plan& plan, int program, AccessTable accesses, Report& report)
    : plan_(plan),
      number_(program),
      program_(plan.programs[static_cast<std::size_t>(program)]),
      accesses_(std::move(accesses)),
      report_(report) {
  std::size_t count = 0;
  for (const Atom& atom : accesses_.atoms) {
    first_state_.push_back(count);
    const bool in_slot = atom.region == Region::Slot;
    count += in_slot ? static_cast<std::size_t>(
                           program_.chunks[static_cast<std::size_t>(atom.chunk)].slot_count)
                     : 1;
  }
  states_.resize(count);
  readers_.resize(count * plan_.queues.size());
  after_init_.assign(count, false);
}

void ProgramFlow::follow(const Unrolled& sequence, bool is_init) {
  sequence_ = &sequence;
  std::fill(readers_.begin(), readers_.end(), -1);
  for (std::size_t i = 0; i < states_.size(); ++i) states_[i] = {-1, -1, after_init_[i]};
  for (std::size_t i = 0; i < sequence.instances().size(); ++i) {
    const auto instance = static_cast<std::int32_t>(i);
    const auto& body = sequence.instances()[i].instruction->body;
    if (const auto* run = std::get_if<Run>(&body)) follow_run(*run, instance);
    if (const auto* exchange = std::get_if<Exchange>(&body)) follow_exchange(*exchange, instance);
  }
  if (!is_init) return;
  for (std::size_t atom = 0; atom < accesses_.atoms.size(); ++atom) {
    if (accesses_.atoms[atom].region != Region::Persistent) continue;
    after_init_[first_state_[atom]] = states_[first_state_[atom]].is_written;
  }
}

std::int64_t ProgramFlow::turn_of(std::int32_t instance) const {
  const auto& all = sequence_->instances();
  return std::max<std::int64_t>(0, all[static_cast<std::size_t>(instance)].turn);
}

void ProgramFlow::fail(std::int32_t instance, const std::string& kind, const std::string& reason,
                       std::vector<std::string> notes) {
  const Instance& where = sequence_->instances()[static_cast<std::size_t>(instance)];
  if (!report_.is_new(std::to_string(number_) + " " + sequence_->name() + " " +
                      std::to_string(where.number) + " " + kind)) {
    return;
  }
  report_.add(report_.program(number_) + ": " + report_.instance(number_, *sequence_, instance) +
                  ": " + reason,
              std::move(notes));
}

// Which slot and micro-batch an instruction works on, if it says so exactly where it must.
std::optional<ProgramFlow::Use> ProgramFlow::use_of(const std::optional<Affine>& micro_batch,
                                                    const std::optional<Affine>& slot, int chunk,
                                                    std::int32_t instance) {
  const std::int64_t turn = turn_of(instance);
  Use use{instance, micro_batch ? micro_batch->at(turn) : -1, slot ? slot->at(turn) : -1};
  const auto wrong = [&](const std::string& reason) {
    fail(instance, reason, reason);
    return std::nullopt;
  };
  if (micro_batch && use.micro_batch < 0) return wrong("a negative micro-batch");
  if (chunk < 0) {
    if (slot) return wrong("a slot of no chunk");
    return use;
  }
  if (!micro_batch || !slot) return wrong("it works on a slot, but doesn't say mb= and slot=");
  if (use.slot < 0) return wrong("a negative slot");
  use.slot %= program_.chunks[static_cast<std::size_t>(chunk)].slot_count;
  return use;
}

void ProgramFlow::follow_run(const Run& run, std::int32_t instance) {
  const Segment& segment = program_.segments[run.segment];
  const auto use = use_of(run.micro_batch, run.slot, segment.chunk, instance);
  if (!use) return;
  if (segment.chunk < 0 && run.micro_batch) {
    return fail(instance, "micro-batch", "the segment works on no chunk, so it has no micro-batch");
  }
  for (const Access& each : accesses_.of_segment[static_cast<std::size_t>(run.segment.index)]) {
    access(each, *use);
  }
}

void ProgramFlow::follow_exchange(const Exchange& exchange, std::int32_t instance) {
  if (exchange.transfers.empty()) fail(instance, "empty", "it transfers nothing");
  for (const Transfer& transfer : exchange.transfers) {
    const Buffer& buffer = program_.buffers[transfer.buffer];
    if (buffer.region == Region::Scratch) {
      fail(instance, "scratch",
           "scratch lives inside a segment, so nothing transfers " + named(buffer.name));
      continue;
    }
    bool moves = false;
    for (BufferId id = transfer.buffer; id; id = program_.buffers[id].parent) {
      moves = moves || program_.buffers[id].move;
    }
    if (moves) {
      fail(instance, "moves", "a view that moves is not transferred: " + named(buffer.name));
      continue;
    }
    const auto use = use_of(transfer.micro_batch, transfer.slot, buffer.chunk, instance);
    if (!use) continue;
    const auto atoms = static_cast<std::size_t>(transfer.buffer.index);
    for (const std::int32_t atom : accesses_.of_transfer[atoms]) {
      access({atom, transfer.is_send, !transfer.is_send}, *use);
    }
  }
}

void ProgramFlow::access(const Access& access, const Use& use) {
  const Atom& atom = accesses_.atoms[static_cast<std::size_t>(access.atom)];
  std::size_t index = first_state_[static_cast<std::size_t>(access.atom)];
  if (atom.region == Region::Slot) index += static_cast<std::size_t>(use.slot);
  State& state = states_[index];
  check_order(access, use, index);
  if (access.reads) check_content(access, use, state);
  const std::size_t queues = plan_.queues.size();
  const auto& instances = sequence_->instances();
  const int queue = instances[static_cast<std::size_t>(use.instance)].queue();
  if (access.writes) {
    const auto readers = readers_.begin() + static_cast<std::ptrdiff_t>(index * queues);
    std::fill(readers, readers + static_cast<std::ptrdiff_t>(queues), -1);
    state = {use.instance, use.micro_batch, true};
  } else {
    readers_[index * queues + static_cast<std::size_t>(queue)] = use.instance;
  }
}

std::string ProgramFlow::what(const Access& access, const Use& use) const {
  const Atom& atom = accesses_.atoms[static_cast<std::size_t>(access.atom)];
  const std::string name = named(program_.buffers[atom.example].name);
  return atom.region == Region::Slot ? name + " of slot " + std::to_string(use.slot) : name;
}

void ProgramFlow::check_content(const Access& access, const Use& use, const State& state) {
  const Atom& atom = accesses_.atoms[static_cast<std::size_t>(access.atom)];
  if (!state.is_written) {
    return fail(use.instance, "unwritten",
                "it reads " + what(access, use) + " before anything wrote it",
                {"persistent buffers are written by 'init', or earlier in the same sequence"});
  }
  if (atom.region != Region::Slot || state.micro_batch == use.micro_batch) return;
  fail(use.instance, "micro-batch",
       "it reads " + what(access, use) + " for micro-batch " + std::to_string(use.micro_batch) +
           ", which holds micro-batch " + std::to_string(state.micro_batch),
       {"written by " + report_.instance(number_, *sequence_, state.writer)});
}

// Whoever touched these bytes before must have ended: the writer always, readers before a write.
void ProgramFlow::check_order(const Access& access, const Use& use, std::size_t index) {
  const auto unordered = [&](std::int32_t other, const std::string& does) {
    if (other < 0 || sequence_->is_before(other, use.instance)) return;
    const std::string verb = access.writes ? "writes " : "reads ";
    const bool is_same = other == use.instance;
    fail(use.instance, "order",
         is_same ? "two of its transfers share " + what(access, use)
                 : "it " + verb + what(access, use) + " without waiting for " +
                       report_.instance(number_, *sequence_, other) + ", which " + does + " it");
  };
  unordered(states_[index].writer, "writes");
  if (!access.writes) return;
  const std::size_t queues = plan_.queues.size();
  for (std::size_t q = 0; q < queues; ++q) unordered(readers_[index * queues + q], "reads");
}

}  // namespace mega::verifying
