#include "ir/types.h"

namespace mega {

std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::Fp32:
      return "fp32";
    case DType::Fp64:
      return "fp64";
    case DType::Int32:
      return "int32";
  }
  return "?";
}

std::optional<DType> dtype_named(std::string_view name) {
  for (const DType dtype : {DType::Fp32, DType::Fp64, DType::Int32}) {
    if (name_of(dtype) == name) return dtype;
  }
  return std::nullopt;
}

std::int64_t size_of(DType dtype) {
  return dtype == DType::Fp64 ? 8 : 4;
}

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

Bytes bytes_of(DType dtype, const Shape& shape) {
  return Bytes(size_of(dtype) * element_count(shape));
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ",";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace mega
