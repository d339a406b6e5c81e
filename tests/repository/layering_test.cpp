// The dependency rule, as a test.
//
//   tools ──► planner ──────────────► ir
//     └─────► runtime ──► kernels ──► ir/{base types op mesh plan*}
//
// The planner chooses and the runtime obeys; only the plan crosses between them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "tests/repository/source_tree.h"

namespace {

using mega::repository::SourceFile;
using Violations = std::vector<std::string>;
using Prefixes = std::vector<std::string>;

const std::vector<std::string> kLayeredFolders = {"ir", "planner", "kernels", "runtime", "tools"};

// Left: a layer, by path prefix; the longest match wins. Right: what it may include, itself aside.
const std::map<std::string, Prefixes> kMayInclude = {
    {"ir/base/", {}},
    {"ir/", {"ir/"}},
    // Not the graphs: the runtime reads these.
    {"ir/types", {"ir/base/"}},
    {"ir/op", {"ir/base/", "ir/types."}},
    {"ir/mesh", {"ir/base/"}},
    {"ir/plan", {"ir/base/", "ir/types.", "ir/op.", "ir/mesh."}},
    {"kernels/", {"ir/base/", "ir/types.", "ir/op."}},
    {"runtime/", {"ir/base/", "ir/types.", "ir/op.", "ir/mesh.", "ir/plan", "kernels/"}},
    {"planner/spec/", {"ir/base/", "planner/strategy"}},
    {"planner/strategy", {"ir/base/", "ir/mesh.", "ir/schedule_order."}},
    {"planner/rules", {"ir/base/", "planner/spec/", "planner/strategy"}},
    {"planner/model/", {"ir/", "planner/spec/"}},
    {"planner/lower/", {"ir/", "planner/spec/", "planner/strategy"}},
    // Cost prices exactly what would be lowered, so it asks the same three functions.
    {"planner/cost/",
     {"ir/", "planner/spec/", "planner/strategy", "planner/lower/sharding",
      "planner/lower/partition", "planner/lower/assign_memory"}},
    // Search is handed `bounds` and `evaluate` as functions by compile.cpp.
    {"planner/search/", {"ir/", "planner/spec/", "planner/strategy", "planner/rules"}},
    {"planner/output/", {"ir/", "planner/"}},
    // The plan's header repeats what the tables say.
    {"planner/",
     {"ir/", "planner/spec/", "planner/strategy", "planner/rules", "planner/model/",
      "planner/cost/", "planner/lower/", "planner/search/", "planner/output/header_entries"}},
    {"tools/", {"ir/", "kernels/", "planner/", "runtime/"}},
};

// Third-party headers and where they may stand. `sources_only`: never in a header of ours.
struct ThirdParty {
  std::string prefix;
  Prefixes folders;
  bool sources_only;
};
const std::vector<ThirdParty> kThirdParty = {
    {"yaml-cpp/", {"planner/spec/"}, true},
    {"boost/graph/", {"ir/", "planner/"}, true},
    {"boost/property_map/", {"ir/", "planner/"}, true},
    {"CLI/", {"tools/"}, false},
    {"nlohmann/", {"planner/output/", "planner/spec/hf_config"}, true},
    {"cblas.h", {"kernels/cpu/"}, true},
    {"omp.h", {"kernels/cpu/"}, true},
    {"immintrin.h", {"kernels/cpu/"}, false},
    // The operating system: files, memory and signals of a run.
    {"sys/", {"runtime/", "tools/", "planner/spec/"}, true},
    {"unistd.h", {"runtime/", "tools/", "planner/spec/"}, true},
    {"fcntl.h", {"runtime/", "tools/", "planner/spec/"}, true},
    {"signal.h", {"runtime/", "tools/"}, true},
    {"pthread.h", {"runtime/"}, true},
    {"sched.h", {"runtime/"}, true},
};

// Planning is a pure function of its input files: no clock, seed or thread. Libraries don't print.
const std::map<std::string, Prefixes> kForbiddenStandard = {
    {"chrono", {"ir/", "planner/"}},
    {"ctime", {"ir/", "planner/"}},
    {"random", {"ir/", "planner/"}},
    {"thread", {"ir/", "planner/"}},
    {"mutex", {"ir/", "planner/"}},
    {"future", {"ir/", "planner/"}},
    {"iostream", {"ir/", "planner/", "kernels/", "runtime/"}},
};

bool starts_with_any(const std::string& text, const Prefixes& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return text.starts_with(prefix); });
}

const std::pair<const std::string, Prefixes>* layer_of(const std::string& path) {
  const std::pair<const std::string, Prefixes>* best = nullptr;
  for (const auto& rule : kMayInclude) {
    if (path.starts_with(rule.first) && (!best || rule.first.size() > best->first.size()))
      best = &rule;
  }
  return best;
}

std::string project_include_fault(const std::string& path, const std::string& target) {
  const auto* layer = layer_of(path);
  const auto* target_layer = layer_of(target);
  if (!target_layer) return "\"" + target + "\" is no path from the root";
  if (target_layer == layer || starts_with_any(target, layer->second)) return "";
  return layer->first + " may not include \"" + target + "\"";
}

std::string system_include_fault(const std::string& path, const std::string& target) {
  for (const std::string& folder : kLayeredFolders)
    if (target.starts_with(folder + "/")) return project_include_fault(path, target);
  for (const ThirdParty& row : kThirdParty) {
    if (!target.starts_with(row.prefix)) continue;
    if (!starts_with_any(path, row.folders)) return "<" + target + "> is not for this folder";
    if (row.sources_only && !path.ends_with(".cpp")) return "<" + target + "> in a header";
    return "";
  }
  const auto forbidden = kForbiddenStandard.find(target);
  if (forbidden != kForbiddenStandard.end() && starts_with_any(path, forbidden->second))
    return "<" + target + "> may not be used here";
  // Standard headers of C++ have neither a dot nor a folder.
  if (target.find_first_of("./") == std::string::npos) return "";
  return "<" + target + "> has no row in the table of third-party headers";
}

Violations include_violations(const SourceFile& file, int* checked = nullptr) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s+(["<])([^">]+)[">])re");
  static const std::regex kCudaSwitch(
      R"re(^\s*#\s*(if|ifdef|ifndef|elif)\b.*\bMEGA_(CUDA|MPI)\b)re");
  Violations violations;
  int number = 0;
  for (const std::string& line : mega::repository::lines_of(file.text)) {
    ++number;
    const std::string place = file.path + ":" + std::to_string(number) + ": ";
    if (std::regex_search(line, kCudaSwitch) && file.path != "runtime/backend.cpp")
      violations.push_back(place + "backends are chosen in runtime/backend.cpp only");
    std::smatch match;
    if (!std::regex_search(line, match, kInclude)) continue;
    if (checked) ++*checked;
    const std::string fault = match[1] == "\"" ? project_include_fault(file.path, match[2])
                                               : system_include_fault(file.path, match[2]);
    if (!fault.empty()) violations.push_back(place + fault);
  }
  return violations;
}

// A runtime that knows a kind of parallelism decides something that the plan should have said.
Violations parallelism_words(const SourceFile& file) {
  static const std::regex kWords(
      "(^|[^a-z0-9])(tp|pp|dp|cp|ep|vpp|etp|edp|1f1b|gpipe|megatron|fsdp|pipelin[a-z]*|"
      "(tensor|data|sequence|context|expert|model)[ _-]?parallel[a-z]*)($|[^a-z0-9])",
      std::regex::icase);
  Violations violations;
  int number = 0;
  for (const std::string& line : mega::repository::lines_of(file.text)) {
    ++number;
    std::smatch match;
    if (std::regex_search(line, match, kWords))
      violations.push_back(file.path + ":" + std::to_string(number) + ": says '" + match[2].str() +
                           "'");
  }
  return violations;
}

std::string joined(const Violations& violations) {
  std::string text;
  for (const std::string& violation : violations) text += violation + "\n";
  return text;
}

TEST(Layering, EveryIncludeFollowsTheRule) {
  int checked = 0;
  for (const SourceFile& file : mega::repository::sources_in(kLayeredFolders))
    EXPECT_EQ(joined(include_violations(file, &checked)), "");
  EXPECT_GT(checked, 100) << "found almost no includes; is MEGA_SOURCE_DIR right?";
}

TEST(Layering, OneFileReadsYaml) {
  std::vector<std::string> readers;
  for (const SourceFile& file : mega::repository::sources_in(kLayeredFolders))
    if (file.text.find("<yaml-cpp/") != std::string::npos) readers.push_back(file.path);
  EXPECT_LE(readers.size(), 1U) << joined(readers);
}

TEST(Layering, TheRuntimeKnowsNoKindOfParallelism) {
  for (const SourceFile& file : mega::repository::sources_in({"runtime"}))
    EXPECT_EQ(joined(parallelism_words(file)), "");
}

// The rules must be able to fail: each planted line breaks one, whatever the brackets.
TEST(Layering, PlantedIncludesAreRefused) {
  const std::vector<std::pair<std::string, std::string>> planted = {
      {"runtime/session.cpp", "#include \"planner/strategy.h\""},
      {"runtime/session.cpp", "#include <planner/strategy.h>"},
      {"runtime/session.cpp", "#include \"ir/model_graph.h\""},
      {"runtime/session.cpp", "#include <yaml-cpp/yaml.h>"},
      {"runtime/session.cpp", "# include <boost/graph/adjacency_list.hpp>"},
      {"runtime/session.cpp", "#if MEGA_CUDA"},
      {"kernels/cpu/dispatch.cpp", "#include \"ir/plan.h\""},
      {"kernels/rowwise.h", "#include <cblas.h>"},
      {"ir/plan.h", "#include \"ir/schedule.h\""},
      {"ir/plan_verify.h", "#include <boost/graph/adjacency_list.hpp>"},
      {"ir/model_graph.h", "#include \"planner/strategy.h\""},
      {"planner/lower/partition.cpp", "#include \"planner/cost/evaluate.h\""},
      {"planner/cost/evaluate.cpp", "#include \"planner/lower/emit_plan.h\""},
      {"planner/cost/evaluate.cpp", "#include \"planner/search/search.h\""},
      {"planner/search/search.cpp", "#include \"planner/cost/evaluate.h\""},
      {"planner/compile.cpp", "#include \"runtime/session.h\""},
      {"planner/compile.cpp", "#include <chrono>"},
      {"planner/spec/read_spec.h", "#include <yaml-cpp/yaml.h>"},
      {"planner/output/json.h", "#include <nlohmann/json.hpp>"},
      {"planner/compile.cpp", "#include <CLI/CLI.hpp>"},
      {"tools/megaplan.cpp", "#include <some/unknown.hpp>"},
      {"ir/op.cpp", "#include <iostream>"},
  };
  for (const auto& [path, line] : planted)
    EXPECT_EQ(include_violations({path, line}).size(), 1U) << path << ": " << line;
}

TEST(Layering, AllowedIncludesPass) {
  const std::vector<std::pair<std::string, std::string>> allowed = {
      {"runtime/session.cpp", "#include \"ir/plan_verify.h\""},
      {"planner/cost/evaluate.cpp", "#include \"planner/lower/partition.h\""},
      {"planner/compile.cpp", "#include \"planner/search/search.h\""},
      {"ir/plan_verify.cpp", "#include <boost/graph/adjacency_list.hpp>"},
      {"ir/schedule.cpp", "#include \"ir/mesh.h\""},
      {"kernels/cpu/matmul.cpp", "#include <cblas.h>"},
      {"ir/op.cpp", "#include <string_view>"},
  };
  for (const auto& [path, line] : allowed)
    EXPECT_EQ(joined(include_violations({path, line})), "") << path;
}

TEST(Layering, PlantedParallelismWordsAreFound) {
  for (const char* line : {"int tp = 1;", "// Pipelined sends", "tensor_parallel_size", "DP group",
                           "dp_rank", "data parallel", "TensorParallel"})
    EXPECT_EQ(parallelism_words({"runtime/a.cpp", line}).size(), 1U) << line;
  for (const char* line :
       {"http", "step", "copy(dptr)", "parallel queues", "opp", "data in parallel"})
    EXPECT_EQ(parallelism_words({"runtime/a.cpp", line}).size(), 0U) << line;
}

}  // namespace
