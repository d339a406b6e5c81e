// Strict reading of one mapping, key by key. Every error is collected, so that a user sees all of
// them at once; every key that is asked for is remembered with its place. Call finish() last: it
// reports the keys that nobody asked for.
//
//   MappingReader layout(node, "layout", log);
//   spec.tp = layout.integer("tp", {1, kLargestDegree});
//   layout.finish();
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/text.h"
#include "planner/spec/job_spec.h"
#include "planner/spec/yaml_node.h"

namespace mega::planner {

// What reading leaves beside the values.
struct ReadLog {
  Errors errors;
  Places places;
};

struct IntegerRange {
  std::int64_t least = 1;
  std::int64_t most = 0;
};

struct RealRange {
  double least = 0;
  double most = 0;
  bool without_least = false;  // "above 0" rather than "at least 0"
  bool without_most = false;   // "below 1"
};

class MappingReader {
 public:
  // `path` is the dotted path of the mapping, empty for the whole file. Not a mapping: an error,
  // and every key is absent.
  MappingReader(const YamlNode& node, std::string path, ReadLog& log);

  // The value; nullptr when absent or (an error) empty. Makes the key known.
  const YamlNode* find(const std::string& key);
  bool has(const std::string& key) const;
  bool is_usable() const { return node_ != nullptr; }

  // Each returns nothing when the key is absent or its value (an error) is not of the kind.
  std::optional<std::int64_t> integer(const std::string& key, IntegerRange range);
  std::optional<double> real(const std::string& key, RealRange range);
  std::optional<bool> boolean(const std::string& key);
  std::optional<std::string> word(const std::string& key);
  std::optional<std::string> choice(const std::string& key, const std::vector<std::string>& built,
                                    const std::vector<std::string>& not_built = {});
  std::optional<Bytes> bytes(const std::string& key);
  std::optional<BytesPerSecond> bandwidth(const std::string& key);
  std::optional<Seconds> seconds(const std::string& key);
  std::optional<FlopsPerSecond> flops(const std::string& key);
  std::optional<MappingReader> mapping(const std::string& key);
  MappingReader of_same_log(const YamlNode& node) const { return {node, path_, *log_}; }

  // Known keys whose feature is still missing: only a value in `built` (or none) is accepted.
  void not_built(const std::string& key, const std::vector<std::string>& built = {});
  void required(const std::string& key);  // an error when absent

  std::string path_of(const std::string& key) const;
  void fail(const std::string& key, std::string message, std::string help = {},
            const std::vector<std::string>& other_paths = {});
  void finish();

 private:
  const YamlNode* scalar(const std::string& key, const std::string& kind);
  template <class T>
  std::optional<T> quantity(const std::string& key, std::optional<T> (*parse)(std::string_view),
                            const std::string& kind, const std::string& example);

  const YamlNode* node_ = nullptr;
  std::string path_;
  ReadLog* log_;
  std::vector<std::string> known_;
};

// A note for each of the dotted paths whose place is known.
std::vector<Note> notes_for(const std::vector<std::string>& paths, const Places& places);

}  // namespace mega::planner
