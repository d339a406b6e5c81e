// Writes tensors as safetensors: an 8-byte little-endian length, that many bytes of JSON which
// say where each tensor lies, then the numbers.
#pragma once

#include <span>
#include <string>

#include "ir/base/result.h"
#include "runtime/tensors.h"

namespace mega::runtime {

// The whole file or none: it is written under a temporary name beside `path`, then renamed.
Status write_safetensors(const std::string& path, std::span<const GlobalTensor> tensors);

}  // namespace mega::runtime
