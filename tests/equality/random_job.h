// Random jobs: a model of odd sizes, few micro-batches, any layout over up to 16 ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/spec/families.h"

namespace mega::testing {

// A job file as dotted keys and YAML values: "layout.tp" -> "2".
using Settings = std::map<std::string, std::string>;

// Nested mappings, one key a line.
inline std::string job_text(const Settings& settings) {
  std::string text;
  std::vector<std::string> open;
  for (const auto& [key, value] : settings) {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at <= key.size();) {
      const std::size_t dot = std::min(key.find('.', at), key.size());
      parts.push_back(key.substr(at, dot - at));
      at = dot + 1;
    }
    std::size_t same = 0;
    while (same < open.size() && same + 1 < parts.size() && open[same] == parts[same]) ++same;
    open.assign(parts.begin(), parts.end() - 1);
    for (std::size_t i = same; i < parts.size(); ++i) {
      text += std::string(2 * i, ' ') + parts[i] + ":";
      text += i + 1 < parts.size() ? "\n" : " " + value + "\n";
    }
  }
  return text;
}

class RandomJob {
 public:
  explicit RandomJob(std::uint64_t seed) : state_(seed) {}

  // Most are illegal: the sizes know nothing of the layout.
  Settings draw() {
    settings_.clear();
    experts_ = 0;
    model();
    if (one_in(3)) experts();
    layout();
    training();
    return settings_;
  }

 private:
  // Steele, Lea and Flood's splitmix64: the same numbers everywhere.
  std::uint64_t next() {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31U);
  }
  bool one_in(int n) { return next() % static_cast<std::uint64_t>(n) == 0; }
  int between(int least, int most) {
    return least + static_cast<int>(next() % static_cast<std::uint64_t>(most - least + 1));
  }
  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[next() % values.size()];
  }
  int divisor_of(int n) {
    int d = between(1, n);
    while (n % d != 0) --d;
    return d;
  }
  void set(const std::string& key, const std::string& value) { settings_[key] = value; }
  void set(const std::string& key, int value) { settings_[key] = std::to_string(value); }
  void maybe(int n, const std::string& key, std::string_view value) {
    if (one_in(n)) settings_[key] = value;
  }

  void model() {
    const auto& families = planner::families();
    set("model.family", families[next() % families.size()]);
    layers_ = between(1, 9);
    set("model.layers", layers_);
    heads_ = pick({1, 2, 3, 4, 4, 6, 8, 8});
    set("model.heads", heads_);
    set("model.kv_heads", divisor_of(heads_));
    set("model.head_dim", pick({2, 4, 6, 8, 10}));
    set("model.hidden", between(5, 40));
    set("model.ffn_hidden", pick({4, 6, 8, 12, 16, 24, 48}) * between(1, 2));
    set("model.vocab", between(61, 80));
    set("model.vocab_multiple", pick({1, 2, 8}));
    set("model.init_std", "0.1");  // gradients well away from rounding
    set("model.max_position", 64);
    maybe(8, "model.tied_embeddings", one_in(2) ? "true" : "false");
    maybe(10, "model.norm", one_in(2) ? "layer_norm" : "rms_norm");
    maybe(10, "model.activation",
          pick<std::string_view>({"gelu_tanh", "gelu", "relu2", "swiglu", "geglu"}));
    maybe(10, "model.position", pick<std::string_view>({"learned", "rope", "none"}));
    maybe(10, "model.no_rope_every", pick<std::string_view>({"2", "3"}));
    maybe(12, "model.norm_offset", "1");
    maybe(12, "model.rope.fraction", "0.5");
    maybe(12, "model.rope.interleaved", "true");
    for (const char* key : {"bias.qkv", "bias.attention_out", "bias.mlp", "bias.norm", "qk_norm",
                            "parallel_residual", "post_norms", "embedding_norm"}) {
      maybe(12, std::string("model.") + key, one_in(3) ? "false" : "true");
    }
    maybe(15, "model.qkv_clip", "0.5");
    maybe(15, "model.logit_softcap", "3");
    maybe(15, "model.embedding_scale", "2.5");
  }

  void experts() {
    set("model.activation", "swiglu");
    experts_ = pick({2, 3, 4, 6, 8});
    set("model.moe.experts", experts_);
    set("model.moe.top_k", between(1, std::min(4, experts_)));
    set("model.moe.ffn_hidden", pick({4, 6, 8, 12}));
    maybe(3, "model.moe.shared_ffn_hidden", pick<std::string_view>({"6", "8"}));
    if (layers_ > 1 && one_in(3)) set("model.moe.first_dense_layers", between(1, layers_ - 1));
    maybe(3, "model.moe.router.normalize", "true");
    maybe(3, "model.moe.router.aux_coefficient", "0.02");
    maybe(3, "model.moe.router.z_coefficient", "0.01");
    maybe(4, "model.moe.router.scale", "2.5");
    if (one_in(3)) {
      set("model.moe.router.score", "sigmoid");
      maybe(2, "model.moe.router.bias", "true");
    } else {
      maybe(2, "model.moe.router.pre_softmax", "true");
    }
    if (one_in(4)) {
      const int groups = divisor_of(experts_);
      set("model.moe.router.groups", groups);
      set("model.moe.router.group_top_k", between(1, groups));
    }
  }

  // Degrees whose product is at most 16, no axis favoured.
  void layout() {
    std::vector<std::pair<const char*, int>> degrees = {{"tp", pick({1, 1, 2, 2, 3, 4, 8})},
                                                        {"cp", pick({1, 1, 1, 2, 2, 3, 4})},
                                                        {"pp", pick({1, 1, 2, 2, 3, 4, 5, 6, 8})},
                                                        {"dp", pick({1, 1, 2, 2, 3, 4, 6})}};
    int world = 1;
    for (std::size_t i = degrees.size(); i > 1; --i) std::swap(degrees[i - 1], degrees[next() % i]);
    std::map<std::string, int> of;
    for (auto& [name, degree] : degrees) {
      if (world * degree > 16) degree = 1;
      world *= degree;
      of[name] = degree;
    }
    for (const auto& [name, degree] : of) {
      if (degree > 1) set("layout." + name, degree);
    }
    dp_ = of["dp"];
    set("layout.dp", dp_);
    const int vpp = of["pp"] > 1 ? pick({1, 1, 2, 3}) : 1;
    if (vpp > 1) set("layout.vpp", vpp);
    if (experts_ > 0) {
      const int inside = of["tp"] * of["cp"] * of["dp"];
      const int ep = std::gcd(divisor_of(inside), experts_);
      if (ep > 1) set("layout.ep", ep);
      if (one_in(2)) set("layout.etp", divisor_of(inside / ep));
    }
    if (of["tp"] > 1) set("layout.sequence_parallel", one_in(3) ? "false" : "true");
    if (of["cp"] > 1)
      set("layout.context", pick<const char*>({"ring", "ring", "all_gather", "ulysses"}));
    set("layout.zero", between(0, 3));
    if (settings_["layout.zero"] != "0" && one_in(2))
      set("layout.zero_group", of["cp"] * divisor_of(dp_));
    maybe(4, "layout.recompute", "full");
    maybe(4, "layout.recompute",
          pick<std::string_view>({"selective:norms", "selective:activation+norms", "selective:mlp",
                                  "selective:moe+norms", "selective:moe_activation",
                                  "selective:core_attention+mlp"}));
    if (one_in(3)) {
      std::string overlap;
      for (const char* name : {"gradient_reduce", "parameter_gather", "pipeline"}) {
        if (one_in(2)) overlap += (overlap.empty() ? "" : ", ") + std::string(name);
      }
      set("layout.overlap", "[" + overlap + "]");
    }
    if (one_in(4)) {
      std::vector<std::string> axes = {"tp", "cp", "ep", "dp", "pp"};
      for (std::size_t i = axes.size(); i > 1; --i) std::swap(axes[i - 1], axes[next() % i]);
      std::string order = axes[0];
      for (std::size_t i = 1; i < axes.size(); ++i) order += "-" + axes[i];
      set("layout.rank_order", order);
    }
    if (one_in(4)) stages(of["pp"] * vpp);
  }

  // Any cut of the layers, each stage with at least one.
  void stages(int count) {
    if (layers_ < count) return;
    std::vector<int> cut(static_cast<std::size_t>(count), 1);
    for (int i = count; i < layers_; ++i) ++cut[next() % cut.size()];
    std::string text;
    for (const int layers : cut) text += (text.empty() ? "" : ", ") + std::to_string(layers);
    set("layout.stages", "[" + text + "]");
  }

  void training() {
    const int micro_batch = pick({1, 1, 2, 3});
    set("layout.micro_batch", micro_batch);
    set("training.global_batch", micro_batch * dp_ * pick({1, 2, 3, 4, 6, 8}));
    set("training.sequence_length", pick({4, 6, 8, 12, 16, 24}));
    set("training.seed", between(1, 9999));
  }

  std::uint64_t state_;
  Settings settings_;
  int layers_ = 1, heads_ = 1, experts_ = 0, dp_ = 1;
};

}  // namespace mega::testing
