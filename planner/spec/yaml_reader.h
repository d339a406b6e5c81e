// Text to YAML nodes, strictly: one document, UTF-8, at most kLargestYaml, 64 levels and 50,000
// values; no anchors, aliases or tags, scalar keys only. A key that stands twice in a mapping is
// an error of its own, so that the rest is still read and all errors come at once.
#pragma once

#include <cstdint>
#include <string>

#include "ir/base/result.h"
#include "ir/base/units.h"
#include "planner/spec/yaml_node.h"

namespace mega::planner {

inline constexpr Bytes kLargestYaml{std::int64_t{1} << 20};

// Of an empty document: a Null node.
Result<YamlNode> parse_yaml(const std::string& file, const std::string& text);

// One error per repeated key anywhere below `node`.
Errors duplicate_keys(const YamlNode& node);

}  // namespace mega::planner
