#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ir/plan_verify_proofs.h"

namespace mega::verifying {
namespace {

struct Span {
  std::int64_t least = 0, most = 0;
};

// Where the parts of the ranks start: the least and the greatest.
std::optional<Span> origins(const Mesh& mesh, const std::vector<OriginTerm>& terms) {
  Span span;
  for (const OriginTerm& term : terms) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(extent(mesh, term.axes) - 1, term.stride, &reach)) {
      return std::nullopt;
    }
    std::int64_t& end = reach < 0 ? span.least : span.most;
    if (__builtin_add_overflow(end, reach, &end)) return std::nullopt;
  }
  return span;
}

bool reads_batch(const Op& op) {
  return op.kind == OpKind::InputTokens || op.kind == OpKind::InputLabels;
}

class Input {
 public:
  Input(const Plan& plan, const UnrolledSequences& sequence, Report& report)
      : plan_(plan), sequence_(sequence), report_(report) {}

  void check() {
    for (std::size_t p = 0; p < plan_.programs.size(); ++p) {
      if (!sequence_[p]) continue;
      for (std::size_t i = 0; i < sequence_[p]->instances().size(); ++i) {
        const Instance& instance = sequence_[p]->instances()[i];
        if (const auto* run = std::get_if<Run>(&instance.instruction->body)) {
          check(static_cast<int>(p), static_cast<std::int32_t>(i), *run);
        }
      }
    }
  }

 private:
  void check(int program, std::int32_t number, const Run& run) {
    const Program& of = plan_.programs[static_cast<std::size_t>(program)];
    const Segment& segment = of.segments[run.segment];
    const Unrolled& sequence = *sequence_[static_cast<std::size_t>(program)];
    for (const Op& op : segment.ops) {
      if (!reads_batch(op)) continue;
      const std::string reason = problem(of, op, sequence, number, run);
      if (reason.empty()) continue;
      report_.add(report_.program(program) + ": " + report_.instance(program, sequence, number) +
                  ": " + reason);
      return;
    }
  }

  std::string problem(const Program& program, const Op& op, const Unrolled& sequence,
                      std::int32_t number, const Run& run) const {
    if (sequence.name() == "init") return "there is no batch to read yet";
    const Shape& shape = program.buffers[op.outputs.front()].shape;
    if (shape[0] > plan_.header.sequence_length) {
      return "it reads " + std::to_string(shape[0]) + " tokens of a sequence of " +
             std::to_string(plan_.header.sequence_length);
    }
    const std::int64_t turn =
        std::max<std::int64_t>(0, sequence.instances()[static_cast<std::size_t>(number)].turn);
    const std::int64_t micro_batch = run.micro_batch ? run.micro_batch->at(turn) : 0;
    const auto span = origins(plan_.meshes[static_cast<std::size_t>(op.mesh)], op.origin);
    // Where ranks hold parts of the sequence, origins count tokens.
    const std::int64_t unit = std::max<std::int64_t>(1, op.attributes.length);
    std::int64_t first = 0, end = 0;
    const bool is_far = !span ||
                        __builtin_mul_overflow(micro_batch, op.attributes.stride, &first) ||
                        __builtin_add_overflow(first, span->most / unit, &end) ||
                        __builtin_add_overflow(end, shape[1], &end);
    if (is_far) return "it reads samples beyond any batch";
    if (span->least >= 0 && first >= 0 && end <= plan_.header.global_batch) return {};
    return "it reads samples " + std::to_string(first) + " to " + std::to_string(end - 1) +
           " of a global batch of " + std::to_string(plan_.header.global_batch);
  }

  const Plan& plan_;
  const UnrolledSequences& sequence_;
  Report& report_;
};

}  // namespace

void check_header(const Plan& plan, Report& report) {
  const Header& header = plan.header;
  const auto positive = [&](const char* key, std::int64_t value) {
    if (value < 1) report.add(std::string("header: ") + key + " must be at least 1");
  };
  positive("global_batch", header.global_batch);
  positive("sequence_length", header.sequence_length);
  positive("vocab", header.vocab);
  const std::array<std::string, 4> known = {"fp32", "bf16", "fp16", "fp8"};
  if (std::find(known.begin(), known.end(), header.precision) == known.end()) {
    report.add("header: unknown precision " + named(header.precision),
               "use fp32, bf16, fp16 or fp8");
  }
  for (const double value :
       {header.weight_decay, header.model_flops_per_step, header.peak_flops_per_rank,
        header.schedule.learning_rate, header.schedule.min_learning_rate}) {
    if (std::isfinite(value) && value >= 0) continue;
    report.add("header: rates and FLOPs must be finite and at least 0");
    return;
  }
}

void check_input(const Plan& plan, const UnrolledSequences& sequence, Report& report) {
  Input(plan, sequence, report).check();
}

}  // namespace mega::verifying
