#include "planner/spec/hf_config.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

namespace mega::planner {
namespace {

using nlohmann::json;

// No configuration comes near these. Deeper ones would end in recursion, and products of larger
// sizes leave 64 bits.
constexpr int kDeepest = 16;
constexpr std::int64_t kLargest = std::int64_t{1} << 31;

// Mappings inside: one level deep, as "rope_parameters.rope_theta". Those of one entry per kind of
// layer stay whole.
std::map<std::string, json> flattened(const json& config) {
  std::map<std::string, json> flat;
  for (const auto& [key, value] : config.items()) {
    if (!value.is_object() || value.empty()) {
      flat[key] = value;
      continue;
    }
    for (const auto& [inner, inner_value] : value.items()) {
      flat[std::string(key).append(".").append(inner)] = inner_value;
    }
  }
  return flat;
}

bool fits(const json& value, std::int64_t) {
  return value.is_number_integer() && value >= 0 && value <= kLargest;
}
bool fits(const json& value, double) {
  return value.is_number();
}
bool fits(const json& value, bool) {
  return value.is_boolean();
}
bool fits(const json& value, const std::string&) {
  return value.is_string();
}

}  // namespace

struct HfConfig::State {
  std::map<std::string, json> values;
  std::set<std::string> known;
};

HfConfig::HfConfig(std::string file, std::unique_ptr<State> state)
    : file_(std::move(file)), state_(std::move(state)) {}
HfConfig::~HfConfig() = default;
HfConfig::HfConfig(HfConfig&&) noexcept = default;
HfConfig& HfConfig::operator=(HfConfig&&) noexcept = default;

Result<HfConfig> HfConfig::parse(const std::string& file, const std::string& text) {
  json config;
  bool is_too_deep = false;
  const auto look = [&](int depth, json::parse_event_t, json&) {
    is_too_deep = is_too_deep || depth > kDeepest;
    return !is_too_deep;
  };
  try {
    config = json::parse(text, look);
  } catch (const json::parse_error& problem) {
    Diagnostic error;
    error.file = file;
    const std::string_view before(text.data(), std::min(problem.byte, text.size()));
    const std::size_t line_start = before.rfind('\n') + 1;  // of npos: 0
    error.where.line = 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n'));
    error.where.column = std::max(1, static_cast<int>(before.size() - line_start));
    error.message = "this is no JSON";
    return error;
  }
  if (is_too_deep) {
    Diagnostic error;
    error.file = file;
    error.message = "it is nested more than " + std::to_string(kDeepest) + " levels deep";
    return error;
  }
  if (!config.is_object()) {
    Diagnostic error;
    error.file = file;
    error.message = "a config.json is a mapping";
    return error;
  }
  auto state = std::make_unique<State>();
  state->values = flattened(config);
  return HfConfig(file, std::move(state));
}

void HfConfig::fail(std::string message) {
  Diagnostic error;
  error.file = file_;
  error.message = std::move(message);
  errors_.push_back(std::move(error));
}

template <class T>
std::optional<T> HfConfig::value(const std::vector<std::string>& names, const char* kind) {
  std::optional<T> result;
  for (const std::string& name : names) {
    const auto found = state_->values.find(name);
    if (found == state_->values.end()) continue;
    state_->known.insert(name);
    if (found->second.is_null() || result) continue;
    if (!fits(found->second, T())) {
      fail("'" + name + "' must be " + kind + ", got " + found->second.dump());
      continue;
    }
    result = found->second.get<T>();
  }
  return result;
}

std::optional<std::int64_t> HfConfig::integer(const std::vector<std::string>& names) {
  return value<std::int64_t>(names, "a whole number up to 2^31");
}
std::optional<double> HfConfig::real(const std::vector<std::string>& names) {
  return value<double>(names, "a number");
}
std::optional<bool> HfConfig::boolean(const std::vector<std::string>& names) {
  return value<bool>(names, "true or false");
}
std::optional<std::string> HfConfig::word(const std::vector<std::string>& names) {
  return value<std::string>(names, "a word");
}

bool HfConfig::is_zero(const std::string& name) const {
  const auto found = state_->values.find(name);
  return found != state_->values.end() && found->second.is_number() && found->second == 0;
}

void HfConfig::pass_over(const std::vector<std::string>& names) {
  state_->known.insert(names.begin(), names.end());
}

std::vector<std::string> HfConfig::left() const {
  std::vector<std::string> left;
  for (const auto& [name, value] : state_->values) {
    if (state_->known.contains(name) || value.is_null()) continue;
    std::string text = value.dump();
    if (text.size() > 60) text = text.substr(0, 57) + "...";
    left.push_back(std::string(name).append(": ").append(text));
  }
  return left;
}

}  // namespace mega::planner
