#include "planner/search/top_list.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace mega::planner {
namespace {

auto degrees(const Strategy& s) {
  return std::tie(s.tp, s.cp, s.pp, s.vpp, s.dp, s.ep, s.etp, s.micro_batch);
}

}  // namespace

bool TopList::beats(const Score& score, const Strategy& strategy, const Place& place) {
  return std::tie(score, strategy) < std::tie(place.score, place.strategy);
}

std::vector<TopList::Place>::const_iterator TopList::same_degrees(const Strategy& strategy) const {
  return std::find_if(places_.begin(), places_.end(), [&](const Place& place) {
    return degrees(place.strategy) == degrees(strategy);
  });
}

bool TopList::could_enter(const Score& bound, const Strategy& strategy) const {
  if (is_closed(bound, strategy)) return false;
  const auto same = same_degrees(strategy);
  return same == places_.end() || beats(bound, strategy, *same);
}

bool TopList::is_closed(const Score& bound, const Strategy& strategy) const {
  return places_.size() == size_ && !beats(bound, strategy, places_.back());
}

bool TopList::is_best_proven(const Score& bound, const Strategy& strategy) const {
  return !places_.empty() && !beats(bound, strategy, places_.front());
}

void TopList::enter(const Score& score, const Strategy& strategy, Found found) {
  if (!could_enter(score, strategy)) return;
  const auto same = same_degrees(strategy);
  if (same != places_.end()) {
    places_.erase(same);
  } else if (places_.size() == size_) {
    places_.pop_back();
  }
  Place place{score, strategy, std::move(found)};
  const auto at = std::find_if(places_.begin(), places_.end(), [&](const Place& other) {
    return beats(place.score, place.strategy, other);
  });
  places_.insert(at, std::move(place));
}

std::int64_t TopList::best_ns() const {
  return places_.empty() ? -1 : places_.front().found.evaluation.step_ns;
}

std::vector<Found> TopList::take() && {
  std::vector<Found> result;
  for (Place& place : places_) result.push_back(std::move(place.found));
  return result;
}

}  // namespace mega::planner
