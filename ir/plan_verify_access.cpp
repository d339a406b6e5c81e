#include "ir/plan_verify_access.h"

#include <algorithm>
#include <map>
#include <utility>

namespace mega::verifying {
namespace {

// Ops whose kernels compute element by element, so that an output may be the input itself.
bool may_be_in_place(OpKind kind) {
  switch (kind) {
    case OpKind::AddBias:
    case OpKind::Rope:
    case OpKind::GeluTanh:
    case OpKind::Gelu:
    case OpKind::Relu2:
    case OpKind::SwiGlu:
    case OpKind::GeGlu:
    case OpKind::Scale:
    case OpKind::Clip:
    case OpKind::SoftCap:
    case OpKind::Add:
    case OpKind::CrossEntropyBackward:
    case OpKind::GeluTanhBackward:
    case OpKind::GeluBackward:
    case OpKind::Relu2Backward:
    case OpKind::SwiGluBackward:
    case OpKind::GeGluBackward:
    case OpKind::ClipBackward:
    case OpKind::SoftCapBackward:
    case OpKind::GroupedSwiGlu:
    case OpKind::GroupedGeGlu:
    case OpKind::GroupedSwiGluBackward:
    case OpKind::GroupedGeGluBackward:
    case OpKind::Copy:
    case OpKind::AllReduce:
      return true;
    default:
      return false;
  }
}

bool is_update(OpKind kind) {
  return kind == OpKind::AdamW || kind == OpKind::Sgd;
}

// An update without clipping never looks at the gradient's norm.
bool is_ignored(const Op& op, std::size_t input) {
  return is_update(op.kind) && input == 1 && op.attributes.clip == 0;
}

// Without momentum the velocity of SGD is not touched.
bool is_untouched(const Op& op, std::size_t output) {
  return op.kind == OpKind::Sgd && output == 1 && op.attributes.beta1 == 0;
}

bool reads_output(const Op& op, std::size_t output) {
  return is_update(op.kind) ||
         (op.attributes.accumulate >> static_cast<unsigned>(output) & 1U) != 0;
}

// Bytes of one space: persistent, scratch, or one slot of a chunk.
struct Range {
  int space = 0;
  std::int64_t begin = 0, end = 0;
  bool overlaps(const Range& other) const {
    return space == other.space && begin < other.end && other.begin < end;
  }
  bool operator==(const Range&) const = default;
};

class Accesses {
 public:
  Accesses(const Plan& plan, int program, Report& report)
      : plan_(plan),
        number_(program),
        program_(plan.programs[static_cast<std::size_t>(program)]),
        report_(report) {}

  AccessTable find() {
    locate();
    mark_used();
    cut();
    for (std::size_t s = 0; s < program_.segments.size(); ++s) {
      walk(SegmentId{static_cast<std::int32_t>(s)});
    }
    for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
      if (!transferred_[b]) continue;
      const auto accessor = static_cast<std::uint32_t>(program_.segments.size() + b);
      for (std::size_t cell = first_[b]; cell < last_[b]; ++cell) {
        signatures_[cell].push_back(accessor * 4);
      }
    }
    return group();
  }

 private:
  static std::size_t at(BufferId id) { return static_cast<std::size_t>(id.index); }
  const std::string& name(BufferId id) const { return program_.buffers[id].name; }

  // Where each buffer lies, and the buffer that it is a view into, in the end.
  void locate() {
    std::int32_t number = 0;
    for (const Buffer& buffer : program_.buffers) {
      Range range;
      const std::int64_t size = bytes_of(buffer.dtype, buffer.shape).count();
      if (buffer.parent) {
        // Of a view that moves: all that it covers on any rank.
        const Range& parent = ranges_[at(buffer.parent)];
        const Reach reach = reach_of(plan_, buffer);
        range = {parent.space, parent.begin + reach.begin.count(),
                 parent.begin + reach.end.count()};
        roots_.push_back(roots_[at(buffer.parent)]);
        moves_.push_back(moves_[at(buffer.parent)] || buffer.move);
      } else {
        range = {buffer.region == Region::Slot ? 2 + buffer.chunk : static_cast<int>(buffer.region),
                 buffer.offset.count(), 0};
        range.end = range.begin + size;
        roots_.push_back(BufferId{number});
        moves_.push_back(false);
      }
      ranges_.push_back(range);
      ++number;
    }
  }

  void mark_used() {
    used_.assign(ranges_.size(), false);
    transferred_.assign(ranges_.size(), false);
    for (const Segment& segment : program_.segments) {
      for (const Op& op : segment.ops) {
        for (const BufferId id : op.inputs) used_[at(id)] = true;
        for (const BufferId id : op.outputs) used_[at(id)] = true;
      }
    }
    const auto of = [&](const Instruction& instruction) {
      const auto* exchange = std::get_if<Exchange>(&instruction.body);
      if (exchange == nullptr) return;
      for (const Transfer& transfer : exchange->transfers) {
        used_[at(transfer.buffer)] = transferred_[at(transfer.buffer)] = true;
      }
    };
    for (const Sequence& sequence : program_.sequences) {
      for (const Step& step : sequence.steps) {
        if (const auto* one = std::get_if<Instruction>(&step)) of(*one);
        if (const auto* repeat = std::get_if<Repeat>(&step)) {
          std::for_each(repeat->body.begin(), repeat->body.end(), of);
        }
      }
    }
  }

  // Cuts every space at the ends of the used buffers.
  void cut() {
    std::vector<std::pair<int, std::int64_t>> ends;
    for (std::size_t b = 0; b < ranges_.size(); ++b) {
      if (!used_[b]) continue;
      ends.emplace_back(ranges_[b].space, ranges_[b].begin);
      ends.emplace_back(ranges_[b].space, ranges_[b].end);
    }
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    const auto cell = [&](int space, std::int64_t byte) {
      const auto found = std::lower_bound(ends.begin(), ends.end(), std::pair(space, byte));
      return static_cast<std::size_t>(found - ends.begin());
    };
    first_.assign(ranges_.size(), 0);
    last_.assign(ranges_.size(), 0);
    signatures_.resize(ends.size());
    examples_.resize(ends.size());
    std::vector<std::size_t> order;
    for (std::size_t b = 0; b < ranges_.size(); ++b) {
      if (!used_[b]) continue;
      first_[b] = cell(ranges_[b].space, ranges_[b].begin);
      last_[b] = cell(ranges_[b].space, ranges_[b].end);
      order.push_back(b);
    }
    // The smallest buffer names a piece best, so it comes last.
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return ranges_[a].end - ranges_[a].begin > ranges_[b].end - ranges_[b].begin;
    });
    for (const std::size_t b : order) {
      for (std::size_t c = first_[b]; c < last_[b]; ++c) {
        examples_[c] = BufferId{static_cast<std::int32_t>(b)};
      }
    }
    writers_.resize(ends.size());
    read_in_.assign(ends.size(), SegmentId{});
  }

  void walk(SegmentId segment) {
    segment_ = segment;
    touched_.clear();
    const Segment& of = program_.segments[segment];
    for (op_ = 0; op_ < of.ops.size(); ++op_) {
      const Op& op = of.ops[op_];
      if (!is_here(op)) continue;
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        if (!is_ignored(op, i)) read(op.inputs[i]);
      }
      for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        // A view that moves leaves the rest of what it covers as it was.
        const bool reads = reads_output(op, i) || moves_[at(op.outputs[i])];
        if (reads && !is_untouched(op, i)) read(op.outputs[i]);
      }
      check_aliases(op);
      for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        if (!is_untouched(op, i)) write(op.outputs[i]);
      }
    }
    const auto accessor = static_cast<std::uint32_t>(segment.index);
    for (const std::size_t cell : touched_) {
      const std::uint32_t reads = read_in_[cell] == segment ? 1 : 0;
      const std::uint32_t writes = writers_[cell].segment == segment ? 2 : 0;
      signatures_[cell].push_back(accessor * 4 + reads + writes);
    }
  }

  // Whether all operands are inside their parents on every rank.
  bool is_here(const Op& op) {
    for (const auto* operands : {&op.inputs, &op.outputs}) {
      for (const BufferId id : *operands) {
        if (!is_partly_here(plan_, program_, program_.buffers[id])) continue;
        fail(id, named(name(id)) + " leaves " + named(name(program_.buffers[id].parent)) +
                     " on some ranks, so it is only there to be annotated");
        return false;
      }
    }
    return true;
  }

  void touch(std::size_t cell) {
    if (read_in_[cell] != segment_ && writers_[cell].segment != segment_) touched_.push_back(cell);
  }

  void read(BufferId id) {
    for (std::size_t cell = first_[at(id)]; cell < last_[at(id)]; ++cell) {
      const Writer& writer = writers_[cell];
      if (writer.segment == segment_) {
        if (writer.root == roots_[at(id)]) continue;
        fail(id, "reads " + named(name(id)) + ", but op " + std::to_string(writer.op + 1) +
                     " has put " + named(name(writer.root)) + " in its place");
        return;
      }
      if (program_.buffers[id].region == Region::Scratch) {
        fail(id, "reads scratch buffer " + named(name(id)) + " before anything wrote it");
        return;
      }
      touch(cell);
      read_in_[cell] = segment_;
    }
  }

  void write(BufferId id) {
    for (std::size_t cell = first_[at(id)]; cell < last_[at(id)]; ++cell) {
      touch(cell);
      writers_[cell] = {segment_, op_, roots_[at(id)]};
    }
  }

  void check_aliases(const Op& op) {
    for (std::size_t o = 0; o < op.outputs.size(); ++o) {
      const Range& out = ranges_[at(op.outputs[o])];
      for (std::size_t other = 0; other < o; ++other) {
        if (!out.overlaps(ranges_[at(op.outputs[other])])) continue;
        fail(op.outputs[o], "outputs " + named(name(op.outputs[other])) + " and " +
                                named(name(op.outputs[o])) + " share bytes");
      }
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const Range& in = ranges_[at(op.inputs[i])];
        if (is_ignored(op, i) || !out.overlaps(in)) continue;
        const bool is_same = op.inputs[i] == op.outputs[o] ||
                             (in == out && !moves_[at(op.inputs[i])] && !moves_[at(op.outputs[o])]);
        if (is_same && may_be_in_place(op.kind)) continue;
        if (is_own_part(op)) continue;
        fail(op.outputs[o], "output " + named(name(op.outputs[o])) + " lies on input " +
                                named(name(op.inputs[i])));
      }
    }
  }

  // Whether the small operand of a reduce_scatter or all_gather is, on every rank that runs this
  // program, that rank's part of the large one.
  bool is_own_part(const Op& op) const {
    if (!is_collective(op.kind) || !op.group || !op.group->only.empty()) return false;
    const Range& in = ranges_[at(op.inputs.front())];
    const Range& out = ranges_[at(op.outputs.front())];
    const bool is_gather = op.kind == OpKind::AllGather;
    const BufferId whole_id = is_gather ? op.outputs.front() : op.inputs.front();
    const BufferId part_id = is_gather ? op.inputs.front() : op.outputs.front();
    if (moves_[at(whole_id)]) return false;
    const Range& whole = is_gather ? out : in;
    const Range& part = is_gather ? in : out;
    const Buffer& view = program_.buffers[part_id];
    if (moves_[at(part_id)]) {
      return view.move && !moves_[at(view.parent)] && view.move->mesh == op.group->mesh &&
             view.move->axes == op.group->along &&
             view.move->stride == bytes_of(view.dtype, view.shape).count() &&
             part.begin == whole.begin;
    }
    const Mesh& mesh = plan_.meshes[static_cast<std::size_t>(op.group->mesh)];
    for (int rank = 0; rank < world_size(plan_); ++rank) {
      if (program_of(plan_, rank) != number_) continue;
      const std::int64_t position = position_along(mesh, rank, op.group->along);
      if (part.begin - whole.begin != position * (part.end - part.begin)) return false;
    }
    return true;
  }

  void fail(BufferId id, const std::string& reason) {
    const std::string where =
        "program " + named(program_.name) + ", segment " + std::to_string(segment_.index);
    if (!report_.is_new(where + ", buffer " + std::to_string(id.index))) return;
    report_.add("program " + named(program_.name) + ", " + report_.op(number_, segment_, op_) +
                ": " + reason);
  }

  AccessTable group() {
    AccessTable table;
    table.of_segment.resize(program_.segments.size());
    table.of_transfer.resize(program_.buffers.size());
    std::map<std::pair<int, std::vector<std::uint32_t>>, std::int32_t> atoms;
    for (std::size_t cell = 0; cell < signatures_.size(); ++cell) {
      if (signatures_[cell].empty()) continue;
      const Range& range = ranges_[at(examples_[cell])];
      const Buffer& example = program_.buffers[examples_[cell]];
      const auto next = static_cast<std::int32_t>(table.atoms.size());
      const auto [found, is_new] =
          atoms.try_emplace(std::pair(range.space, std::move(signatures_[cell])), next);
      if (!is_new) continue;
      table.atoms.push_back({example.region, example.chunk, examples_[cell]});
      for (const std::uint32_t entry : found->first.second) {
        const std::size_t accessor = entry / 4;
        if (accessor < table.of_segment.size()) {
          table.of_segment[accessor].push_back({next, (entry & 1U) != 0, (entry & 2U) != 0});
        } else {
          table.of_transfer[accessor - table.of_segment.size()].push_back(next);
        }
      }
    }
    return table;
  }

  struct Writer {
    SegmentId segment;
    std::size_t op = 0;
    BufferId root;
  };

  const Plan& plan_;
  int number_;
  const Program& program_;
  Report& report_;
  std::vector<Range> ranges_;    // by buffer
  std::vector<BufferId> roots_;  // by buffer
  std::vector<bool> moves_;      // by buffer: whether it lies elsewhere on other ranks
  std::vector<bool> used_, transferred_;
  std::vector<std::size_t> first_, last_;               // cells of each buffer
  std::vector<std::vector<std::uint32_t>> signatures_;  // by cell: accessor * 4 + flags
  std::vector<BufferId> examples_;
  std::vector<Writer> writers_;     // by cell
  std::vector<SegmentId> read_in_;  // by cell: the segment that last read it from outside
  std::vector<std::size_t> touched_;
  SegmentId segment_;
  std::size_t op_ = 0;
};

}  // namespace

AccessTable find_accesses(const Plan& plan, int program, Report& report) {
  return Accesses(plan, program, report).find();
}

}  // namespace mega::verifying
