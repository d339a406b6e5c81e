#include "ir/plan_verify.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ir/plan_verify_access.h"
#include "ir/plan_verify_flow.h"
#include "ir/plan_verify_proofs.h"

namespace mega {
namespace {

using verifying::ProgramFlow;
using verifying::Report;
using verifying::UnrolledSequences;
using verifying::World;

// "init" first: what it writes is there for all others, whatever their order in the text.
std::vector<std::string> sequence_names(const Plan& plan) {
  std::vector<std::string> names;
  for (const Program& program : plan.programs) {
    for (const Sequence& sequence : program.sequences) {
      if (std::find(names.begin(), names.end(), sequence.name) == names.end()) {
        names.push_back(sequence.name);
      }
    }
  }
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name == "init"; });
  return names;
}

UnrolledSequences unroll(const Plan& plan, const std::string& name) {
  UnrolledSequences sequences;
  for (const Program& program : plan.programs) {
    const Sequence* sequence = find_sequence(program, name);
    sequences.emplace_back();
    if (sequence != nullptr) sequences.back().emplace(plan, *sequence);
  }
  return sequences;
}

}  // namespace

std::vector<Diagnostic> verify(const Plan& plan, const std::string& file) {
  Report report(plan, file);
  verifying::check_references(plan, report);
  if (report.size() > 0) return report.take();
  verifying::check_header(plan, report);
  const int programs = static_cast<int>(plan.programs.size());
  for (int p = 0; p < programs; ++p) verifying::check_layout(plan, p, report);
  verifying::check_tensors(plan, report);
  for (int p = 0; p < programs; ++p) verifying::check_ops(plan, p, report);
  // What follows relies on buffers that are where they seem to be and on ops with their operands.
  if (report.size() > 0) return report.take();
  std::vector<ProgramFlow> flows;
  for (int p = 0; p < programs; ++p) {
    flows.emplace_back(plan, p, verifying::find_accesses(plan, p, report), report);
  }
  const World world(plan);
  for (const std::string& name : sequence_names(plan)) {
    const UnrolledSequences sequence = unroll(plan, name);
    for (std::size_t p = 0; p < flows.size(); ++p) {
      if (sequence[p]) flows[p].follow(*sequence[p], name == "init");
    }
    verifying::check_micro_batches(plan, sequence, report);
    verifying::check_input(plan, sequence, report);
    verifying::check_communication(plan, world, sequence, report);
    verifying::check_concurrency(plan, world, sequence, report);
  }
  return report.take();
}

}  // namespace mega
