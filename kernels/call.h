// One call of one kernel: an op of the plan with its operands resolved to addresses.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "ir/op.h"
#include "ir/types.h"

namespace mega::kernels {

struct Operand {
  void* data = nullptr;
  DType dtype = DType::Fp32;
  std::span<const std::int64_t> shape;  // local, row-major, contiguous
};

// Where a local buffer sits in its global tensor; for initialization by global position.
struct Box {
  std::span<const std::int64_t> global_shape;  // unpadded; elements at or past it are zero
  std::span<const std::int64_t> start;         // of the local part, per dimension
  std::uint64_t key = 0;                       // stable id of the tensor: hash of its global name
};

// The windows of the current global batch, in host memory.
struct BatchView {
  const std::uint8_t* tokens = nullptr;   // bytes are the tokens
  std::span<const std::int64_t> windows;  // [global_batch]: first token of each sample's window
                                          // of sequence_length + 1 tokens
};

// Numbers of the running step.
struct Scalars {
  double learning_rate = 0;
  double weight_decay = 0;
  std::int64_t step = 0;  // 1 for the first update
  std::uint64_t seed = 0;
  std::int64_t micro_batch = 0;  // of the running segment
};

struct Call {
  OpKind kind = OpKind::Add;
  const Index* index = nullptr;
  Extents extents;  // local sizes of the letters
  Attributes attributes;
  std::array<Operand, 8> inputs;
  std::array<Operand, 4> outputs;
  std::int64_t origin = 0;  // Op::origin resolved for this rank
  bool is_owner = true;     // Op::owner resolved: false adds zero
  Box box;                  // of outputs[0], for init_normal
  BatchView batch;
  Scalars scalars;
};

}  // namespace mega::kernels
