// The plan: everything a rank must do, and nothing about why.
//
// This is the whole contract between megaplan and megarun: plain data with value semantics, no
// pointers, no reference to the graph it came from. It is packed (every buffer has its offset),
// ordered (every instruction its queue and waits) and verified (ir/plan_verify.h) before it runs.
//
//   Plan ── meshes, queues, programs, which rank runs which program
//    └ Program ── buffers in one arena │ segments: straight-line op lists │ sequences
//       └ Sequence "train" ── run f0 ... │ exchange ... │ repeat { ... }
//
// The arena of a program:
//   | persistent | scratch | slots of chunk 0 | slots of chunk 1 | ...
//   persistent  weights, gradients, optimizer state, scalars
//   scratch     lives inside one run of a segment; segments reuse it
//   slots       what a chunk's forward leaves for its backward, `slot_count` copies of one layout
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/base/ids.h"
#include "ir/base/units.h"
#include "ir/mesh.h"
#include "ir/op.h"
#include "ir/types.h"

namespace mega {

using BufferId = Id<struct BufferTag>;
using SegmentId = Id<struct SegmentTag>;
using QueueId = Id<struct QueueTag>;

enum class Region : std::uint8_t { Persistent, Scratch, Slot };

// A working copy of a parameter is filled by init and from the parts that ranks hold: what is
// kept between steps is another buffer, so nothing reads it from outside.
enum class Role : std::uint8_t { Parameter, Gradient, Activation, WorkingCopy };

// Where a buffer's elements sit in a tensor of the whole model. Dimension i is split evenly over
// `axes[i]` of meshes[mesh]; the local size times the extent is the padded size, `global_shape`
// the true one. Axes in no dimension hold copies.
struct Shard {
  Role role = Role::Parameter;
  std::string name;  // global name: Hugging Face's where the family has one
  Shape global_shape;
  int mesh = 0;
  std::vector<AxisSet> axes;  // one per dimension
  bool operator==(const Shard&) const = default;
};

// How far a view lies beyond its offset: position_along(axes) * stride bytes, so that it is another
// part of its parent on each rank. A view that leaves its parent on some rank is there to be
// annotated, not to be worked on: what of it lies inside is what the rank holds of the tensor.
//   the own part of a whole    +stride, stride the part's size
//   a tensor in a part's terms -stride: the parent is one part of a whole that holds the tensor
struct Move {
  int mesh = 0;
  AxisSet axes;
  std::int64_t stride = 0;
  bool operator==(const Move&) const = default;
};

struct Buffer {
  std::string name;  // unique in its program; any printable text
  DType dtype = DType::Fp32;
  Shape shape;  // local
  Region region = Region::Persistent;
  int chunk = -1;   // for Region::Slot: index into Program::chunks
  Bytes offset;     // within the region (slot: within one slot); of a view: within its parent
  BufferId parent;  // set for a view into another buffer of the same program
  std::optional<Move> move;  // of a view
  std::optional<Shard> shard;
  bool operator==(const Buffer&) const = default;
};

// A term of an op's origin: position_along(axes) * stride.
struct OriginTerm {
  AxisSet axes;
  std::int64_t stride = 0;
  bool operator==(const OriginTerm&) const = default;
};

struct Op {
  OpKind kind = OpKind::Add;
  std::string index;
  std::vector<BufferId> inputs;
  std::vector<BufferId> outputs;
  Attributes attributes;
  int mesh = 0;                    // of origin and owner
  std::vector<OriginTerm> origin;  // where this rank's part starts: first vocabulary row,
                                   // position or sample; the sum of the terms
  AxisSet owner;  // only ranks at coordinate 0 along these axes contribute; others add zero
  std::optional<Group> group;  // collectives only
  bool operator==(const Op&) const = default;
};

// A straight line of ops, run at once on one queue. Collectives among them block that queue.
struct Segment {
  std::string name;
  int chunk = -1;  // whose slot it works on; -1 for none
  std::vector<Op> ops;
  std::int64_t predicted_ns = 0;
  bool operator==(const Segment&) const = default;
};

// base + step * i inside `repeat ... as i`; step is 0 outside.
struct Affine {
  std::int64_t base = 0;
  std::int64_t step = 0;
  std::int64_t at(std::int64_t i) const { return base + step * i; }
  bool operator==(const Affine&) const = default;
};

// Runs a segment on micro-batch `micro_batch` in slot `slot` (modulo the chunk's slot_count).
// A segment of no chunk has neither.
struct Run {
  SegmentId segment;
  std::optional<Affine> micro_batch;
  std::optional<Affine> slot;
  bool operator==(const Run&) const = default;
};

// One send or receive of a whole buffer to or from the rank `hop` places along the axis (modulo
// its size). Between two ranks and on one queue, sends match receives in program order.
struct Transfer {
  bool is_send = false;
  BufferId buffer;  // of region Slot, or Persistent (then without slot)
  std::optional<Affine> micro_batch;
  std::optional<Affine> slot;
  int hop = 1;
  bool operator==(const Transfer&) const = default;
};

// Transfers that progress together; done when all are. A lone send blocks until received.
struct Exchange {
  int mesh = 0;
  int axis = 0;
  std::vector<Transfer> transfers;
  std::int64_t predicted_ns = 0;
  bool operator==(const Exchange&) const = default;
};

// Wait for all instructions issued to `queue` before this one in program order, save the latest
// `behind` of them. Relative, so that it means the same in every turn of a loop.
struct Wait {
  QueueId queue;
  int behind = 0;
  bool operator==(const Wait&) const = default;
};

// Instructions of one queue run in program order, one at a time; queues run beside each other
// and only waits order them.
struct Instruction {
  QueueId queue;
  std::vector<Wait> waits;
  std::variant<Run, Exchange> body;
  bool operator==(const Instruction&) const = default;
};

struct Repeat {
  std::int64_t count = 0;
  std::vector<Instruction> body;
  bool operator==(const Repeat&) const = default;
};

using Step = std::variant<Instruction, Repeat>;

// "init" sets up the persistent buffers once; "train" is one optimizer step.
struct Sequence {
  std::string name;
  std::vector<Step> steps;
  bool operator==(const Sequence&) const = default;
};

// A virtual pipeline stage on a rank: its slots.
struct Chunk {
  std::string name;
  Bytes slot_bytes;  // a multiple of kBufferAlignmentBytes
  int slot_count = 0;
  bool operator==(const Chunk&) const = default;
};

struct Program {
  std::string name;
  Bytes persistent;  // sizes of the regions; multiples of kBufferAlignmentBytes
  Bytes scratch;
  std::vector<Chunk> chunks;
  Table<BufferId, Buffer> buffers;
  Table<SegmentId, Segment> segments;
  std::vector<Sequence> sequences;
  bool operator==(const Program&) const = default;
};

Bytes arena_bytes(const Program& program);  // persistent + scratch + all slots
const Sequence* find_sequence(const Program& program, const std::string& name);
std::optional<BufferId> find_buffer(const Program& program, const std::string& name);

// Optimizer schedule: everything from which the session derives a step's scalars.
struct LearningRateSchedule {
  std::string kind = "constant";  // constant, linear, cosine, inverse_sqrt
  double learning_rate = 0;       // peak
  double min_learning_rate = 0;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;  // 0: none given
  bool operator==(const LearningRateSchedule&) const = default;
};

// Reads like a label: the runtime prints these entries and never looks into them.
struct HeaderEntry {
  std::string key;    // "layout.tp", "time.compute_s"
  std::string value;  // as text; numbers in shortest round-trip form
  bool operator==(const HeaderEntry&) const = default;
};

struct Header {
  std::string job;
  std::string fingerprint;  // of the input files, hexadecimal
  std::vector<HeaderEntry> entries;
  std::int64_t predicted_step_ns = 0;
  double model_flops_per_step = 0;  // model FLOPs, causal half, logits included; whole world
  double peak_flops_per_rank = 0;   // FLOP/s at the compute precision; 0 when unknown
  std::string precision = "fp32";
  std::int64_t seed = 0;
  std::int64_t global_batch = 0;     // sequences
  std::int64_t sequence_length = 0;  // tokens
  std::int64_t vocab = 0;            // unpadded
  int threads_per_rank = 1;          // of the CPU's BLAS
  double weight_decay = 0;
  LearningRateSchedule schedule;
  bool operator==(const Header&) const = default;
};

struct Plan {
  Header header;
  std::vector<Mesh> meshes;         // over the same ranks
  std::vector<std::string> queues;  // labels; the first is where segments of ops run
  std::vector<Program> programs;
  // Rank r runs programs[assignment[position of r along `by` of meshes[0]]].
  AxisSet by;
  std::vector<int> assignment;
  bool operator==(const Plan&) const = default;
};

int world_size(const Plan& plan);
int program_of(const Plan& plan, int rank);
// Where a buffer of this rank's program starts in its arena; `slot` is ignored outside
// Region::Slot.
Bytes arena_offset(const Plan& plan, int rank, BufferId buffer, std::int64_t slot);
// The bytes of a view's parent that it covers on any rank.
struct Reach {
  Bytes begin, end;
};
Reach reach_of(const Plan& plan, const Buffer& buffer);
// Whether a view that moves leaves its parent on some rank.
bool is_partly_here(const Plan& plan, const Program& program, const Buffer& buffer);
// Bytes that a view's move adds to its offset on a rank; 0 where it has none.
Bytes moved(const Plan& plan, int rank, const Buffer& buffer);

}  // namespace mega
