#include "planner/cost/op_time.h"

#include <algorithm>
#include <cmath>

#include "ir/base/check.h"

namespace mega::planner {
namespace {

struct ReadIndex {
  Index index;
  Extents extents;
};

ReadIndex read_index(const OpShape& op) {
  const std::optional<Index> index = parse_index(op.index);
  MEGA_CHECK(index, "bad index " + op.index);
  const ExtentsOrMessage result = extents_of(*index, op.inputs, op.outputs);
  MEGA_CHECK(result.extents, std::string(info(op.kind).name) + ": " + result.message);
  return {*index, *result.extents};
}

// A matrix product reaches the fraction k / (k + k0) of its peak: its inner loops run over the
// contracted dimension k, and filling and draining them costs as much as k0 more steps. Estimate:
// 256 steps at 312 TFLOP/s; a faster machine has more in flight, a CPU almost nothing.
double depth_ramp(double k, FlopsPerSecond peak) {
  const double k0 = 256 * std::sqrt(peak.count() / 312e12);
  return k / (k + k0);
}

bool is_expert_letter(char letter) {
  return letter == 'x' || letter == 'y';
}

bool is_attention(OpKind kind) {
  return kind == OpKind::Attention || kind == OpKind::AttentionBackward;
}

// Which operand is a table of which only some rows are touched.
bool is_table(OpKind kind, bool is_input, std::size_t position) {
  switch (kind) {
    case OpKind::Embedding:
    case OpKind::AddPosition:
      return is_input && position == 1;
    case OpKind::EmbeddingBackward:
    case OpKind::AddPositionBackward:
      return !is_input && position == 0;
    default:
      return false;
  }
}

}  // namespace

FlopsPerSecond peak_of(const GpuSpec& gpu, const std::string& precision) {
  FlopsPerSecond peak = gpu.peak_fp32;
  if (precision == "bf16" || precision == "fp16") peak = gpu.peak_bf16;
  if (precision == "fp8") peak = gpu.peak_fp8.count() > 0 ? gpu.peak_fp8 : gpu.peak_bf16;
  return peak.count() > 0 ? peak : gpu.peak_fp32;
}

Flops op_flops(const OpShape& op) {
  const auto [index, extents] = read_index(op);
  return flops(op.kind, index, extents, op.attributes);
}

Bytes op_bytes(const OpShape& op) {
  Bytes bytes;
  const auto add = [&](bool is_input, std::size_t i, const Shape& shape) {
    const DType dtype = is_input ? input_dtype(op.kind, i) : output_dtype(op.kind, i);
    const bool is_added_to = !is_input && (op.attributes.accumulate >> i & 1U) != 0;
    // Rows of a table: as much as the other tensor of the same width.
    const Shape& moved = !is_table(op.kind, is_input, i) ? shape
                         : is_input                      ? op.outputs[0]
                                                         : op.inputs.back();
    bytes += bytes_of(dtype, moved) * (is_added_to ? 2 : 1);
  };
  for (std::size_t i = 0; i < op.inputs.size(); ++i) add(true, i, op.inputs[i]);
  for (std::size_t i = 0; i < op.outputs.size(); ++i) add(false, i, op.outputs[i]);
  return bytes;
}

std::int64_t op_ns(const GpuSpec& gpu, const std::string& precision, const OpShape& op) {
  const auto [index, extents] = read_index(op);
  FlopsPerSecond rate = gpu.peak_fp32;  // elementwise: the plain units
  if (op.kind == OpKind::MatMul || op.kind == OpKind::GroupedMatMul) {
    const FlopsPerSecond peak = peak_of(gpu, precision);
    std::string contracted = contracted_letters(index);
    // Experts and sources are not summed over: each row is one expert's.
    if (op.kind == OpKind::GroupedMatMul) std::erase_if(contracted, is_expert_letter);
    const auto k = static_cast<double>(extents.product(contracted));
    rate = FlopsPerSecond(peak.count() * gpu.efficiency.matmul * depth_ramp(k, peak));
  } else if (is_attention(op.kind)) {
    rate = FlopsPerSecond(peak_of(gpu, precision).count() * gpu.efficiency.attention);
  }
  const Seconds compute = flops(op.kind, index, extents, op.attributes) / rate;
  const Seconds memory =
      op_bytes(op) / BytesPerSecond(gpu.bandwidth.count() * gpu.efficiency.memory);
  return to_ns(std::max(compute, memory) + gpu.launch);
}

std::int64_t to_ns(Seconds time) {
  return std::llround(time.count() * 1e9);
}

}  // namespace mega::planner
