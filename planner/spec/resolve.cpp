#include "planner/spec/resolve.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "ir/base/text.h"
#include "planner/spec/bundled.h"
#include "planner/spec/yaml_reader.h"

namespace mega::planner {
namespace {

constexpr int kDeepestUse = 8;

// Keys whose value may be a name that stands for a file.
bool may_be_named(const std::string& key) {
  return key == "model" || key == "cluster" || key == "training" || key == "gpu";
}

bool is_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".yaml") || text.ends_with(".yml");
}

void append(YamlNode& mapping, YamlKey key, YamlNode value) {
  mapping.keys.push_back(std::move(key));
  mapping.items.push_back(std::move(value));
}

// {use: name}
YamlNode using_name(const YamlNode& name) {
  YamlNode mapping;
  mapping.kind = YamlNode::Kind::Mapping;
  mapping.file = name.file;
  mapping.where = name.where;
  append(mapping, {"use", name.file, name.where}, name);
  return mapping;
}

// `base` with the keys of `override`, mappings merged key by key.
YamlNode merge(const YamlNode& base, const YamlNode& override) {
  YamlNode merged = base;
  merged.file = override.file;
  merged.where = override.where;
  for (std::size_t i = 0; i < override.keys.size(); ++i) {
    const YamlKey& key = override.keys[i];
    const YamlNode& value = override.items[i];
    YamlNode* old = find(merged, key.text);
    if (key.text == "use") continue;
    if (old == nullptr) {
      append(merged, key, value);
    } else if (!value.is_mapping() || find(value, "use") != nullptr) {
      *old = value;
    } else if (old->is_mapping()) {
      *old = merge(*old, value);
    } else if (old->is_scalar() && may_be_named(key.text)) {
      YamlNode named = value;
      append(named, {"use", old->file, old->where}, *old);
      *old = std::move(named);
    } else {
      *old = value;
    }
  }
  return merged;
}

// Moves the places of a value that was parsed by itself to where it stands in its --set.
void shift(YamlNode& node, int line, int columns) {
  node.where = {line, node.where.column + columns};
  for (YamlKey& key : node.keys) key.where = {line, key.where.column + columns};
  for (YamlNode& item : node.items) shift(item, line, columns);
}

void set_value(YamlNode& root, const std::string& path, int line, YamlNode value) {
  YamlNode* node = &root;
  int column = 1;
  const std::vector<std::string> keys = split(path, '.');
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const YamlKey key{keys[i], kSetSource, {line, column}};
    column += static_cast<int>(keys[i].size()) + 1;
    YamlNode* child = find(*node, key.text);
    if (child == nullptr) {
      append(*node, key, {});
      child = &node->items.back();
    }
    if (i + 1 == keys.size()) {
      *child = std::move(value);
      return;
    }
    if (child->is_scalar() && may_be_named(key.text)) *child = using_name(*child);
    if (!child->is_mapping()) {
      *child = {};
      child->kind = YamlNode::Kind::Mapping;
      child->file = kSetSource;
      child->where = key.where;
    }
    node = child;
  }
}

}  // namespace

Resolver::Resolver(std::string specs_directory, ReadLog& log)
    : specs_directory_(std::move(specs_directory)), log_(&log), hash_(fnv1a("")) {}

std::optional<YamlNode> Resolver::parse(const std::string& name, const std::string& text) {
  sources_[name] = text;
  hash_ = fnv1a(text, fnv1a(std::to_string(text.size()) + ":", hash_));
  Result<YamlNode> node = parse_yaml(name, text);
  const Errors errors = node.ok() ? duplicate_keys(node.value()) : node.errors();
  log_->errors.insert(log_->errors.end(), errors.begin(), errors.end());
  if (!node.ok()) return std::nullopt;
  return std::move(node).value();
}

std::optional<YamlNode> Resolver::read_job_file(const std::string& path_or_dash) {
  const bool is_standard_input = path_or_dash == "-";
  const Result<std::string> text =
      is_standard_input ? read_standard_input(kLargestYaml) : read_file(path_or_dash, kLargestYaml);
  if (text.ok()) return parse(is_standard_input ? kStandardInput : path_or_dash, text.value());
  log_->errors.push_back(text.errors()[0]);
  return std::nullopt;
}

std::optional<YamlNode> Resolver::load(const std::string& path, const YamlNode& named_by) {
  const Result<std::string> text = read_file(path, kLargestYaml);
  if (text.ok()) return parse(path, text.value());
  // The user can mend the name, so that is where the error belongs.
  log_->errors.push_back({named_by.file,
                          named_by.where,
                          quote(named_by.text) + ": " + path + " " + text.errors()[0].message,
                          {},
                          {}});
  return std::nullopt;
}

void Resolver::apply_sets(YamlNode& root, const std::vector<std::string>& sets) {
  for (std::size_t i = 0; i < sets.size(); ++i) {
    hash_ = fnv1a(sets[i], fnv1a("set" + std::to_string(sets[i].size()) + ":", hash_));
    sources_[kSetSource] += sets[i] + "\n";
    apply_set(root, sets[i], static_cast<int>(i) + 1);
  }
}

void Resolver::apply_set(YamlNode& root, const std::string& set, int line) {
  const std::size_t equals = set.find('=');
  const std::string path = set.substr(0, equals);
  const std::vector<std::string> keys = split(path, '.');
  const bool has_empty_key = std::find(keys.begin(), keys.end(), "") != keys.end();
  if (equals == std::string::npos || has_empty_key || set.find('\n') != std::string::npos) {
    log_->errors.push_back({kSetSource,
                            {line, 1},
                            "expected KEY=VALUE, got " + quote(set),
                            {},
                            "such as layout.tp=8"});
    return;
  }
  Result<YamlNode> value = parse_yaml(kSetSource, set.substr(equals + 1));
  const int columns = static_cast<int>(equals) + 1;
  if (!value.ok()) {
    Diagnostic error = value.errors()[0];
    error.where = {line, error.where.column + columns};
    log_->errors.push_back(error);
    return;
  }
  YamlNode node = std::move(value).value();
  node.file = kSetSource;
  node.where.column = std::max(1, node.where.column);
  shift(node, line, columns);
  const Errors errors = duplicate_keys(node);
  log_->errors.insert(log_->errors.end(), errors.begin(), errors.end());
  if (root.is_mapping()) set_value(root, path, line, std::move(node));
}

std::string Resolver::path_of(const YamlNode& name, const std::string& folder) {
  namespace fs = std::filesystem;
  if (!is_path(name.text)) {
    return (fs::path(specs_directory_) / folder / (name.text + ".yaml")).string();
  }
  // A path is relative to the file that names it; on the command line, to where the user stands.
  const bool typed = name.file == kSetSource || name.file == kStandardInput;
  const fs::path base = typed ? fs::path() : fs::path(name.file).parent_path();
  return (base / name.text).lexically_normal().string();
}

std::optional<Resolver::Section> Resolver::resolve_name(const YamlNode& name,
                                                        const std::string& folder, int depth) {
  if (!is_path(name.text)) {
    std::vector<std::string> names;
    for (const BundledSpec& spec : list_bundled(folder, specs_directory_)) {
      names.push_back(spec.name);
    }
    if (std::find(names.begin(), names.end(), name.text) == names.end()) {
      const std::string meant = closest(name.text, names);
      log_->errors.push_back({name.file,
                              name.where,
                              "no " + quote(name.text) + " among the bundled " + folder,
                              {},
                              meant.empty()
                                  ? "there are: " + join(names, ", ") + "; a path ends with .yaml"
                                  : "did you mean " + quote(meant) + "?"});
      return std::nullopt;
    }
  }
  const std::string path = path_of(name, folder);
  std::optional<YamlNode> node = load(path, name);
  if (!node) return std::nullopt;
  if (!node->is_mapping()) return Section{std::move(*node), ""};
  std::optional<Section> section = resolve(*node, folder, depth + 1);
  if (section) section->name = std::filesystem::path(path).stem().string();
  return section;
}

std::optional<Resolver::Section> Resolver::resolve(const YamlNode& value, const std::string& folder,
                                                   int depth) {
  if (value.is_scalar()) return resolve_name(value, folder, depth);
  const YamlNode* use = find(value, "use");
  if (use == nullptr) return Section{value, ""};
  if (!use->is_scalar() || depth >= kDeepestUse) {
    const std::string message =
        use->is_scalar() ? "'use' goes in a circle: deeper than " + std::to_string(kDeepestUse)
                         : "'use' must be a bundled name or a path";
    log_->errors.push_back({use->file, use->where, message, {}, {}});
    return std::nullopt;
  }
  std::optional<Section> base = resolve_name(*use, folder, depth);
  if (base) base->node = merge(base->node, value);
  return base;
}

std::string Resolver::fingerprint() const {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash_));
  return text.data();
}

}  // namespace mega::planner
