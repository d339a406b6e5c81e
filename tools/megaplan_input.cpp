#include "tools/megaplan_input.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "ir/base/text.h"
#include "ir/plan_text.h"
#include "planner/spec/bundled.h"
#include "planner/spec/resolve.h"

namespace mega::tool {
namespace {

constexpr std::string_view kLayoutPrefix = "layout.";

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

planner::ReadJob read_layout(const Options& options, const std::string& option,
                             const std::vector<std::string>& settings) {
  planner::ReadJob read = read_job(options, settings);
  if (read.job.ok()) return read;
  const int others = static_cast<int>(options.sets.size());
  const int prefix = static_cast<int>(kLayoutPrefix.size());
  const auto move = [&](std::string& file, SourceLoc& where) {
    if (file != planner::kSetSource || where.line <= others) return;
    file = option;
    where = {where.line - others, std::max(1, where.column - prefix)};
  };
  Errors errors = read.job.errors();
  for (Diagnostic& error : errors) {
    move(error.file, error.where);
    for (Note& note : error.notes) move(note.file, note.where);
  }
  std::string typed;
  for (const std::string& setting : settings) typed += setting.substr(kLayoutPrefix.size()) + "\n";
  read.sources.emplace(option, typed);
  read.job = std::move(errors);
  return read;
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
    settings.push_back(std::string(kLayoutPrefix) + part);
  }
  return settings;
}

Status no_overwriting(const Options& options) {
  std::error_code missing;
  const auto overwrites = [&](const std::string& path) {
    return std::filesystem::is_regular_file(path, missing) &&
           std::filesystem::equivalent(path, options.input, missing);
  };
  for (const auto& [option, path] :
       {std::pair("-o ", &options.output), {"--stats ", &options.stats}}) {
    if (overwrites(*path)) {
      return usage_error(option + quote(*path) + " would overwrite what is read",
                         "write to another file");
    }
  }
  if (!options.stats.empty() && options.stats == options.output)
    return usage_error("-o and --stats name the same file", "give them two");
  return Ok{};
}

Diagnostic usage_error(const std::string& message, const std::string& help) {
  Diagnostic error;
  error.file = "megaplan";
  error.message = message;
  error.help = help;
  return error;
}

}  // namespace mega::tool
