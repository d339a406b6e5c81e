#include "planner/cost/stage_cut_mixed.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace mega::planner {
namespace {

// Tries with several chunks per rank. A thousand stages of one layer take about one each.
constexpr int kMostTries = 4000;

class MixedCut {
 public:
  MixedCut(const StageLines& lines, const CutLimits& limits)
      : lines_(lines),
        stage_time_(limits.stage_time),
        ranks_(lines.ranks.size()),
        stages_(ranks_ * lines.ranks[0].layer_memory.size()) {
    weigh_layers();
    for (const RankLine& rank : lines.ranks) {
      left_.push_back({limits.time - rank.fixed_time, limits.memory - rank.fixed_memory.count(),
                       std::max(rank.scratch.count(), least_scratch_)});
    }
    failed_.assign((stages_ + 1) * (lines.layers.size() + 1), false);
  }

  std::optional<std::vector<int>> run() {
    if (!may_hold(0, 0) || !place(0, 0)) return std::nullopt;
    return cut_;
  }
  bool may_hold() const { return may_hold(0, 0); }

 private:
  // What a rank may still take; scratch counts apart, as the largest of its layers.
  struct Left {
    std::int64_t time, memory, scratch;
  };

  // Weights of the kinds such that no rank needs less memory for a layer than its own price times
  // the weight; suffix sums of time and weight from each layer on.
  void weigh_layers() {
    const std::size_t kinds = lines_.layer_time.size();
    least_time_ = *std::min_element(lines_.layer_time.begin(), lines_.layer_time.end());
    least_scratch_ =
        std::min_element(lines_.layer_scratch.begin(), lines_.layer_scratch.end())->count();
    std::vector<double> weight(kinds, std::numeric_limits<double>::max());
    for (const RankLine& rank : lines_.ranks) {
      for (const auto& chunk : rank.layer_memory) {
        for (std::size_t k = 0; k < kinds; ++k) {
          weight[k] = std::min(weight[k], std::max(1.0, static_cast<double>(chunk[k].count())));
        }
      }
    }
    for (const RankLine& rank : lines_.ranks) {
      double price = std::numeric_limits<double>::max();
      for (const auto& chunk : rank.layer_memory) {
        for (std::size_t k = 0; k < kinds; ++k) {
          price = std::min(price, static_cast<double>(chunk[k].count()) / weight[k]);
        }
      }
      price_.push_back(price);
    }
    const std::size_t layers = lines_.layers.size();
    time_from_.assign(layers + 1, 0);
    weight_from_.assign(layers + 1, 0);
    for (std::size_t i = layers; i-- > 0;) {
      const auto kind = static_cast<std::size_t>(lines_.layers[i]);
      time_from_[i] = time_from_[i + 1] + lines_.layer_time[kind];
      weight_from_[i] = weight_from_[i + 1] + weight[kind];
    }
  }

  // A necessary condition for the virtual stages from `stage` on to hold the layers from
  // `position` on: as if layers could be divided.
  bool may_hold(std::size_t stage, std::size_t position) const {
    if (lines_.layers.size() - position < stages_ - stage) return false;
    if (stage == stages_) return true;
    std::int64_t time = 0;
    double weight = 0;
    for (std::size_t r = 0; r < ranks_; ++r) {
      const Left& left = left_[r];
      std::int64_t chunks = 0;  // that are still to come
      for (std::size_t c = 0; c < stages_ / ranks_; ++c) {
        const StagePlace chunk{static_cast<int>(r), static_cast<int>(c)};
        const int number = stage_of(lines_.schedule, static_cast<int>(ranks_), chunk);
        chunks += static_cast<std::size_t>(number) >= stage ? 1 : 0;
      }
      const std::int64_t memory = left.memory - left.scratch;
      if (left.time < chunks * least_time_ || memory < 0) return false;
      if (chunks == 0) continue;
      time += std::min(left.time, time_from_[position]);
      weight += price_[r] > 0 ? static_cast<double>(memory) / price_[r] : weight_from_[position];
    }
    return time >= time_from_[position] && weight >= weight_from_[position] * (1 - 1e-12);
  }

  // Gives virtual stage `stage` layers from `position` on, and the stages after it the rest.
  bool place(std::size_t stage, std::size_t position) {
    if (stage == stages_) return position == lines_.layers.size();
    const bool remembers = stages_ == ranks_;
    const std::size_t here = stage * (lines_.layers.size() + 1) + position;
    if (remembers && failed_[here]) return false;
    const StagePlace at =
        place_of_stage(lines_.schedule, static_cast<int>(ranks_), static_cast<int>(stage));
    const auto rank = static_cast<std::size_t>(at.rank);
    Left& left = left_[rank];
    const Left before = left;
    const auto& memory = lines_.ranks[rank].layer_memory[static_cast<std::size_t>(at.chunk)];
    for (std::size_t end = position + 1; end <= lines_.layers.size(); ++end) {
      const auto kind = static_cast<std::size_t>(lines_.layers[end - 1]);
      left.time -= lines_.layer_time[kind];
      left.memory -= memory[kind].count();
      left.scratch = std::max(left.scratch, lines_.layer_scratch[kind].count());
      if (left.time < 0 || left.memory < left.scratch) break;
      if (!stage_fits(lines_.ranks[rank], static_cast<std::size_t>(at.chunk),
                      before.time - left.time, stage_time_)) {
        break;
      }
      if (stage + 1 == stages_ && end < lines_.layers.size()) continue;
      if (!remembers && (tries_ > kMostTries || !may_hold(stage + 1, end))) continue;
      ++tries_;
      cut_.push_back(static_cast<int>(end - position));
      if (place(stage + 1, end)) return true;
      cut_.pop_back();
    }
    left = before;
    failed_[here] = true;
    return false;
  }

  const StageLines& lines_;
  std::int64_t stage_time_;
  std::size_t ranks_, stages_;
  std::int64_t least_time_ = 0, least_scratch_ = 0;
  std::vector<double> price_;            // per rank
  std::vector<std::int64_t> time_from_;  // per position
  std::vector<double> weight_from_;      // per position
  std::vector<Left> left_;               // per rank
  std::vector<bool> failed_;             // per virtual stage and position
  std::vector<int> cut_;
  int tries_ = 0;
};

}  // namespace

std::optional<std::vector<int>> mixed_cut(const StageLines& lines, const CutLimits& limits) {
  return MixedCut(lines, limits).run();
}

bool mixed_cut_may_exist(const StageLines& lines, std::int64_t time, std::int64_t memory) {
  MixedCut search(lines, {time, memory, std::numeric_limits<std::int64_t>::max()});
  const bool has_one_chunk = lines.ranks[0].layer_memory.size() == 1;
  return has_one_chunk ? search.run().has_value() : search.may_hold();
}

}  // namespace mega::planner
