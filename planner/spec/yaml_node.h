// A YAML document as plain data: every value and key knows its file and place, order and duplicate
// keys are kept. No anchors, aliases or tags: those are refused when a document is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/base/diagnostic.h"

namespace mega::planner {

struct YamlKey {
  std::string text;
  std::string file;
  SourceLoc where;
};

struct YamlNode {
  enum class Kind : std::uint8_t { Null, Scalar, Sequence, Mapping };
  Kind kind = Kind::Null;
  std::string file;
  SourceLoc where;
  std::string text;             // Scalar
  bool is_quoted = false;       // Scalar: "8" in quotes is a text, never a number
  std::vector<YamlKey> keys;    // Mapping: key i belongs to item i
  std::vector<YamlNode> items;  // Sequence, Mapping

  bool is_mapping() const { return kind == Kind::Mapping; }
  bool is_scalar() const { return kind == Kind::Scalar; }
  bool is_sequence() const { return kind == Kind::Sequence; }
};

// The value of the first key of that name; nullptr when there is none or `node` is no mapping.
const YamlNode* find(const YamlNode& node, const std::string& key);
YamlNode* find(YamlNode& node, const std::string& key);

}  // namespace mega::planner
