// A small complete plan, built by hand: a bigram model (embedding, head, cross-entropy, SGD) on
// `replicas` copies times one or two stages. It uses what a real plan uses: slots, a second queue,
// waits, a loop, exchanges, collectives along both axes, flat buckets with views.
//
//   stage 0   f0: tokens -> x ──send x──►        ──receive dx──► b0: table gradient
//   stage 1                     receive x ► f1: loss, head gradient, dx ► send dx
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/plan.h"

namespace mega::testing {

struct ToyOptions {
  int replicas = 1;
  int stages = 1;                  // 1 or 2
  std::int64_t micro_batches = 3;  // per replica and step
  std::int64_t micro_batch = 2;
  double learning_rate = 8;
};

class ToyPlan {
 public:
  explicit ToyPlan(const ToyOptions& options) : options_(options) {}

  Plan plan() {
    Plan plan;
    Header& header = plan.header;
    header.job = "toy";
    header.entries = {{"layout.replicas", std::to_string(options_.replicas)},
                      {"layout.stages", std::to_string(options_.stages)}};
    header.predicted_step_ns = 1'000'000;
    header.seed = 7;
    header.sequence_length = kSequence;
    header.global_batch = options_.replicas * options_.micro_batches * options_.micro_batch;
    header.vocab = kVocab;
    header.schedule.learning_rate = options_.learning_rate;
    plan.meshes = {{"ranks", {{"stage", options_.stages}, {"copy", options_.replicas}}}};
    plan.queues = {"compute", "transfer"};
    plan.by = AxisSet::of(0);
    for (int stage = 0; stage < options_.stages; ++stage) {
      plan.programs.push_back(options_.stages == 1 ? whole() : stage == 0 ? first() : second());
      plan.assignment.push_back(stage);
    }
    return plan;
  }

  static constexpr std::int64_t kSequence = 6, kHidden = 8, kVocab = 256;

 private:
  static constexpr QueueId kCompute{0}, kTransfer{1};

  std::int64_t count() const { return options_.micro_batch; }
  Shape tokens_shape() const { return {kSequence, count()}; }
  Shape x_shape() const { return {kSequence, count(), kHidden}; }
  static AxisSet none() { return {}; }
  static Group copies() { return {0, AxisSet::of(1), {}}; }
  static Group everyone() { return {0, AxisSet::of(0) | AxisSet::of(1), {}}; }
  static Group stages() { return {0, AxisSet::of(0), {}}; }

  // ---- one program at a time ----
  void begin(const std::string& name) {
    program_ = Program{};
    program_.name = name;
    slot_bytes_ = Bytes(0);
  }

  BufferId add(const std::string& name, DType dtype, const Shape& shape, Region region) {
    Bytes& end = region == Region::Persistent ? program_.persistent
                 : region == Region::Scratch  ? program_.scratch
                                              : slot_bytes_;
    Buffer buffer{name, dtype, shape, region, region == Region::Slot ? 0 : -1, end, {}, {}};
    end += Bytes(round_up(bytes_of(dtype, shape).count(), kBufferAlignmentBytes));
    return program_.buffers.add(std::move(buffer));
  }
  BufferId scratch(const std::string& name, DType dtype, const Shape& shape) {
    return add(name, dtype, shape, Region::Scratch);
  }
  BufferId part_of(BufferId parent, const std::string& name, DType dtype, std::int64_t offset,
                   const Shape& shape) {
    return program_.buffers.add(
        {name, dtype, shape, Region::Persistent, -1, Bytes(offset), parent, {}});
  }
  BufferId view(const std::string& name, BufferId parent, std::int64_t first, const Shape& shape,
                Role role, const std::string& global_name) {
    Buffer buffer{name, DType::Fp32, shape, Region::Persistent, -1, Bytes(first * 4), parent, {}};
    buffer.shard = Shard{role, global_name, shape, 0, std::vector<AxisSet>(shape.size(), none())};
    return program_.buffers.add(std::move(buffer));
  }

  Op op(OpKind kind, const std::string& index, std::vector<BufferId> inputs,
        std::vector<BufferId> outputs, Attributes attributes = {}) const {
    return {kind, index, std::move(inputs), std::move(outputs), attributes, 0, {}, {}, {}};
  }
  Op all_reduce(BufferId buffer, const std::string& index, const Group& group) const {
    Attributes attributes;
    attributes.combine = Combine::Sum;
    Op result = op(OpKind::AllReduce, index, {buffer}, {buffer}, attributes);
    result.group = group;
    return result;
  }
  static Attributes accumulate() {
    Attributes attributes;
    attributes.accumulate = 1;
    return attributes;
  }
  static Attributes value(double number) {
    Attributes attributes;
    attributes.value = number;
    return attributes;
  }
  static Attributes limit(std::int64_t number) {
    Attributes attributes;
    attributes.limit = number;
    return attributes;
  }
  Op input(OpKind kind, BufferId out) const {
    Attributes attributes;
    attributes.limit = options_.micro_batches;
    attributes.stride = options_.replicas * count();
    Op result = op(kind, "->sb", {}, {out}, attributes);
    result.origin = {{AxisSet::of(1), count()}};
    return result;
  }
  SegmentId segment(const std::string& name, std::vector<Op> ops, int chunk = -1) {
    return program_.segments.add({name, chunk, std::move(ops), 1000});
  }

  // Weights, gradients and scalars of a program that owns `tensors` of [vocab, hidden] each.
  void persistent(const std::vector<std::string>& tensors) {
    const auto parts = static_cast<std::int64_t>(tensors.size());
    const Shape flat = {parts * kVocab * kHidden};
    weights_ = add("weights", DType::Fp32, flat, Region::Persistent);
    gradients_ = add("gradients", DType::Fp32, flat, Region::Persistent);
    velocity_ = add("velocity", DType::Fp32, flat, Region::Persistent);
    // Two fp64 scalars, set to zero through the bits: fill writes fp32.
    const BufferId metrics = add("metrics", DType::Fp64, {2}, Region::Persistent);
    metrics_bits_ = part_of(metrics, "metrics bits", DType::Fp32, 0, {4});
    loss_ = part_of(metrics, "loss", DType::Fp64, 0, {});
    square_sum_ = part_of(metrics, "gradient_square_sum", DType::Fp64, 8, {});
    count_ = add("count", DType::Fp64, {}, Region::Persistent);
    std::vector<Op> init = {op(OpKind::Fill, "->n", {}, {velocity_}, value(0))};
    for (std::int64_t i = 0; i < parts; ++i) {
      const std::string& name = tensors[static_cast<std::size_t>(i)];
      const Shape shape = {kVocab, kHidden};
      const std::int64_t start = i * kVocab * kHidden;
      weight_[name] = view(name, weights_, start, shape, Role::Parameter, name + ".weight");
      gradient_[name] =
          view("d " + name, gradients_, start, shape, Role::Gradient, name + ".weight");
      init.push_back(op(OpKind::InitNormal, "->vh", {}, {weight_[name]}, value(0.5)));
    }
    init_ = segment("init", std::move(init));
  }
  SegmentId prologue() {
    std::vector<Op> ops = {op(OpKind::Fill, "->n", {}, {gradients_}, value(0)),
                           op(OpKind::Fill, "->n", {}, {metrics_bits_}, value(0)),
                           op(OpKind::CountTokens, "->", {}, {count_},
                              limit(options_.micro_batches * count() * kSequence)),
                           all_reduce(count_, "->", copies())};
    return segment("prologue", std::move(ops));
  }
  SegmentId epilogue() {
    std::vector<Op> ops = {
        all_reduce(gradients_, "n->n", copies()), all_reduce(loss_, "->", everyone()),
        op(OpKind::SquareSum, "n->", {gradients_}, {square_sum_}, accumulate()),
        all_reduce(square_sum_, "->", stages()),
        op(OpKind::Sgd, "n,->n,n", {gradients_, square_sum_}, {weights_, velocity_})};
    return segment("update", std::move(ops));
  }
  // From x to the loss and back to dx.
  std::vector<Op> head(BufferId x, BufferId dx) {
    const Shape logits_shape = {kSequence, count(), kVocab};
    const BufferId labels = scratch("labels", DType::Int32, tokens_shape());
    const BufferId logits = scratch("logits", DType::Fp32, logits_shape);
    const BufferId dlogits = scratch("dlogits", DType::Fp32, logits_shape);
    const BufferId max = scratch("max", DType::Fp32, tokens_shape());
    const BufferId sum = scratch("sum", DType::Fp32, tokens_shape());
    const BufferId target = scratch("target", DType::Fp32, tokens_shape());
    Attributes loss = accumulate();
    return {
        input(OpKind::InputLabels, labels),
        op(OpKind::MatMul, "sbh,vh->sbv", {x, weight_["head"]}, {logits}),
        op(OpKind::VocabMax, "sbv->sb", {logits}, {max}, limit(kVocab)),
        op(OpKind::VocabSumExp, "sbv,sb,sb->sb,sb", {logits, labels, max}, {sum, target},
           limit(kVocab)),
        op(OpKind::TokenLoss, "sb,sb,sb,sb,->", {max, sum, target, labels, count_}, {loss_}, loss),
        op(OpKind::CrossEntropyBackward, "sbv,sb,sb,sb,->sbv", {logits, labels, max, sum, count_},
           {dlogits}, limit(kVocab)),
        op(OpKind::MatMul, "sbv,sbh->vh", {dlogits, x}, {gradient_["head"]}, accumulate()),
        op(OpKind::MatMul, "sbv,vh->sbh", {dlogits, weight_["head"]}, {dx})};
  }

  static Instruction run(SegmentId id, std::vector<Wait> waits = {}) {
    return {kCompute, std::move(waits), Run{id, {}, {}}};
  }
  static Instruction run(SegmentId id, Affine micro_batch, std::vector<Wait> waits, Affine slot) {
    return {kCompute, std::move(waits), Run{id, micro_batch, slot}};
  }
  static Instruction move(bool is_send, BufferId buffer, int hop, Affine micro_batch,
                          std::vector<Wait> waits = {}) {
    return {kTransfer, std::move(waits),
            Exchange{0, 0, {Transfer{is_send, buffer, micro_batch, micro_batch, hop}}, 100}};
  }

  Program finish(std::vector<Step> train, int slots) {
    program_.chunks.push_back({"chunk", slot_bytes_, slots});
    program_.sequences = {{"init", {run(init_)}}, {"train", std::move(train)}};
    return std::move(program_);
  }

  // Two slots, so that the loop's transfers overlap the compute of the turn before.
  Program first() {
    begin("first");
    persistent({"table"});
    const BufferId tokens = add("tokens", DType::Int32, tokens_shape(), Region::Slot);
    const BufferId x = add("x", DType::Fp32, x_shape(), Region::Slot);
    const BufferId dx = add("dx", DType::Fp32, x_shape(), Region::Slot);
    const SegmentId f =
        segment("f0",
                {input(OpKind::InputTokens, tokens),
                 op(OpKind::Embedding, "sb,vh->sbh", {tokens, weight_["table"]}, {x})},
                0);
    const SegmentId b = segment("b0",
                                {op(OpKind::EmbeddingBackward, "sb,sbh->vh", {tokens, dx},
                                    {gradient_["table"]}, accumulate())},
                                0);
    const Affine i{0, 1}, next{1, 1}, last{options_.micro_batches - 1, 0};
    std::vector<Step> train = {run(prologue()), run(f, {0, 0}, {}, Affine{0, 0}),
                               move(true, x, 1, {0, 0}, {{kCompute, 0}})};
    // Sent and received together: sends are unbuffered, and the other stage first sends, too.
    Instruction both = move(true, x, 1, next, {{kCompute, 0}});
    std::get<Exchange>(both.body).transfers.push_back({false, dx, i, i, 1});
    Repeat repeat{options_.micro_batches - 1,
                  {run(f, next, {}, next), both, run(b, i, {{kTransfer, 0}}, i)}};
    if (repeat.count > 0) train.emplace_back(std::move(repeat));
    train.emplace_back(move(false, dx, 1, last));
    train.emplace_back(run(b, last, {{kTransfer, 0}}, last));
    train.emplace_back(run(epilogue()));
    return finish(std::move(train), 2);
  }

  Program second() {
    begin("second");
    persistent({"head"});
    const BufferId x = add("x", DType::Fp32, x_shape(), Region::Slot);
    const BufferId dx = add("dx", DType::Fp32, x_shape(), Region::Slot);
    const SegmentId f = segment("f1", head(x, dx), 0);
    const Affine i{0, 1};
    std::vector<Step> train = {run(prologue())};
    Repeat repeat{options_.micro_batches, {}};
    repeat.body = {move(false, x, -1, i), run(f, i, {{kTransfer, 0}}, i),
                   move(true, dx, -1, i, {{kCompute, 0}})};
    train.emplace_back(std::move(repeat));
    train.emplace_back(run(epilogue()));
    return finish(std::move(train), 2);
  }

  Program whole() {
    begin("whole");
    persistent({"table", "head"});
    const BufferId tokens = add("tokens", DType::Int32, tokens_shape(), Region::Slot);
    const BufferId x = add("x", DType::Fp32, x_shape(), Region::Slot);
    const BufferId dx = scratch("dx", DType::Fp32, x_shape());
    std::vector<Op> ops = {input(OpKind::InputTokens, tokens),
                           op(OpKind::Embedding, "sb,vh->sbh", {tokens, weight_["table"]}, {x})};
    for (Op& next : head(x, dx)) ops.push_back(std::move(next));
    ops.push_back(op(OpKind::EmbeddingBackward, "sb,sbh->vh", {tokens, dx}, {gradient_["table"]},
                     accumulate()));
    const SegmentId f = segment("f", std::move(ops), 0);
    std::vector<Step> train = {run(prologue())};
    train.emplace_back(Repeat{options_.micro_batches, {run(f, Affine{0, 1}, {}, Affine{0, 0})}});
    train.emplace_back(run(epilogue()));
    return finish(std::move(train), 1);
  }

  ToyOptions options_;
  Program program_;
  Bytes slot_bytes_;
  BufferId weights_, gradients_, velocity_, loss_, square_sum_, count_, metrics_bits_;
  std::map<std::string, BufferId> weight_, gradient_;
  SegmentId init_;
};

}  // namespace mega::testing
