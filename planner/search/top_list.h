// The best layouts found so far, and what a bound must beat to be worth an evaluation.
//
// Layouts that differ only in flags share one place: a list of five variants of one layout tells
// nobody anything.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/search/search.h"

namespace mega::planner {

// What is minimised; compared in this order. A bound's score is never above the score of what it
// bounds, so scores of bounds and of evaluations may be compared.
struct Score {
  std::int64_t first = 0, second = 0;
  auto operator<=>(const Score&) const = default;
};

class TopList {
 public:
  explicit TopList(int size) : size_(size < 1 ? 1 : static_cast<std::size_t>(size)) {}

  // Whether a strategy that scores no less than `bound` could change the list. `strategy` is
  // without cut.
  bool could_enter(const Score& bound, const Strategy& strategy) const;
  void enter(const Score& score, const Strategy& strategy, Found found);
  // No strategy with this bound or a later one can enter, whatever its degrees.
  bool is_closed(const Score& bound, const Strategy& strategy) const;
  // The best is sure to be better than anything with this bound.
  bool is_best_proven(const Score& bound, const Strategy& strategy) const;

  bool empty() const { return places_.empty(); }
  const Score& best() const { return places_.front().score; }
  std::int64_t best_ns() const;
  std::vector<Found> take() &&;

 private:
  struct Place {
    Score score;
    Strategy strategy;  // without cut: ties go to the canonical order of the free fields
    Found found;
  };
  static bool beats(const Score& score, const Strategy& strategy, const Place& place);
  std::vector<Place>::const_iterator same_degrees(const Strategy& strategy) const;

  std::size_t size_;
  std::vector<Place> places_;  // best first
};

}  // namespace mega::planner
