// Typed views of a call's operands, for the functions that turn a Call into kernels.
#pragma once

#include <cstdint>
#include <string>

#include "ir/base/check.h"
#include "kernels/call.h"
#include "kernels/portable.h"

namespace mega::kernels {

inline const float* floats(const Operand& operand) {
  MEGA_CHECK(operand.dtype == DType::Fp32, std::string(name_of(operand.dtype)));
  return static_cast<const float*>(operand.data);
}
inline const std::int32_t* ints(const Operand& operand) {
  MEGA_CHECK(operand.dtype == DType::Int32, std::string(name_of(operand.dtype)));
  return static_cast<const std::int32_t*>(operand.data);
}
inline const double* doubles(const Operand& operand) {
  MEGA_CHECK(operand.dtype == DType::Fp64, std::string(name_of(operand.dtype)));
  return static_cast<const double*>(operand.data);
}
inline float* mutable_floats(const Operand& operand) {
  return const_cast<float*>(floats(operand));
}
inline std::int32_t* mutable_ints(const Operand& operand) {
  return const_cast<std::int32_t*>(ints(operand));
}
inline double* mutable_doubles(const Operand& operand) {
  return const_cast<double*>(doubles(operand));
}

inline std::int64_t count_of(const Operand& operand) {
  std::int64_t count = 1;
  for (const std::int64_t size : operand.shape) count *= size;
  return count;
}
inline std::int64_t last_dimension(const Operand& operand) {
  return operand.shape.empty() ? 1 : operand.shape.back();
}

inline bool accumulates(const Call& call, int output) {
  return (call.attributes.accumulate >> output & 1U) != 0;
}

// Adds to what is there, or overwrites it (without reading: it may be poison).
MEGA_HD inline void put(float& target, float value, bool accumulate) {
  target = accumulate ? target + value : value;
}

}  // namespace mega::kernels
