// Element types and shapes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/units.h"

namespace mega {

enum class DType : std::uint8_t { Fp32, Fp64, Int32 };

std::string_view name_of(DType dtype);  // "fp32"
std::optional<DType> dtype_named(std::string_view name);
std::int64_t size_of(DType dtype);  // bytes per element

using Shape = std::vector<std::int64_t>;  // row-major; empty is a scalar

std::int64_t element_count(const Shape& shape);  // 1 for a scalar
Bytes bytes_of(DType dtype, const Shape& shape);
std::string to_string(const Shape& shape);  // "[4,128]"

// Every buffer of an arena starts at a multiple of this; a cache line, and 16-byte GPU accesses.
inline constexpr std::int64_t kBufferAlignmentBytes = 64;
constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace mega
