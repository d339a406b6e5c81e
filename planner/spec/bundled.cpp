#include "planner/spec/bundled.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "ir/base/text.h"
#include "planner/spec/yaml_reader.h"

namespace mega::planner {
namespace {

namespace fs = std::filesystem;

std::string first_comment(const std::string& path) {
  const Result<std::string> text = read_file(path, kLargestYaml);
  if (!text.ok() || !text.value().starts_with('#')) return {};
  std::string_view line = text.value();
  line = line.substr(0, line.find('\n'));
  const std::size_t start = line.find_first_not_of("# ");
  return start == std::string_view::npos ? std::string{} : std::string(line.substr(start));
}

bool holds_specs(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(folder / "models", error) && fs::is_directory(folder / "clusters", error);
}

}  // namespace

std::vector<BundledSpec> list_bundled(const std::string& kind, const std::string& specs_directory) {
  std::vector<BundledSpec> specs;
  std::error_code error;
  const fs::path folder = fs::path(specs_directory) / kind;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path path = entry->path();
    if (path.extension() != ".yaml") continue;
    specs.push_back({path.stem().string(), first_comment(path.string())});
  }
  std::sort(specs.begin(), specs.end(), [](const BundledSpec& a, const BundledSpec& b) {
    return a.name < b.name;  // the order of a directory is anybody's guess
  });
  return specs;
}

std::optional<std::string> find_specs_directory(const std::string& executable_path) {
  std::error_code error;
  const fs::path program = fs::canonical(executable_path, error);
  if (error) return std::nullopt;
  const fs::path installed = program.parent_path().parent_path() / "share" / "megaplan" / "specs";
  if (holds_specs(installed)) return installed.string();
  for (fs::path folder = program.parent_path();; folder = folder.parent_path()) {
    if (holds_specs(folder / "specs")) return (folder / "specs").string();
    if (folder == folder.root_path()) return std::nullopt;
  }
}

}  // namespace mega::planner
