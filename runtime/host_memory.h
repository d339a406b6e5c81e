// How much memory this host still has for us.
#pragma once

#include <optional>
#include <string>

#include "ir/base/units.h"

namespace mega::runtime {

// The least of what the kernel calls available and what the control group (v1 or v2) leaves,
// counting file caches as free. `root` is put before every path that is read. Nothing when
// neither can be read.
std::optional<Bytes> available_memory(const std::string& root = {});

}  // namespace mega::runtime
