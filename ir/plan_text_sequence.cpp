#include <limits>
#include <utility>

#include "ir/base/text.h"
#include "ir/plan_text.h"
#include "ir/plan_text_parser.h"

namespace mega {
namespace {

// Keeps base + step * i far from the end of 64 bits.
constexpr std::int64_t kMaxTerm = std::int64_t{1} << 32;
constexpr std::int64_t kMaxHop = std::int64_t{1} << 24;
constexpr std::int64_t kMaxBehind = std::int64_t{1} << 30;

}  // namespace

bool PlanParser::sequence_statement(TextCursor& line, std::string_view keyword) {
  if (keyword == "sequence") return sequence(line);
  if (place_ != Place::Sequence) {
    return line.fail_last(quote(keyword) + " outside a sequence",
                          "it follows a line 'sequence NAME' of a program");
  }
  if (keyword == "repeat") return repeat(line);
  if (keyword == "end") return end(line);
  return keyword == "run" ? run(line) : exchange(line);
}

bool PlanParser::sequence(TextCursor& line) {
  if (place_ == Place::Nowhere) return line.fail_last("'sequence' outside a program");
  close_repeat();
  place_ = Place::Sequence;
  current().sequences.emplace_back().name = declare(line, sequences_, "sequence");
  return !line.error();
}

bool PlanParser::repeat(TextCursor& line) {
  if (repeat_) {
    return line.fail_last("'repeat' inside 'repeat'",
                          "the one before has no 'end' yet; loops don't nest");
  }
  repeat_.emplace();
  repeat_line_ = line.number();
  return store(repeat_->count, line.integer("a count", 0, kMaxInstructions)) &&
         line.expect_word("as") && line.expect_word("i");
}

bool PlanParser::end(TextCursor& line) {
  if (!repeat_) return line.fail_last("'end' without 'repeat'");
  instructions_ += repeat_->count * static_cast<std::int64_t>(repeat_->body.size());
  current().sequences.back().steps.emplace_back(std::move(*repeat_));
  repeat_.reset();
  if (instructions_ <= kMaxInstructions) return true;
  return line.fail_last("the loops come to over " + std::to_string(kMaxInstructions) +
                        " instructions");
}

// A loop that is still open where it can't go on.
void PlanParser::close_repeat() {
  if (!repeat_) return;
  add_error({repeat_line_, 0}, "'repeat' has no 'end'");
  repeat_.reset();
}

bool PlanParser::add_instruction(TextCursor& line, Instruction instruction) {
  if (repeat_) {
    repeat_->body.push_back(std::move(instruction));
    return true;
  }
  current().sequences.back().steps.emplace_back(std::move(instruction));
  if (++instructions_ <= kMaxInstructions) return true;
  return line.fail_last("over " + std::to_string(kMaxInstructions) + " instructions");
}

int PlanParser::slots_of(int chunk) const {
  const auto& chunks = plan_.programs.back().chunks;
  return chunk < 0 ? 0 : chunks[static_cast<std::size_t>(chunk)].slot_count;
}

bool PlanParser::run(TextCursor& line) {
  Run run;
  const int segment = use(line, segments_, "segment");
  if (segment < 0) return false;
  run.segment = SegmentId{segment};
  const int slots = slots_of(current().segments[run.segment].chunk);
  if (!micro_batch_and_slot(line, slots, run.micro_batch, run.slot)) return false;
  Instruction instruction;
  instruction.body = run;
  return queue_and_waits(line, instruction) && add_instruction(line, std::move(instruction));
}

bool PlanParser::exchange(TextCursor& line) {
  Exchange exchange;
  if (!store(exchange.mesh, in_mesh(line))) return false;
  exchange.axis = use(line, mesh_axes_[static_cast<std::size_t>(exchange.mesh)], "axis");
  if (exchange.axis < 0) return false;
  if (line.peek_word("send") || line.peek_word("receive")) {
    do {
      if (!transfer(line, exchange)) return false;
    } while (line.accept(','));
  }
  Instruction instruction;
  instruction.body = std::move(exchange);
  return queue_and_waits(line, instruction) && add_instruction(line, std::move(instruction));
}

bool PlanParser::transfer(TextCursor& line, Exchange& exchange) {
  Transfer transfer;
  transfer.is_send = line.accept_word("send");
  if (!transfer.is_send && !line.accept_word("receive")) {
    return line.fail_next("expected 'send' or 'receive'");
  }
  const int buffer = use(line, buffers_, "buffer");
  if (buffer < 0) return false;
  transfer.buffer = BufferId{buffer};
  const int slots = slots_of(current().buffers[transfer.buffer].chunk);
  if (!micro_batch_and_slot(line, slots, transfer.micro_batch, transfer.slot)) return false;
  if (!line.expect_word(transfer.is_send ? "to" : "from")) return false;
  if (!store(transfer.hop, line.integer("a number of places", -kMaxHop, kMaxHop))) return false;
  exchange.transfers.push_back(transfer);
  return true;
}

bool PlanParser::queue_and_waits(TextCursor& line, Instruction& instruction) {
  instruction.queue = QueueId{0};
  if (line.accept_word("on")) {
    instruction.queue.index = use(line, queues_, "queue");
    if (instruction.queue.index < 0) return false;
  }
  if (line.accept_word("after")) {
    do {
      Wait wait;
      wait.queue.index = use(line, queues_, "queue");
      if (wait.queue.index < 0) return false;
      if (line.accept('~') &&
          !store(wait.behind, line.integer("a number of instructions", 0, kMaxBehind))) {
        return false;
      }
      instruction.waits.push_back(wait);
    } while (line.accept(','));
  }
  auto* exchange = std::get_if<Exchange>(&instruction.body);
  if (exchange == nullptr || !line.accept_key("ns")) return true;
  return store(exchange->predicted_ns,
               line.integer("a time in nanoseconds", 0, std::numeric_limits<std::int64_t>::max()));
}

// "mb=i+3 slot=(i+3)%4", which is "mb=i+3 slot=mb%4".
bool PlanParser::micro_batch_and_slot(TextCursor& line, int slots,
                                      std::optional<Affine>& micro_batch,
                                      std::optional<Affine>& slot) {
  if (line.accept_key("mb") && !store(micro_batch, affine(line))) return false;
  if (!line.accept_key("slot")) return true;
  if (micro_batch && line.accept_word("mb")) {
    slot = micro_batch;
  } else {
    const bool bracket = line.accept('(');
    if (!store(slot, affine(line)) || (bracket && !line.expect(')'))) return false;
  }
  if (!line.accept('%')) return true;
  const auto modulus = line.integer("the number of slots", 1, kMaxTerm);
  if (!modulus) return false;
  if (*modulus == slots || slots == 0) return true;
  return line.fail_last("slots are counted modulo the chunk's " + std::to_string(slots) + ", not " +
                        std::to_string(*modulus));
}

// "3", "i", "i+3", "4*i-3".
std::optional<Affine> PlanParser::affine(TextCursor& line) {
  const auto value = affine_sum(line);
  if (!value || value->step == 0 || repeat_) return value;
  line.fail_last("'i' has a value only between 'repeat' and 'end'");
  return std::nullopt;
}

std::optional<Affine> PlanParser::affine_sum(TextCursor& line) {
  Affine value;
  if (!line.accept('i')) {
    const auto number = line.integer("a number or 'i'", -kMaxTerm, kMaxTerm);
    if (!number) return std::nullopt;
    value.base = *number;
    if (!line.accept('*')) return value;
    if (!line.expect('i')) return std::nullopt;
    value.step = std::exchange(value.base, 0);
  } else {
    value.step = 1;
  }
  if ((line.peek('+') || line.peek('-')) &&
      !store(value.base, line.integer("a number", -kMaxTerm, kMaxTerm))) {
    return std::nullopt;
  }
  return value;
}

}  // namespace mega
