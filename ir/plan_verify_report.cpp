#include "ir/plan_verify_report.h"

#include <algorithm>

#include "ir/base/text.h"
#include "ir/plan_text_cursor.h"

namespace mega::verifying {
namespace {

constexpr std::size_t kMaxReported = 50;

std::string of_run(const Program& program, const Run& run, std::int64_t turn) {
  std::string text = "run " + named(program.segments[run.segment].name);
  if (run.micro_batch) text += " mb=" + std::to_string(run.micro_batch->at(turn));
  if (run.slot) text += " slot=" + std::to_string(run.slot->at(turn));
  return text;
}

std::string of_exchange(const Plan& plan, const Program& program, const Exchange& exchange,
                        std::int64_t turn) {
  const Mesh& mesh = plan.meshes[static_cast<std::size_t>(exchange.mesh)];
  std::string text = "exchange along " + mesh.axes[static_cast<std::size_t>(exchange.axis)].name;
  for (const Transfer& transfer : exchange.transfers) {
    text += transfer.is_send ? ", send " : ", receive ";
    text += named(program.buffers[transfer.buffer].name);
    if (transfer.micro_batch) text += " mb=" + std::to_string(transfer.micro_batch->at(turn));
    text += transfer.is_send ? " to " : " from ";
    text += (transfer.hop > 0 ? "+" : "") + std::to_string(transfer.hop);
  }
  return text;
}

}  // namespace

std::string named(const std::string& name) {
  return is_plain_name(name) ? name : quote(name);
}

// ---- sequences ----------------------------------------------------------------------------------

Unrolled::Unrolled(const Plan& plan, const Sequence& sequence)
    : name_(&sequence.name), on_queue_(plan.queues.size()) {
  int number = 1;
  for (const Step& step : sequence.steps) {
    if (const auto* repeat = std::get_if<Repeat>(&step)) {
      for (std::int64_t turn = 0; turn < repeat->count; ++turn) {
        int inner = number;
        for (const Instruction& each : repeat->body) add(each, inner++, turn);
      }
      number += static_cast<int>(repeat->body.size());
    } else if (const auto* one = std::get_if<Instruction>(&step)) {
      add(*one, number++, -1);
    }
  }
}

void Unrolled::add(const Instruction& instruction, int number, std::int64_t turn) {
  const std::size_t queues = on_queue_.size();
  const auto self = static_cast<std::int32_t>(instances_.size());
  clocks_.resize(clocks_.size() + queues, 0);
  std::int32_t* clock = clocks_.data() + static_cast<std::size_t>(self) * queues;
  const auto after = [&](std::int32_t before) {
    const std::int32_t* theirs = clocks_.data() + static_cast<std::size_t>(before) * queues;
    for (std::size_t q = 0; q < queues; ++q) clock[q] = std::max(clock[q], theirs[q]);
    const Instance& instance = instances_[static_cast<std::size_t>(before)];
    std::int32_t& own = clock[instance.queue()];
    own = std::max(own, instance.position + 1);
  };
  auto& line = on_queue_[static_cast<std::size_t>(instruction.queue.index)];
  if (!line.empty()) after(line.back());
  for (const Wait& wait : instruction.waits) {
    const auto& other = on_queue_[static_cast<std::size_t>(wait.queue.index)];
    const auto issued = static_cast<std::int64_t>(other.size());
    if (issued > wait.behind) after(other[static_cast<std::size_t>(issued - wait.behind - 1)]);
  }
  instances_.push_back({&instruction, number, turn, static_cast<std::int32_t>(line.size())});
  line.push_back(self);
}

const std::vector<std::int32_t>& Unrolled::on_queue(int queue) const {
  return on_queue_[static_cast<std::size_t>(queue)];
}

std::int32_t Unrolled::ended(std::int32_t instance, int queue) const {
  return clocks_[static_cast<std::size_t>(instance) * on_queue_.size() +
                 static_cast<std::size_t>(queue)];
}

bool Unrolled::is_before(std::int32_t a, std::int32_t b) const {
  const Instance& earlier = instances_[static_cast<std::size_t>(a)];
  return ended(b, earlier.queue()) > earlier.position;
}

// ---- report -------------------------------------------------------------------------------------

void Report::add(std::string message, std::string help) {
  add(std::move(message), std::vector<std::string>{}, std::move(help));
}

void Report::add(std::string message, std::vector<std::string> notes, std::string help) {
  if (++count_ > kMaxReported) return;
  Diagnostic diagnostic{file_, {}, std::move(message), {}, std::move(help)};
  for (std::string& note : notes) diagnostic.notes.push_back({file_, {}, std::move(note)});
  diagnostics_.push_back(std::move(diagnostic));
}

std::vector<Diagnostic> Report::take() {
  if (count_ > kMaxReported) {
    diagnostics_.push_back({file_,
                            {},
                            "the plan breaks " + std::to_string(count_ - kMaxReported) +
                                " more rules that are not listed",
                            {},
                            {}});
  }
  return std::move(diagnostics_);
}

std::string Report::program_at(int number, int position) const {
  const Mesh& mesh = plan_.meshes.front();
  std::string text = named(plan_.programs[static_cast<std::size_t>(number)].name);
  const int rank = rank_at(mesh, 0, plan_.by, position);
  std::string place;
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
    const int axis = static_cast<int>(i);
    if (!plan_.by.contains(axis)) continue;
    place += (place.empty() ? "" : " ") + mesh.axes[i].name + "=" +
             std::to_string(coordinate(mesh, rank, axis));
  }
  return place.empty() ? text : text + " (" + place + ")";
}

std::string Report::program(int number) const {
  const auto found = std::find(plan_.assignment.begin(), plan_.assignment.end(), number);
  if (found == plan_.assignment.end()) {
    return named(plan_.programs[static_cast<std::size_t>(number)].name) + " (run by no rank)";
  }
  return program_at(number, static_cast<int>(found - plan_.assignment.begin()));
}

std::string Report::instance(int program, const Unrolled& sequence, std::int32_t number) const {
  const Instance& instance = sequence.instances()[static_cast<std::size_t>(number)];
  const Program& owner = plan_.programs[static_cast<std::size_t>(program)];
  std::string text = named(sequence.name()) + " instruction " + std::to_string(instance.number);
  if (instance.turn >= 0) text += " (i=" + std::to_string(instance.turn) + ")";
  const std::int64_t turn = std::max<std::int64_t>(instance.turn, 0);
  const auto* run = std::get_if<Run>(&instance.instruction->body);
  if (run != nullptr) return text + ", " + of_run(owner, *run, turn);
  return text + ", " +
         of_exchange(plan_, owner, std::get<Exchange>(instance.instruction->body), turn);
}

std::string Report::op(int program, SegmentId segment, std::size_t op) const {
  const Segment& of = plan_.programs[static_cast<std::size_t>(program)].segments[segment];
  return "segment " + named(of.name) + " op " + std::to_string(op + 1) + ", " +
         std::string(info(of.ops[op].kind).name);
}

}  // namespace mega::verifying
