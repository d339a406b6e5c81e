// The keys of a config.json, and which of them somebody has looked at.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/result.h"

namespace mega::planner {

class HfConfig {
 public:
  // Errors: no JSON, no mapping, nested more than 16 levels deep.
  static Result<HfConfig> parse(const std::string& file, const std::string& text);
  ~HfConfig();
  HfConfig(HfConfig&&) noexcept;
  HfConfig& operator=(HfConfig&&) noexcept;

  // Keys inside a mapping are written "rope_parameters.rope_theta".
  // Each takes the first of the names that has a value other than null. A value of another kind
  // is an error, see errors().
  std::optional<std::int64_t> integer(const std::vector<std::string>& names);
  std::optional<double> real(const std::vector<std::string>& names);
  std::optional<bool> boolean(const std::vector<std::string>& names);
  std::optional<std::string> word(const std::vector<std::string>& names);
  bool is_zero(const std::string& name) const;  // there, and the number 0
  // Knows the key without looking at it.
  void pass_over(const std::vector<std::string>& names);

  void fail(std::string message);
  const Errors& errors() const { return errors_; }
  // "key: value" of what nobody asked for.
  std::vector<std::string> left() const;

 private:
  struct State;
  HfConfig(std::string file, std::unique_ptr<State> state);
  template <class T>
  std::optional<T> value(const std::vector<std::string>& names, const char* kind);

  std::string file_;
  std::unique_ptr<State> state_;
  Errors errors_;
};

}  // namespace mega::planner
