#include "runtime/describe.h"

namespace mega::runtime {
namespace {

std::string numbers(const std::optional<Affine>& micro_batch, const std::optional<Affine>& slot,
                    std::int64_t turn) {
  std::string text;
  if (micro_batch) text += " mb=" + std::to_string(micro_batch->at(turn));
  if (slot) text += " slot=" + std::to_string(slot->at(turn));
  return text;
}

}  // namespace

std::string describe_rank(const Plan& plan, int rank) {
  const Mesh& mesh = plan.meshes.front();
  std::string coordinates;
  for (int axis = 0; axis < static_cast<int>(mesh.axes.size()); ++axis) {
    const Axis& along = mesh.axes[static_cast<std::size_t>(axis)];
    if (along.size == 1) continue;
    coordinates += (coordinates.empty() ? "" : ",") + along.name + "=" +
                   std::to_string(coordinate(mesh, rank, axis));
  }
  const std::string name = "rank " + std::to_string(rank);
  return coordinates.empty() ? name : name + " (" + coordinates + ")";
}

std::string describe(const Plan& plan, const Program& program, const Instruction& instruction,
                     std::int64_t turn) {
  if (const auto* run = std::get_if<Run>(&instruction.body)) {
    return "run " + program.segments[run->segment].name +
           numbers(run->micro_batch, run->slot, turn);
  }
  const auto& exchange = std::get<Exchange>(instruction.body);
  const Mesh& mesh = plan.meshes[static_cast<std::size_t>(exchange.mesh)];
  std::string text = "exchange along " + mesh.axes[static_cast<std::size_t>(exchange.axis)].name;
  const char* separator = ": ";
  for (const Transfer& transfer : exchange.transfers) {
    text += separator + std::string(transfer.is_send ? "send " : "receive ") +
            program.buffers[transfer.buffer].name +
            numbers(transfer.micro_batch, transfer.slot, turn);
    separator = ", ";
  }
  return text;
}

}  // namespace mega::runtime
