#include "tools/megaplan_input.h"

#include <utility>

#include "ir/base/text.h"
#include "ir/plan_text.h"
#include "planner/spec/bundled.h"

namespace mega::tool {
namespace {

// At commas outside of brackets.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c == ',' && depth == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

}  // namespace

std::string specs_directory(const Options& options) {
  return planner::find_specs_directory(options.program).value_or(MEGA_SPECS);
}

planner::ReadJob read_job(const Options& options, const std::vector<std::string>& more) {
  std::vector<std::string> sets = options.sets;
  sets.insert(sets.end(), more.begin(), more.end());
  return planner::read_job(options.input, sets, specs_directory(options));
}

ReadPlan read_plan(const std::string& path) {
  Result<std::string> text = read_file(path, Bytes(kMaxPlanBytes));
  if (!text.ok()) return {text.errors(), {}};
  return {parse_plan(path, text.value()), {{path, text.value()}}};
}

Result<std::vector<std::string>> layout_settings(const std::string& option,
                                                 const std::string& text) {
  std::vector<std::string> settings;
  if (text.empty()) return settings;
  for (const std::string& part : parts_of(text)) {
    if (part.find('=') == std::string::npos) {
      return usage_error(option + " takes fields of the layout, got " + quote(part),
                         "such as " + option + " tp=8,pp=4");
    }
    settings.push_back("layout." + part);
  }
  return settings;
}

Diagnostic usage_error(const std::string& message, const std::string& help) {
  Diagnostic error;
  error.file = "megaplan";
  error.message = message;
  error.help = help;
  return error;
}

}  // namespace mega::tool
