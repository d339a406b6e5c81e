// The specs that come with the program: specs/models/NAME.yaml and so on.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace mega::planner {

struct BundledSpec {
  std::string name;
  std::string description;  // the first comment line of the file
};

// `kind` is the folder: "models", "clusters", "gpus", "jobs". Sorted by name; empty when there is
// no such folder.
std::vector<BundledSpec> list_bundled(const std::string& kind, const std::string& specs_directory);

// Where the specs lie, seen from the program: ../share/megaplan/specs of an installed one, else
// the specs/ of the source tree that it was built in. Nothing: neither exists.
std::optional<std::string> find_specs_directory(const std::string& executable_path);

}  // namespace mega::planner
