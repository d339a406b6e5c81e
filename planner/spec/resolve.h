// From a job file to one tree of values: bundled names, paths and `use:` replaced by what they
// name, --set applied. Every value still knows the file and place that it came from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/spec/mapping_reader.h"
#include "planner/spec/yaml_node.h"

namespace mega::planner {

// What errors and Sources call the arguments of --set; line i is the i-th of them.
inline constexpr const char* kSetSource = "--set";

class Resolver {
 public:
  // Errors go to `log`, which must outlive the resolver.
  Resolver(std::string specs_directory, ReadLog& log);

  std::optional<YamlNode> read_job_file(const std::string& path_or_dash);
  // "layout.tp=8": a dotted key of the job file and a YAML value. A section that was a name
  // becomes {use: name} first, so that single keys of it can be set.
  void apply_sets(YamlNode& root, const std::vector<std::string>& sets);

  struct Section {
    YamlNode node;
    std::string name;  // of the bundled spec or the file's stem; empty when written in place
  };
  // `folder` is where bundled names are looked up: "models". Nothing: an error was logged.
  std::optional<Section> resolve(const YamlNode& value, const std::string& folder, int depth = 0);

  const Sources& sources() const { return sources_; }
  std::string fingerprint() const;  // over all that was read

 private:
  std::optional<YamlNode> parse(const std::string& name, const std::string& text);
  std::optional<YamlNode> load(const std::string& path, const YamlNode& named_by);
  std::optional<Section> resolve_name(const YamlNode& name, const std::string& folder, int depth);
  std::string path_of(const YamlNode& name, const std::string& folder);
  void apply_set(YamlNode& root, const std::string& set, int line);

  std::string specs_directory_;
  ReadLog* log_;
  Sources sources_;
  std::uint64_t hash_ = 0;
};

}  // namespace mega::planner
