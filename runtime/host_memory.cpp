#include "runtime/host_memory.h"

#include <algorithm>
#include <cstdint>
#include <fstream>

namespace mega::runtime {
namespace {

// The number that follows `key` in a file of "key number" lines; of an empty key, the first.
std::optional<std::int64_t> number_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  if (key.empty()) {
    std::int64_t value = 0;
    if (file >> value) return value;
    return std::nullopt;
  }
  while (file >> word) {
    std::int64_t value = 0;
    if (word == key && file >> value) return value;
    file.clear();
  }
  return std::nullopt;
}

void lower(std::optional<std::int64_t>& least, std::optional<std::int64_t> value) {
  if (value) least = least ? std::min(*least, *value) : *value;
}

std::optional<std::int64_t> left_of(const std::string& folder, const char* limit_file,
                                    const char* usage_file, const char* cache_key) {
  const auto limit = number_in(folder + limit_file, "");  // "max" is no number
  const auto usage = number_in(folder + usage_file, "");
  if (!limit || !usage) return std::nullopt;
  const std::int64_t cache = number_in(folder + "memory.stat", cache_key).value_or(0);
  return std::max<std::int64_t>(0, *limit - *usage + cache);
}

// Of our own group and all above it; inside a container the mount's root is our group.
std::optional<std::int64_t> left_by_groups(const std::string& root) {
  std::optional<std::int64_t> least;
  std::string path;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::/")) path = line.substr(3);
  }
  while (true) {
    std::string folder = root + "/sys/fs/cgroup" + path;
    if (!folder.ends_with('/')) folder += '/';
    lower(least, left_of(folder, "memory.max", "memory.current", "inactive_file"));
    if (path.empty()) break;
    path.erase(path.rfind('/'));
  }
  lower(least, left_of(root + "/sys/fs/cgroup/memory/", "memory.limit_in_bytes",
                       "memory.usage_in_bytes", "total_inactive_file"));
  return least;
}

}  // namespace

std::optional<Bytes> available_memory(const std::string& root) {
  std::optional<std::int64_t> least = left_by_groups(root);
  if (const auto kib = number_in(root + "/proc/meminfo", "MemAvailable:")) {
    lower(least, *kib * 1024);
  }
  if (!least) return std::nullopt;
  return Bytes(*least);
}

}  // namespace mega::runtime
