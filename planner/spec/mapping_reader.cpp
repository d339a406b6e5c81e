#include "planner/spec/mapping_reader.h"

#include <algorithm>
#include <utility>

namespace mega::planner {
namespace {

std::string described(const YamlNode& node) {
  if (node.is_mapping()) return "a mapping";
  if (node.is_sequence()) return "a list";
  if (node.is_scalar()) return quote(node.text);
  return "nothing";
}

// 0 and 0.0 are the same value.
bool same_value(const std::string& a, const std::string& b) {
  const auto number_a = parse_real(a);
  const auto number_b = parse_real(b);
  return a == b || (number_a && number_b && *number_a == *number_b);
}

bool contains(const std::vector<std::string>& values, const std::string& value) {
  return std::any_of(values.begin(), values.end(),
                     [&](const std::string& other) { return same_value(value, other); });
}

}  // namespace

std::vector<Note> notes_for(const std::vector<std::string>& paths, const Places& places) {
  std::vector<Note> notes;
  for (const std::string& path : paths) {
    const auto place = places.find(path);
    if (place == places.end()) continue;
    notes.push_back({place->second.file, place->second.where, path + " is given here"});
  }
  return notes;
}

MappingReader::MappingReader(const YamlNode& node, std::string path, ReadLog& log)
    : path_(std::move(path)), log_(&log) {
  if (!path_.empty()) log_->places[path_] = {node.file, node.where};
  if (node.is_mapping()) {
    node_ = &node;
    return;
  }
  const std::string what = path_.empty() ? "the file" : path_;
  log_->errors.push_back({node.file,
                          node.where,
                          what + " must be a mapping, got " + described(node),
                          {},
                          "write KEY: VALUE lines"});
}

std::string MappingReader::path_of(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

bool MappingReader::has(const std::string& key) const {
  return node_ != nullptr && planner::find(*node_, key) != nullptr;
}

const YamlNode* MappingReader::find(const std::string& key) {
  known_.push_back(key);
  const YamlNode* value = node_ == nullptr ? nullptr : planner::find(*node_, key);
  if (value == nullptr) return nullptr;
  log_->places[path_of(key)] = {value->file, value->where};
  if (value->kind != YamlNode::Kind::Null) return value;
  // An empty value stands where the next token is, often lines below: point at the key.
  for (const YamlKey& known : node_->keys) {
    if (known.text == key) log_->places[path_of(key)] = {known.file, known.where};
  }
  fail(key, path_of(key) + " has no value", "give it one or remove the key");
  return nullptr;
}

const YamlNode* MappingReader::scalar(const std::string& key, const std::string& kind) {
  const YamlNode* value = find(key);
  if (value == nullptr || value->is_scalar()) return value;
  fail(key, path_of(key) + " must be " + kind + ", got " + described(*value));
  return nullptr;
}

std::optional<std::int64_t> MappingReader::integer(const std::string& key, IntegerRange range) {
  const YamlNode* node = scalar(key, "a whole number");
  if (node == nullptr) return std::nullopt;
  const auto value = node->is_quoted ? std::nullopt : parse_integer(node->text);
  if (!value) {
    fail(key, path_of(key) + " must be a whole number, got " + quote(node->text),
         node->is_quoted ? "remove the quotes" : "");
    return std::nullopt;
  }
  if (*value < range.least) {
    const std::string least = std::to_string(range.least);
    fail(key, path_of(key) + " must be at least " + least + ", got " + node->text,
         "use " + key + ": " + least);
    return std::nullopt;
  }
  if (*value > range.most) {
    fail(key,
         path_of(key) + " must be at most " + std::to_string(range.most) + ", got " + node->text);
    return std::nullopt;
  }
  return value;
}

std::optional<double> MappingReader::real(const std::string& key, RealRange range) {
  const YamlNode* node = scalar(key, "a number");
  if (node == nullptr) return std::nullopt;
  const auto value = node->is_quoted ? std::nullopt : parse_real(node->text);
  if (!value) {
    fail(key, path_of(key) + " must be a number, got " + quote(node->text),
         node->is_quoted ? "remove the quotes" : "");
    return std::nullopt;
  }
  const std::string got = ", got " + node->text;
  if (*value < range.least || (range.without_least && *value == range.least)) {
    const std::string bound = range.without_least ? " must be above " : " must be at least ";
    fail(key, path_of(key) + bound + format_real(range.least) + got);
    return std::nullopt;
  }
  if (*value > range.most || (range.without_most && *value == range.most)) {
    const std::string bound = range.without_most ? " must be below " : " must be at most ";
    fail(key, path_of(key) + bound + format_real(range.most) + got);
    return std::nullopt;
  }
  return value;
}

std::optional<bool> MappingReader::boolean(const std::string& key) {
  const YamlNode* node = scalar(key, "true or false");
  if (node == nullptr) return std::nullopt;
  if (!node->is_quoted && (node->text == "true" || node->text == "false")) {
    return node->text == "true";
  }
  fail(key, path_of(key) + " must be true or false, got " + quote(node->text));
  return std::nullopt;
}

std::optional<std::string> MappingReader::word(const std::string& key) {
  const YamlNode* node = scalar(key, "a word");
  if (node == nullptr) return std::nullopt;
  return node->text;
}

std::optional<std::string> MappingReader::choice(const std::string& key,
                                                 const std::vector<std::string>& built,
                                                 const std::vector<std::string>& not_built) {
  const YamlNode* node = scalar(key, any_of(built));
  if (node == nullptr) return std::nullopt;
  const std::string& value = node->text;
  if (std::find(built.begin(), built.end(), value) != built.end()) return value;
  if (std::find(not_built.begin(), not_built.end(), value) != not_built.end()) {
    fail(key, path_of(key) + " " + quote(value) + " is not built yet", "use " + any_of(built));
    return std::nullopt;
  }
  std::vector<std::string> all = built;
  all.insert(all.end(), not_built.begin(), not_built.end());
  const std::string meant = closest(value, all);
  fail(key, path_of(key) + " must be " + any_of(built) + ", got " + quote(value),
       meant.empty() ? "" : "did you mean " + quote(meant) + "?");
  return std::nullopt;
}

template <class T>
std::optional<T> MappingReader::quantity(const std::string& key,
                                         std::optional<T> (*parse)(std::string_view),
                                         const std::string& kind, const std::string& example) {
  const YamlNode* node = scalar(key, kind);
  if (node == nullptr) return std::nullopt;
  const std::optional<T> value = parse(node->text);
  if (!value) {
    fail(key, path_of(key) + " must be " + kind + ", got " + quote(node->text),
         "such as " + example);
    return std::nullopt;
  }
  if (value->count() < 0) {
    fail(key, path_of(key) + " must not be negative, got " + quote(node->text));
    return std::nullopt;
  }
  return value;
}

std::optional<Bytes> MappingReader::bytes(const std::string& key) {
  return quantity(key, &parse_bytes, "a number of bytes", "80GiB, 80GB or 1048576");
}

std::optional<BytesPerSecond> MappingReader::bandwidth(const std::string& key) {
  return quantity(key, &parse_bandwidth, "a rate in bytes per second",
                  "900GB/s, or 400Gb/s for bits");
}

std::optional<Seconds> MappingReader::seconds(const std::string& key) {
  return quantity(key, &parse_seconds, "a time in seconds", "5us or 2.5ms");
}

std::optional<FlopsPerSecond> MappingReader::flops(const std::string& key) {
  return quantity(key, &parse_flops, "a rate in FLOP/s", "312TFLOPS");
}

std::optional<MappingReader> MappingReader::mapping(const std::string& key) {
  const YamlNode* node = find(key);
  if (node == nullptr) return std::nullopt;
  MappingReader reader(*node, path_of(key), *log_);
  if (!reader.is_usable()) return std::nullopt;
  return reader;
}

void MappingReader::not_built(const std::string& key, const std::vector<std::string>& built) {
  known_.push_back(key);
  const YamlNode* node = node_ == nullptr ? nullptr : planner::find(*node_, key);
  if (node == nullptr || node->kind == YamlNode::Kind::Null) return;
  log_->places[path_of(key)] = {node->file, node->where};
  if (node->is_scalar() && contains(built, node->text)) return;
  const std::string value = node->is_scalar() ? " " + quote(node->text) : "";
  fail(key, path_of(key) + value + " is not built yet",
       built.empty() ? "remove it" : "remove it or use " + any_of(built));
}

void MappingReader::required(const std::string& key) {
  if (node_ == nullptr || has(key)) return;
  log_->errors.push_back({node_->file, node_->where, path_of(key) + " is missing", {}, {}});
}

void MappingReader::fail(const std::string& key, std::string message, std::string help,
                         const std::vector<std::string>& other_paths) {
  const auto place = log_->places.find(path_of(key));
  const Place at = place != log_->places.end() ? place->second
                   : node_ != nullptr          ? Place{node_->file, node_->where}
                                               : Place{};
  log_->errors.push_back({at.file, at.where, std::move(message),
                          notes_for(other_paths, log_->places), std::move(help)});
}

void MappingReader::finish() {
  if (node_ == nullptr) return;
  for (const YamlKey& key : node_->keys) {
    if (std::find(known_.begin(), known_.end(), key.text) != known_.end()) continue;
    const std::string meant = closest(key.text, known_);
    const std::string section = path_.empty() ? "" : " in " + path_;
    log_->errors.push_back({key.file,
                            key.where,
                            "unknown key " + quote(key.text) + section,
                            {},
                            meant.empty() ? "" : "did you mean " + quote(meant) + "?"});
  }
}

}  // namespace mega::planner
