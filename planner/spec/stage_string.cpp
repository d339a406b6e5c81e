#include "planner/spec/stage_string.h"

#include <algorithm>
#include <cstddef>

#include "ir/base/text.h"

namespace mega::planner {
namespace {

constexpr std::size_t kMostLetters = 100'000;
constexpr std::size_t kDeepest = 16;

// Writes the repetitions out.
class Expander {
 public:
  explicit Expander(std::string_view text) : text_(text) {}

  std::string run() {
    std::string all = sequence(0);
    if (error_.empty() && at_ < text_.size()) error_ = "has a ')' without '('";
    return all;
  }
  const std::string& error() const { return error_; }

 private:
  std::string sequence(std::size_t depth) {
    std::string all;
    while (error_.empty() && at_ < text_.size() && text_[at_] != ')') {
      const std::string item = next_item(depth);
      const std::size_t times = error_.empty() ? repetitions() : 0;
      if (all.size() + item.size() * times > kMostLetters) {
        error_ = "stands for more than " + std::to_string(kMostLetters) + " letters";
        break;
      }
      for (std::size_t i = 0; i < times; ++i) all += item;
    }
    return all;
  }

  std::string next_item(std::size_t depth) {
    const char c = text_[at_++];
    if (c == ',' || c == ' ') return {};
    if (c == '(') {
      if (depth == kDeepest) {
        error_ = "has too many '(' inside each other";
        return {};
      }
      const std::string group = sequence(depth + 1);
      if (error_.empty() && (at_ == text_.size() || text_[at_++] != ')')) {
        error_ = "has a '(' without ')'";
      }
      return group;
    }
    if (std::string_view("EtmL|").find(c) == std::string_view::npos) {
      error_ = "has " + quote(std::string(1, c)) + " where E, t, m, L or | should be";
      return {};
    }
    return std::string(1, c);
  }

  // After an item: "*3", or once.
  std::size_t repetitions() {
    if (at_ == text_.size() || text_[at_] != '*') return 1;
    const std::size_t begin = ++at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    const auto number = parse_integer(text_.substr(begin, at_ - begin));
    if (!number || *number > static_cast<std::int64_t>(kMostLetters)) {
      error_ = "has a '*' without a number of times";
      return 0;
    }
    return static_cast<std::size_t>(*number);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string error_;
};

}  // namespace

StageString parse_stage_string(std::string_view text) {
  StageString result;
  Expander expander(text);
  const std::string letters = expander.run();
  result.error = expander.error();
  if (!result.error.empty()) return result;
  const auto count = [&](char c) { return std::count(letters.begin(), letters.end(), c); };
  if (count('E') != 1 || letters.front() != 'E') {
    result.error = "must begin with E, the embedding, and have it once";
  } else if (count('L') != 1 || letters.back() != 'L') {
    result.error = "must end with L, the loss, and have it once";
  } else if (letters.find('m') < letters.rfind('t') && letters.rfind('t') != std::string::npos) {
    result.error = "has m, multi-token prediction, before its last layer";
  }
  for (const std::string& stage : split(letters, '|')) {
    result.layers.push_back(static_cast<int>(std::count(stage.begin(), stage.end(), 't')));
    result.predictors.push_back(static_cast<int>(std::count(stage.begin(), stage.end(), 'm')));
  }
  return result;
}

}  // namespace mega::planner
