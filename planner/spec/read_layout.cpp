#include <algorithm>

#include "planner/spec/read_sections.h"
#include "planner/spec/stage_string.h"
#include "planner/strategy.h"

namespace mega::planner {
namespace {

const std::vector<std::string> kRecomputeModules = {
    "activation", "core_attention", "mla_up", "mlp",
    "moe",        "moe_activation", "norms",  "shared_experts"};
const std::vector<std::string> kOverlaps = {"gradient_reduce", "parameter_gather", "tensor",
                                            "pipeline", "expert"};

// The items of a list of words; nothing (an error) when it is something else.
std::optional<std::vector<std::string>> words(MappingReader& reader, const std::string& key,
                                              const YamlNode& list,
                                              const std::vector<std::string>& allowed) {
  std::vector<std::string> out;
  for (const YamlNode& item : list.items) {
    if (std::find(allowed.begin(), allowed.end(), item.text) != allowed.end()) {
      out.push_back(item.text);
      continue;
    }
    const std::string meant = closest(item.text, allowed);
    reader.fail(
        key, reader.path_of(key) + " has no " + quote(item.text),
        meant.empty() ? "there are: " + join(allowed, ", ") : "did you mean " + quote(meant) + "?");
    return std::nullopt;
  }
  return out;
}

// "Et*3|(tt|)*29|L": the counts of Megatron's string.
void read_stage_string(MappingReader& reader, const std::string& text, LayoutSpec& layout) {
  StageString string = parse_stage_string(text);
  const bool predicts = std::any_of(string.predictors.begin(), string.predictors.end(),
                                    [](int count) { return count > 0; });
  if (string.error.empty() && predicts) {
    string.error = "asks for multi-token prediction (m), which is not built yet";
  }
  if (!string.error.empty()) {
    reader.fail("stages", reader.path_of("stages") + " " + string.error,
                "such as Et*3|(tt|)*29|L: E embedding, t layer, L loss, | between stages");
    return;
  }
  layout.stages = std::move(string.layers);
}

// auto, even, how many layers each virtual stage has, or Megatron's string of them.
void read_stages(MappingReader& reader, LayoutSpec& layout) {
  const YamlNode* node = reader.find("stages");
  if (node == nullptr) return;
  if (node->is_scalar() && (node->text == "auto" || node->text == "even")) {
    layout.stages_mode = node->text;
    return;
  }
  if (node->is_scalar() && node->text.find_first_of("EL|*") != std::string::npos) {
    read_stage_string(reader, node->text, layout);
    return;
  }
  std::vector<int> counts;
  for (const YamlNode& item : node->items) {
    const auto count = item.is_scalar() ? parse_integer(item.text) : std::nullopt;
    if (!count || *count < 0 || *count > kMostLayers) break;
    counts.push_back(static_cast<int>(*count));
  }
  if (!node->is_sequence() || counts.empty() || counts.size() != node->items.size()) {
    reader.fail(
        "stages",
        reader.path_of("stages") + " must be auto, even or the layers of each virtual stage",
        "such as [7, 8, 8, 7]");
    return;
  }
  layout.stages = counts;
}

// none, full, full:2, selective:a+b, {full: 2}, {selective: [a, b]}.
void read_recompute(MappingReader& reader, LayoutSpec& layout) {
  const YamlNode* node = reader.find("recompute");
  if (node == nullptr) return;
  std::optional<Recompute> recompute;
  const YamlNode* full = find(*node, "full");
  const YamlNode* selective = find(*node, "selective");
  if (node->is_scalar()) {
    recompute = recompute_named(node->text);
  } else if (node->items.size() == 1 && full != nullptr && full->is_scalar()) {
    recompute = recompute_named("full:" + full->text);
  } else if (node->items.size() == 1 && selective != nullptr && selective->is_sequence()) {
    const auto modules = words(reader, "recompute", *selective, kRecomputeModules);
    if (!modules) return;
    recompute = recompute_named("selective:" + join(*modules, "+"));
  }
  if (!recompute) {
    reader.fail("recompute",
                reader.path_of("recompute") + " must be none, full, full:N or selective:MODULES",
                "such as selective:core_attention+norms");
    return;
  }
  YamlNode modules;
  for (const std::string& module : recompute->modules) {
    modules.items.emplace_back().text = module;
  }
  if (words(reader, "recompute", modules, kRecomputeModules)) {
    layout.recompute = to_string(*recompute);
  }
}

void read_overlap(MappingReader& reader, LayoutSpec& layout) {
  const YamlNode* node = reader.find("overlap");
  if (node == nullptr) return;
  if (!node->is_sequence()) {
    reader.fail("overlap", reader.path_of("overlap") + " must be a list",
                "such as [gradient_reduce, pipeline], or [] for none");
    return;
  }
  layout.overlap = words(reader, "overlap", *node, kOverlaps);
}

void read_rank_order(MappingReader& reader, LayoutSpec& layout) {
  const auto order = reader.word("rank_order");
  if (!order) return;
  std::vector<std::string> axes = split(*order, '-');
  std::sort(axes.begin(), axes.end());
  if (axes != std::vector<std::string>{"cp", "dp", "ep", "pp", "tp"}) {
    reader.fail("rank_order",
                reader.path_of("rank_order") + " must name tp, cp, ep, dp and pp once each, got " +
                    quote(*order),
                "innermost first, such as tp-cp-ep-dp-pp");
    return;
  }
  layout.rank_order = order;
}

std::optional<int> degree(MappingReader& reader, const std::string& key) {
  const auto value = reader.integer(key, {1, kLargestDegree});
  return value ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
}

// A value of `allow` as text: what the key of `layout:` would take as one word.
std::string text_of(const YamlNode& value, const std::string& field) {
  if (value.is_scalar()) return value.text;
  std::vector<std::string> parts;
  for (const YamlNode& item : value.items) parts.push_back(item.text);
  if (parts.empty()) return "none";
  return join(parts, field == "stages" ? "," : "+");
}

void read_allowed(MappingReader& allow, const std::string& field, SearchSpec& search) {
  const YamlNode* list = allow.find(field);
  if (list == nullptr) return;
  if (!list->is_sequence() || list->items.empty()) {
    allow.fail(field, allow.path_of(field) + " must be a list of values", "such as [1, 2, 4]");
    return;
  }
  for (const YamlNode& value : list->items) {
    // Each value is read as the layout's own key is, so that the same words are refused.
    YamlNode single;
    single.kind = YamlNode::Kind::Mapping;
    single.keys.push_back({field, value.file, value.where});
    single.items.push_back(value);
    MappingReader as_layout = allow.of_same_log(single);
    const LayoutSpec layout = read_layout(as_layout);
    const bool is_recompute = field == "recompute" && layout.recompute;
    search.allow[field].push_back(is_recompute ? *layout.recompute : text_of(value, field));
  }
}

}  // namespace

const std::vector<std::string>& layout_fields() {
  static const std::vector<std::string> fields = {
      "tp",        "cp",      "pp",         "vpp",     "dp",          "ep",
      "etp",       "stages",  "schedule",   "zero",    "micro_batch", "sequence_parallel",
      "recompute", "context", "zero_group", "overlap", "rank_order"};
  return fields;
}

LayoutSpec read_layout(MappingReader reader) {
  LayoutSpec layout;
  layout.tp = degree(reader, "tp");
  layout.cp = degree(reader, "cp");
  layout.pp = degree(reader, "pp");
  layout.vpp = degree(reader, "vpp");
  layout.dp = degree(reader, "dp");
  layout.ep = degree(reader, "ep");
  layout.etp = degree(reader, "etp");
  layout.micro_batch = degree(reader, "micro_batch");
  layout.zero_group = degree(reader, "zero_group");
  if (const auto zero = reader.integer("zero", {0, 3})) layout.zero = static_cast<int>(*zero);
  read_stages(reader, layout);
  layout.schedule = reader.choice("schedule", {"1f1b", "gpipe", "zb_h1", "zb_v", "dualpipe_v"});
  read_recompute(reader, layout);
  layout.context = reader.choice("context", {"ring", "all_gather", "ulysses"});
  read_rank_order(reader, layout);
  layout.sequence_parallel = reader.boolean("sequence_parallel");
  read_overlap(reader, layout);
  reader.finish();
  return layout;
}

SearchSpec read_search(MappingReader reader) {
  SearchSpec search;
  if (auto allow = reader.mapping("allow")) {
    for (const std::string& field : layout_fields()) read_allowed(*allow, field, search);
    allow->finish();
  }
  search.max_gpus = degree(reader, "max_gpus");
  search.objective =
      reader.choice("objective", {"throughput", "memory"}, {"time_to_train", "cost", "energy"})
          .value_or(search.objective);
  search.memory_margin = reader.bytes("memory_margin");
  reader.not_built("recipe", {"native"});
  reader.not_built("robust", {"false"});
  reader.finish();
  return search;
}

}  // namespace mega::planner
