#include "planner/spec/yaml_node.h"

namespace mega::planner {

const YamlNode* find(const YamlNode& node, const std::string& key) {
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    if (node.keys[i].text == key) return &node.items[i];
  }
  return nullptr;
}

YamlNode* find(YamlNode& node, const std::string& key) {
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    if (node.keys[i].text == key) return &node.items[i];
  }
  return nullptr;
}

}  // namespace mega::planner
