// The keys of `model.moe`.
#include "ir/base/text.h"
#include "planner/spec/read_sections.h"

namespace mega::planner {
namespace {

std::string number(std::int64_t value) {
  return std::to_string(value);
}

// How many experts of which group a token may use.
void read_groups(MappingReader& reader, const MoeSpec& moe, RouterSpec& router) {
  router.groups = reader.integer("groups", {1, 64}).value_or(0);
  router.group_top_k = reader.integer("group_top_k", {1, 64}).value_or(0);
  if (router.groups == 0 && router.group_top_k == 0) return;
  if (router.groups == 0 || router.group_top_k == 0) {
    return reader.fail(
        router.groups == 0 ? "group_top_k" : "groups",
        reader.path_of("groups") + " and " + reader.path_of("group_top_k") + " come together");
  }
  if (moe.experts % router.groups != 0) {
    return reader.fail("groups", reader.path_of("groups") + " " + number(router.groups) +
                                     " does not divide model.moe.experts " + number(moe.experts));
  }
  if (router.group_top_k > router.groups) {
    return reader.fail("group_top_k", reader.path_of("group_top_k") + " " +
                                          number(router.group_top_k) + " is more than the " +
                                          number(router.groups) + " groups");
  }
  const std::int64_t usable = router.group_top_k * (moe.experts / router.groups);
  if (moe.top_k > usable || moe.top_k % router.group_top_k != 0) {
    reader.fail("group_top_k",
                reader.path_of("group_top_k") + " " + number(router.group_top_k) + " groups of " +
                    number(moe.experts / router.groups) + " experts can't serve model.moe.top_k " +
                    number(moe.top_k),
                "top_k must be a multiple of group_top_k, and at most the experts of its groups",
                {"model.moe.top_k"});
  }
}

RouterSpec read_router(MappingReader reader, const MoeSpec& moe, RouterSpec router) {
  if (const auto score = reader.choice("score", {"softmax", "sigmoid"})) {
    router.score = *score == "sigmoid" ? RouterScore::Sigmoid : RouterScore::Softmax;
  }
  router.pre_softmax = reader.boolean("pre_softmax").value_or(router.pre_softmax);
  router.normalize = reader.boolean("normalize").value_or(router.normalize);
  router.scale = reader.real("scale", {0, 1e6, true}).value_or(router.scale);
  read_groups(reader, moe, router);
  router.bias = reader.boolean("bias").value_or(router.bias);
  router.bias_update_rate = reader.real("bias_update_rate", {0, 1}).value_or(0);
  router.aux_coefficient = reader.real("aux_coefficient", {0, 1e6}).value_or(0);
  router.z_coefficient = reader.real("z_coefficient", {0, 1e6}).value_or(0);
  if (router.bias && router.score == RouterScore::Softmax) {
    reader.fail("bias", reader.path_of("bias") + " is for sigmoid scores only",
                "add score: sigmoid, or leave the bias out");
  }
  if (router.bias_update_rate > 0 && !router.bias) {
    reader.fail("bias_update_rate", reader.path_of("bias_update_rate") + " needs bias: true");
  }
  if (moe.top_k == 1 && router.score == RouterScore::Softmax && !router.pre_softmax) {
    reader.fail(reader.has("pre_softmax") ? "pre_softmax" : "score",
                "a softmax over the 1 chosen expert is always 1, so its router learns nothing",
                "add pre_softmax: true", {"model.moe.top_k"});
  }
  reader.finish();
  return router;
}

// worst_case, or {factor: 1.5}.
void read_dropless(MappingReader& reader, MoeSpec& moe) {
  const YamlNode* node = reader.find("dropless");
  if (node == nullptr) return;
  if (node->is_scalar()) {
    if (node->text == "worst_case") return;
    return reader.fail("dropless", reader.path_of("dropless") + " must be worst_case or a factor",
                       "such as {factor: 1.5}");
  }
  if (auto factor = reader.mapping("dropless")) {
    factor->required("factor");
    moe.row_factor = factor->real("factor", {0, 1e4, true}).value_or(0);
    factor->finish();
  }
}

}  // namespace

MoeSpec read_experts(MappingReader reader, const std::string& family) {
  MoeSpec moe;
  for (const char* key : {"experts", "top_k", "ffn_hidden"}) reader.required(key);
  const IntegerRange size{1, kLargestSize};
  moe.experts = reader.integer("experts", {1, 1 << 16}).value_or(1);
  moe.top_k = reader.integer("top_k", {1, 1 << 10}).value_or(1);
  if (moe.top_k > moe.experts) {
    reader.fail("top_k",
                reader.path_of("top_k") + " " + number(moe.top_k) + " is more than the " +
                    number(moe.experts) + " experts",
                "", {"model.moe.experts"});
    moe.top_k = moe.experts;
  }
  moe.ffn_hidden = reader.integer("ffn_hidden", size).value_or(1);
  moe.shared_ffn_hidden = reader.integer("shared_ffn_hidden", {0, kLargestSize}).value_or(0);
  moe.first_dense_layers =
      static_cast<int>(reader.integer("first_dense_layers", {0, kMostLayers}).value_or(0));
  read_dropless(reader, moe);
  moe.imbalance = reader.real("imbalance", {1, 1e4}).value_or(1);
  reader.not_built("shared_gate", {"false"});
  reader.not_built("capacity", {"none"});
  if (const auto pattern = reader.word("layer_pattern")) {
    moe.layer_pattern = *pattern;
    const bool has_others = pattern->find_first_not_of("de") != std::string::npos;
    if (has_others || pattern->find('e') == std::string::npos) {
      reader.fail("layer_pattern",
                  reader.path_of("layer_pattern") + " " + quote(*pattern) +
                      " must be of d (dense) and e (experts), with one e at least",
                  "such as de: every second layer has experts");
      moe.layer_pattern.clear();
    }
  }
  RouterSpec defaults;
  if (family == "qwen3_moe") defaults.pre_softmax = defaults.normalize = true;
  if (family == "deepseek_v2") defaults.pre_softmax = true;
  if (family == "deepseek_v3") {
    defaults.score = RouterScore::Sigmoid;
    defaults.normalize = defaults.bias = true;
  }
  moe.router = defaults;
  if (auto router = reader.mapping("router")) moe.router = read_router(*router, moe, defaults);
  reader.finish();
  return moe;
}

}  // namespace mega::planner
