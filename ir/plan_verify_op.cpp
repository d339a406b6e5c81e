#include <algorithm>
#include <cmath>
#include <map>

#include "ir/base/text.h"
#include "ir/plan_verify_proofs.h"

namespace mega::verifying {
namespace {

// An index string is parsed once for all the ops that share it.
class Indices {
 public:
  const std::optional<Index>& of(const std::string& text) {
    const auto found = known_.find(text);
    if (found != known_.end()) return found->second;
    return known_.emplace(text, parse_index(text)).first->second;
  }

 private:
  std::map<std::string, std::optional<Index>> known_;
};

// The element types that an operand may have; most ops have one.
bool accepts(OpKind kind, DType dtype, DType wanted) {
  if (dtype == wanted) return true;
  const bool is_any = is_collective(kind) && kind != OpKind::AllToAllV;
  if (kind == OpKind::AllToAll && dtype == DType::Fp32) return true;
  return (is_any || kind == OpKind::Fill) && dtype == DType::Fp64;
}

class OpCheck {
 public:
  OpCheck(const Plan& plan, int program, Report& report)
      : plan_(plan),
        number_(program),
        program_(plan.programs[static_cast<std::size_t>(program)]),
        report_(report) {}

  void check() {
    for (std::size_t s = 0; s < program_.segments.size(); ++s) {
      segment_ = SegmentId{static_cast<std::int32_t>(s)};
      const Segment& segment = program_.segments[segment_];
      for (position_ = 0; position_ < segment.ops.size(); ++position_) {
        check(segment, segment.ops[position_]);
      }
    }
  }

 private:
  void fail(const std::string& reason, std::string help = {}) {
    report_.add("program " + named(program_.name) + ", " +
                    report_.op(number_, segment_, position_) + ": " + reason,
                std::move(help));
  }

  const Buffer& buffer(BufferId id) const { return program_.buffers[id]; }

  void check(const Segment& segment, const Op& op) {
    for (const auto* operands : {&op.inputs, &op.outputs}) {
      for (const BufferId id : *operands) {
        if (buffer(id).region != Region::Slot || buffer(id).chunk == segment.chunk) continue;
        fail("buffer " + named(buffer(id).name) +
             " is in a slot of another chunk than the segment");
      }
    }
    if (!shapes(op)) return;
    types(op);
    attributes(op);
    if (is_collective(op.kind)) {
      collective(op);
    } else if (op.group) {
      fail("only collectives have a group");
    }
  }

  bool shapes(const Op& op) {
    if (op.kind == OpKind::Pack || op.kind == OpKind::Unpack) return packed(op);
    const std::optional<Index>& index = indices_.of(op.index);
    if (!index) return fail(quote(op.index) + " are no letters of an op"), false;
    if (is_collective(op.kind)) {
      // Letters say nothing about a collective; the sizes are compared with the group's.
      const std::size_t inputs = op.kind == OpKind::AllToAllV ? 3 : 1;
      if (op.inputs.size() == inputs && op.outputs.size() == 1) return true;
      return fail("it takes " + std::to_string(inputs) + " inputs and 1 output"), false;
    }
    if (!may_have(op, *index)) {
      fail("the letters " + quote(op.index) + " are not " + quote(info(op.kind).index));
      return false;
    }
    std::vector<Shape> inputs, outputs;
    for (const BufferId id : op.inputs) inputs.push_back(buffer(id).shape);
    for (const BufferId id : op.outputs) outputs.push_back(buffer(id).shape);
    const ExtentsOrMessage extents = extents_of(*index, inputs, outputs);
    if (!extents.extents) fail(extents.message + ", by the letters " + quote(op.index));
    return extents.extents.has_value();
  }

  // [s, b, xy, ...] and [x, s, b, y, ...]
  bool packed(const Op& op) {
    if (op.inputs.size() != 1 || op.outputs.size() != 1) {
      return fail("it has one input and one output"), false;
    }
    const bool is_pack = op.kind == OpKind::Pack;
    const Shape& whole = buffer(op.inputs[0]).shape;
    const Shape& parts = buffer(op.outputs[0]).shape;
    const Shape& a = is_pack ? whole : parts;
    const Shape& b = is_pack ? parts : whole;
    const bool fits = a.size() >= 3 && b.size() == a.size() + 1 && b[1] == a[0] && b[2] == a[1] &&
                      b[0] * b[3] == a[2] && std::equal(a.begin() + 3, a.end(), b.begin() + 4) &&
                      op.inputs[0] != op.outputs[0];
    if (!fits) fail(to_string(whole) + " and " + to_string(parts) + " are no packing");
    return fits;
  }

  // The op's own letters, or others of the same number of operands where it is flexible.
  bool may_have(const Op& op, const Index& index) {
    const OpInfo& known = info(op.kind);
    if (op.index == known.index) return true;
    if (op.kind == OpKind::Sgd) return op.index == "n,->n";  // without momentum
    // Values of a width of their own.
    if (op.kind == OpKind::Attention) return op.index == "sbgrd,tbgd,tbgj->sbgrj,sbgr";
    if (op.kind == OpKind::AttentionBackward) {
      return op.index == "sbgrj,sbgrd,tbgd,tbgj,sbgrj,sbgr->sbgrd,tbgd,tbgj";
    }
    const std::optional<Index>& own = indices_.of(std::string(known.index));
    // A bias of the product or of the scores, the load of the experts; a layer_norm may lack its
    // bias.
    const bool takes_more =
        op.kind == OpKind::MatMul || op.kind == OpKind::Route || op.kind == OpKind::RouteBackward;
    const std::size_t more = takes_more ? 1 : 0;
    const std::size_t fewer = op.kind == OpKind::LayerNorm ? 1 : 0;
    const std::size_t fewer_outputs = op.kind == OpKind::LayerNormBackward ? 1 : 0;
    return known.flexible && index.outputs.size() <= own->outputs.size() &&
           index.outputs.size() + fewer_outputs >= own->outputs.size() &&
           index.inputs.size() + fewer >= own->inputs.size() &&
           index.inputs.size() <= own->inputs.size() + more;
  }

  void types(const Op& op) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      type_of(op, op.inputs[i], input_dtype(op.kind, i), "input " + std::to_string(i));
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      type_of(op, op.outputs[i], output_dtype(op.kind, i), "output " + std::to_string(i));
    }
  }

  void type_of(const Op& op, BufferId id, DType wanted, const std::string& which) {
    if (accepts(op.kind, buffer(id).dtype, wanted)) return;
    fail(which + ", " + named(buffer(id).name) + ", is " + std::string(name_of(buffer(id).dtype)) +
         " instead of " + std::string(name_of(wanted)));
  }

  void attributes(const Op& op) {
    const Attributes& a = op.attributes;
    const std::uint32_t outputs = (1U << op.outputs.size()) - 1;
    if ((a.accumulate & ~(info(op.kind).can_accumulate & outputs)) != 0) {
      fail("it can't accumulate into that output");
    }
    if (a.limit < 0 || a.stride < 0) fail("a negative limit or stride");
    sequence(op);
    for (const double value : {a.epsilon, a.scale, a.theta, a.value, a.clip}) {
      if (std::isfinite(value)) continue;
      fail("an attribute is no finite number");
      break;
    }
    if (a.epsilon < 0 || a.clip < 0) fail("a negative epsilon or clip");
    const bool decays = a.beta1 >= 0 && a.beta1 < 1 && a.beta2 >= 0 && a.beta2 < 1;
    if (!decays) fail("beta1 and beta2 must be in [0, 1)");
    if (op.kind == OpKind::AdamW && !(a.epsilon > 0)) fail("adamw needs an epsilon above 0");
    positions(op);
    if (a.combine != Combine::None && !is_collective(op.kind)) {
      fail("only collectives combine the parts of ranks");
    }
  }

  // Rows of a sequence that is cut into parts stay inside it, on every rank.
  void sequence(const Op& op) {
    const Attributes& a = op.attributes;
    const bool is_part = a.length > 0 && a.parts >= 0 && a.parts <= a.length / 2 &&
                         (a.parts == 0 || a.length % (2 * a.parts) == 0) && a.shift >= 0 &&
                         a.shift <= a.parts;
    if (a.length == 0 && a.parts == 0 && a.shift == 0) return;
    if (!is_part) return fail("length=, parts= and shift= are not of one sequence");
    const bool is_input = op.kind == OpKind::InputTokens || op.kind == OpKind::InputLabels;
    const std::int64_t rows = buffer(is_input ? op.outputs[0] : op.inputs[0]).shape[0];
    if (a.length % rows != 0) fail("rows are no part of the sequence");
    const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(op.mesh)];
    for (const OriginTerm& term : op.origin) {
      const bool is_of_rows = term.stride == rows && a.length / rows == extent(mesh, term.axes);
      if (is_of_rows || (is_input && term.stride > 0 && term.stride % a.length == 0)) continue;
      fail("origin=" + std::to_string(term.stride) + "*" + to_string(mesh, term.axes) +
           " doesn't give each rank rows of its own");
    }
    if (op.kind != OpKind::Attention && op.kind != OpKind::AttentionBackward) return;
    const std::int64_t keys = buffer(op.inputs[op.kind == OpKind::Attention ? 1 : 2]).shape[0];
    if (keys != a.length && keys != rows) fail("keys are neither whole nor one part");
  }

  // Of a table of positions, no rank looks up a row that isn't there.
  void positions(const Op& op) {
    if (op.kind != OpKind::AddPosition && op.kind != OpKind::AddPositionBackward) return;
    const bool is_forward = op.kind == OpKind::AddPosition;
    const std::int64_t rows = buffer(op.inputs[0]).shape[0];
    const std::int64_t table = buffer(is_forward ? op.inputs[1] : op.outputs[0]).shape[0];
    if (op.attributes.parts > 0 && op.attributes.length <= table) return;
    const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(op.mesh)];
    double least = 0, most = 0;  // far beyond a table, still right
    for (const OriginTerm& term : op.origin) {
      const double reach = (extent(mesh, term.axes) - 1) * static_cast<double>(term.stride);
      (reach < 0 ? least : most) += reach;
    }
    if (least >= 0 && most + static_cast<double>(rows) <= static_cast<double>(table)) return;
    fail("a rank looks up a position outside of the table's " + std::to_string(table) + " rows");
  }

  void collective(const Op& op) {
    if (!op.group) return fail("a collective needs a group", "add 'along=AXES'");
    const Buffer& in = buffer(op.inputs.front());
    const Buffer& out = buffer(op.outputs.front());
    if (in.dtype != out.dtype) return fail("input and output have two element types");
    const bool combines = op.kind == OpKind::AllReduce || op.kind == OpKind::ReduceScatter;
    const Combine combine = op.attributes.combine;
    if (combines == (combine == Combine::None)) {
      fail(combines ? "it doesn't say how the parts are combined" : "there is nothing to combine",
           combines ? "add 'sum' or 'max'" : "");
    }
    if (combine == Combine::Max && in.dtype != DType::Fp32) fail("the maximum is of fp32 only");
    if (op.group->along.empty()) return fail("the group is along no axis");
    const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(op.group->mesh)];
    const std::int64_t size = size_of(mesh, *op.group);
    if (op.kind == OpKind::AllReduce) {
      if (op.inputs.front() != op.outputs.front()) {
        fail("input " + named(in.name) + " and output " + named(out.name) + " must be one buffer");
      }
      return;
    }
    if (op.kind == OpKind::AllToAll) return all_to_all(in, out, size);
    if (op.kind == OpKind::RingShift) {
      const bool moves = in.shape == out.shape && op.inputs.front() != op.outputs.front();
      if (!moves) fail("what moves on needs two buffers of one shape");
      return;
    }
    if (op.kind == OpKind::AllToAllV) return all_to_all_v(op, size);
    const Shape& whole = op.kind == OpKind::AllGather ? out.shape : in.shape;
    const Shape& part = op.kind == OpKind::AllGather ? in.shape : out.shape;
    const bool fits = !whole.empty() && whole.size() == part.size() &&
                      whole.front() == part.front() * size &&
                      std::equal(whole.begin() + 1, whole.end(), part.begin() + 1);
    if (fits) return;
    fail("the whole of " + to_string(whole) + " is not " + std::to_string(size) + " parts of " +
             to_string(part) + " along '" + to_string(mesh, *op.group) + "'",
         "the first dimension is the part's times the size of the group");
  }

  void all_to_all(const Buffer& in, const Buffer& out, std::int64_t size) {
    const std::int64_t received = element_count(out.shape);
    if (received % size != 0) {
      fail(std::to_string(received) + " elements are not received from " + std::to_string(size) +
           " members alike");
    }
    // Holders of the same experts are told the same.
    const std::int64_t part = received / size, sent = element_count(in.shape);
    if (part == 0 || sent % part != 0 || size % (sent / part) != 0) {
      fail("input " + to_string(in.shape) + " is not the parts of " + std::to_string(size) +
           " members that each get " + std::to_string(part));
    }
  }

  // Rows, how many are sent to each expert, how many come from each member -> rows.
  void all_to_all_v(const Op& op, std::int64_t size) {
    const Buffer& in = buffer(op.inputs[0]);
    const Buffer& out = buffer(op.outputs[0]);
    const std::int64_t experts = element_count(buffer(op.inputs[1]).shape);
    const Shape& received = buffer(op.inputs[2]).shape;
    const bool has_counts = received.size() == 2 && received[0] == size && received[1] > 0 &&
                            experts % received[1] == 0 && size % (experts / received[1]) == 0;
    if (!has_counts) {
      return fail("counts of " + to_string(received) + " are not those of " + std::to_string(size) +
                  " members and their share of " + std::to_string(experts) + " experts");
    }
    if (in.shape.size() != 2 || out.shape.size() != 2 || in.shape[1] != out.shape[1]) {
      fail("rows of " + to_string(in.shape) + " don't become rows of " + to_string(out.shape));
    }
    const std::int64_t holders = experts / received[1];
    const bool ordered = op.attributes.stride == 1 || op.attributes.stride == size / holders;
    if (!ordered)
      fail("stride=" + std::to_string(op.attributes.stride) + " is no order of members");
  }

  const Plan& plan_;
  int number_;
  const Program& program_;
  Report& report_;
  Indices indices_;
  SegmentId segment_;
  std::size_t position_ = 0;
};

}  // namespace

void check_ops(const Plan& plan, int program, Report& report) {
  OpCheck(plan, program, report).check();
}

}  // namespace mega::verifying
