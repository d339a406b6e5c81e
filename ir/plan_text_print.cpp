#include "ir/base/check.h"
#include "ir/base/text.h"
#include "ir/plan_text.h"
#include "ir/plan_text_printer.h"

namespace mega {

std::string PlanPrinter::print() {
  put("megaplan 1\n");
  header();
  put("\n");
  for (const Mesh& of : plan_.meshes) {
    put("mesh ").name(of.name);
    for (const Axis& axis : of.axes) put(" ").name(axis.name).put("=").put(axis.size);
    put("\n");
  }
  for (const std::string& queue : plan_.queues) put("queue ").name(queue).put("\n");
  for (const Program& each : plan_.programs) {
    program_ = &each;
    program();
  }
  ranks();
  return std::move(out_);
}

// ---- header -------------------------------------------------------------------------------------

void PlanPrinter::text_line(std::string_view key, std::string_view value) {
  put(key).put(" ").name(value).put("\n");
}

void PlanPrinter::number_line(std::string_view key, std::int64_t value) {
  put(key).put(" ").put(value).put("\n");
}

void PlanPrinter::real_line(std::string_view key, double value) {
  put(key).put(" ").put(format_real(value)).put("\n");
}

void PlanPrinter::header() {
  const Header& header = plan_.header;
  text_line("job", header.job);
  text_line("fingerprint", header.fingerprint);
  text_line("precision", header.precision);
  number_line("seed", header.seed);
  number_line("global_batch", header.global_batch);
  number_line("sequence_length", header.sequence_length);
  number_line("vocab", header.vocab);
  number_line("threads_per_rank", header.threads_per_rank);
  real_line("weight_decay", header.weight_decay);
  schedule();
  number_line("predicted_step_ns", header.predicted_step_ns);
  real_line("model_flops_per_step", header.model_flops_per_step);
  real_line("peak_flops_per_rank", header.peak_flops_per_rank);
  for (const HeaderEntry& entry : header.entries) {
    put("entry ").name(entry.key).put(" ").name(entry.value).put("\n");
  }
}

void PlanPrinter::schedule() {
  const LearningRateSchedule& schedule = plan_.header.schedule;
  put("learning_rate ").name(schedule.kind);
  put(" peak=").put(format_real(schedule.learning_rate));
  put(" least=").put(format_real(schedule.min_learning_rate));
  put(" warmup=").put(schedule.warmup_steps).put(" decay=").put(schedule.decay_steps).put("\n");
}

void PlanPrinter::ranks() {
  put("\nranks");
  if (!plan_.by.empty()) {
    put(" by ");
    axes(mesh(0), plan_.by);
  }
  put(":");
  const std::vector<int>& assigned = plan_.assignment;
  for (std::size_t i = 0; i < assigned.size();) {
    std::size_t end = i;
    while (end < assigned.size() && assigned[end] == assigned[i]) ++end;
    put(" ").name(plan_.programs.at(static_cast<std::size_t>(assigned[i])).name);
    if (end - i > 1) put("*").put(end - i);
    i = end;
  }
  put("\n");
}

// ---- small parts --------------------------------------------------------------------------------

void PlanPrinter::axes(const Mesh& of, AxisSet set) {
  if (set.empty()) put("()");
  bool first = true;
  for (std::size_t i = 0; i < of.axes.size(); ++i) {
    if (!set.contains(static_cast<int>(i))) continue;
    if (!first) put("+");
    name(of.axes[i].name);
    first = false;
  }
}

void PlanPrinter::in_mesh(int index) {
  if (index != 0) name(mesh(index).name).put("@");
}

void PlanPrinter::shape(const Shape& shape) {
  put("[");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) put(",");
    put(shape[i]);
  }
  put("]");
}

void PlanPrinter::affine(Affine value) {
  if (value.step == 0) {
    put(value.base);
    return;
  }
  if (value.step != 1) put(value.step).put("*");
  put("i");
  if (value.base > 0) put("+");
  if (value.base != 0) put(value.base);
}

// The remainder by the chunk's slot count is for the reader; the value keeps the number before.
void PlanPrinter::slot(Affine value, const std::optional<Affine>& micro_batch, int chunk) {
  put(" slot=");
  const bool has_chunk = chunk >= 0 && static_cast<std::size_t>(chunk) < program_->chunks.size();
  const int count = has_chunk ? program_->chunks[static_cast<std::size_t>(chunk)].slot_count : 0;
  const bool reduced = value.step == 0 && value.base >= 0 && value.base < count;
  if (count == 0 || reduced) {
    affine(value);
    return;
  }
  const bool brackets = value.step != 0 && (value.step != 1 || value.base != 0);
  if (value == micro_batch) {
    put("mb");
  } else if (brackets) {
    put("(");
    affine(value);
    put(")");
  } else {
    affine(value);
  }
  put("%").put(count);
}

void PlanPrinter::of_chunk(int chunk) {
  if (chunk >= 0) put(" of ").name(program_->chunks.at(static_cast<std::size_t>(chunk)).name);
}

// ---- sequences ----------------------------------------------------------------------------------

void PlanPrinter::sequence(const Sequence& sequence) {
  put(" sequence ").name(sequence.name).put("\n");
  for (const Step& step : sequence.steps) {
    if (const auto* repeat = std::get_if<Repeat>(&step)) {
      put("  repeat ").put(repeat->count).put(" as i\n");
      for (const Instruction& each : repeat->body) instruction(each, "   ");
      put("  end\n");
    } else if (const auto* one = std::get_if<Instruction>(&step)) {
      instruction(*one, "  ");
    }
  }
}

void PlanPrinter::instruction(const Instruction& instruction, std::string_view indent) {
  put(indent);
  const auto* sent = std::get_if<Exchange>(&instruction.body);
  if (sent != nullptr) {
    exchange(*sent);
  } else {
    run(std::get<Run>(instruction.body));
  }
  const auto queue = [&](QueueId id) -> std::string_view {
    return plan_.queues.at(static_cast<std::size_t>(id.index));
  };
  if (instruction.queue.index != 0) put(" on ").name(queue(instruction.queue));
  for (std::size_t i = 0; i < instruction.waits.size(); ++i) {
    put(i == 0 ? " after " : ",").name(queue(instruction.waits[i].queue));
    if (instruction.waits[i].behind != 0) put("~").put(instruction.waits[i].behind);
  }
  if (sent != nullptr && sent->predicted_ns != 0) put(" ns=").put(sent->predicted_ns);
  put("\n");
}

void PlanPrinter::run(const Run& run) {
  const Segment& segment = program_->segments[run.segment];
  put("run ").name(segment.name);
  if (run.micro_batch) put(" mb=");
  if (run.micro_batch) affine(*run.micro_batch);
  if (run.slot) slot(*run.slot, run.micro_batch, segment.chunk);
}

void PlanPrinter::exchange(const Exchange& exchange) {
  put("exchange ");
  in_mesh(exchange.mesh);
  name(mesh(exchange.mesh).axes.at(static_cast<std::size_t>(exchange.axis)).name);
  for (std::size_t i = 0; i < exchange.transfers.size(); ++i) {
    const Transfer& transfer = exchange.transfers[i];
    const Buffer& buffer = program_->buffers[transfer.buffer];
    put(i == 0 ? " " : ", ").put(transfer.is_send ? "send " : "receive ").name(buffer.name);
    if (transfer.micro_batch) put(" mb=");
    if (transfer.micro_batch) affine(*transfer.micro_batch);
    if (transfer.slot) slot(*transfer.slot, transfer.micro_batch, buffer.chunk);
    put(transfer.is_send ? " to " : " from ").put(transfer.hop > 0 ? "+" : "").put(transfer.hop);
  }
}

std::string print_plan(const Plan& plan) {
  MEGA_CHECK(!plan.meshes.empty(), "a plan has a mesh");
  return PlanPrinter(plan).print();
}

}  // namespace mega
