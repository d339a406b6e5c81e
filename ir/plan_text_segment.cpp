#include <limits>

#include "ir/base/text.h"
#include "ir/plan_text_parser.h"

namespace mega {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxPosition = std::int64_t{1} << 30;
constexpr int kMaxOutputs = 32;  // bits of `accumulate`

struct RealAttribute {
  std::string_view key;
  double Attributes::*field;
};
constexpr RealAttribute kReals[] = {{"epsilon", &Attributes::epsilon},
                                    {"scale", &Attributes::scale},
                                    {"theta", &Attributes::theta},
                                    {"value", &Attributes::value},
                                    {"beta1", &Attributes::beta1},
                                    {"beta2", &Attributes::beta2},
                                    {"clip", &Attributes::clip},
                                    {"z", &Attributes::z},
                                    {"balance", &Attributes::balance},
                                    {"factor", &Attributes::factor},
                                    {"ramp_begin", &Attributes::ramp_begin},
                                    {"ramp_end", &Attributes::ramp_end}};

struct IntegerAttribute {
  std::string_view key;
  std::int64_t Attributes::*field;
};
constexpr IntegerAttribute kIntegers[] = {{"limit", &Attributes::limit},
                                          {"stride", &Attributes::stride},
                                          {"length", &Attributes::length},
                                          {"parts", &Attributes::parts},
                                          {"shift", &Attributes::shift},
                                          {"groups", &Attributes::groups},
                                          {"group_limit", &Attributes::group_limit}};

struct FlagAttribute {
  std::string_view key;
  bool Attributes::*field;
};
constexpr FlagAttribute kFlags[] = {
    {"causal", &Attributes::causal},           {"inverse", &Attributes::inverse},
    {"interleaved", &Attributes::interleaved}, {"decay", &Attributes::decay},
    {"sigmoid", &Attributes::sigmoid},         {"over_all", &Attributes::over_all},
    {"normalize", &Attributes::normalize},     {"by_frequency", &Attributes::by_frequency}};

constexpr std::string_view kAttributes =
    "attributes are epsilon= scale= theta= value= beta1= beta2= clip= z= balance= factor= "
    "ramp_begin= ramp_end= limit= stride= length= parts= shift= groups= group_limit= causal "
    "inverse interleaved decay sigmoid over_all normalize by_frequency sum max accumulate mesh= "
    "origin= owner= along=";

}  // namespace

bool PlanParser::segment(TextCursor& line) {
  place_ = Place::Segment;
  Segment segment;
  segment.name = declare(line, segments_, "segment");
  if (!line.error()) store(segment.chunk, of_chunk(line));
  if (!line.error() && line.accept_key("ns")) {
    store(segment.predicted_ns, line.integer("a time in nanoseconds", 0, kMost));
  }
  current().segments.add(std::move(segment));
  return !line.error();
}

bool PlanParser::op(TextCursor& line, OpKind kind) {
  if (plan_.meshes.empty()) return line.fail_last("an op before the first mesh");
  Op op;
  op.kind = kind;
  if (!op_index(line, op) || !operands(line, op.inputs)) return false;
  if (!line.accept_arrow()) return line.fail_next("expected a buffer or '->'");
  if (!operands(line, op.outputs)) return false;
  if (line.accept('|')) {
    do {
      if (!attribute(line, op)) return false;
    } while (!line.at_end());
  }
  auto& segments = current().segments;
  segments[SegmentId{static_cast<std::int32_t>(segments.size()) - 1}].ops.push_back(std::move(op));
  return true;
}

bool PlanParser::op_index(TextCursor& line, Op& op) {
  op.index = info(op.kind).index;
  if (!line.accept(':')) return true;
  const auto index = line.token("the op's letters");
  if (!store(op.index, index)) return false;
  if (parse_index(*index)) return true;
  return line.fail_last(quote(*index) + " are no letters of an op",
                        "one letter per dimension, such as 'sbh,nh->sbn'");
}

bool PlanParser::operands(TextCursor& line, std::vector<BufferId>& operands) {
  while (line.peek_name()) {
    const int buffer = use(line, buffers_, "buffer");
    if (buffer < 0) return false;
    operands.push_back(BufferId{buffer});
  }
  return true;
}

bool PlanParser::attribute(TextCursor& line, Op& op) {
  Attributes& attributes = op.attributes;
  for (const RealAttribute& real : kReals) {
    if (line.accept_key(real.key)) return store(attributes.*real.field, line.real("a number"));
  }
  for (const FlagAttribute& flag : kFlags) {
    if (line.accept_word(flag.key)) return attributes.*flag.field = true;
  }
  for (const IntegerAttribute& integer : kIntegers) {
    if (line.accept_key(integer.key)) {
      return store(attributes.*integer.field, line.integer("a number", kLeast, kMost));
    }
  }
  if (line.accept_word("accumulate")) return attributes.accumulate = 1, true;
  if (line.accept_word("sum")) return attributes.combine = Combine::Sum, true;
  if (line.accept_word("max")) return attributes.combine = Combine::Max, true;
  return place_attribute(line, op);
}

bool PlanParser::place_attribute(TextCursor& line, Op& op) {
  if (line.accept_key("accumulate")) return accumulate(line, op.attributes);
  if (line.accept_key("origin")) return origin(line, op);
  if (line.accept_key("along")) return group(line, op);
  if (line.accept_key("owner")) return store(op.owner, axes(line, op.mesh));
  if (line.accept_key("mesh")) {
    if (!op.origin.empty() || !op.owner.empty()) {
      return line.fail_last("'mesh=' comes before the axes that it is about");
    }
    return store(op.mesh, std::optional(use(line, meshes_, "mesh"))) && op.mesh >= 0;
  }
  return line.fail_next("unknown attribute", std::string(kAttributes));
}

// accumulate=0+2: outputs 0 and 2 are added to.
bool PlanParser::accumulate(TextCursor& line, Attributes& attributes) {
  do {
    const auto output = line.integer("the number of an output", 0, kMaxOutputs - 1);
    if (!output) return false;
    attributes.accumulate |= 1U << static_cast<unsigned>(*output);
  } while (line.accept('+'));
  return true;
}

// origin=128*tp,4*dp+cp: 128 per step along tp and 4 per step along the plane of dp and cp.
bool PlanParser::origin(TextCursor& line, Op& op) {
  do {
    OriginTerm term;
    if (!store(term.stride, line.integer("a stride", kLeast, kMost))) return false;
    if (!line.expect('*') || !store(term.axes, axes(line, op.mesh))) return false;
    op.origin.push_back(term);
  } while (line.accept(','));
  return true;
}

// along=dp+cp, or only some of the ranks along it: along=pp{0,3}.
bool PlanParser::group(TextCursor& line, Op& op) {
  Group group;
  if (!store(group.mesh, in_mesh(line)) || !store(group.along, axes(line, group.mesh))) {
    return false;
  }
  if (line.accept('{')) {
    do {
      const auto position = line.integer("a position", 0, kMaxPosition);
      if (!position) return false;
      group.only.push_back(static_cast<int>(*position));
    } while (line.accept(','));
    if (!line.expect('}')) return false;
  }
  op.group = std::move(group);
  return true;
}

}  // namespace mega
