// What holds of every kernel: same bits alone or beside others, on one thread or two; no heap.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

#include "tests/kernels/kernel_call.h"

namespace {

// Counts what this thread takes from the heap by new; the BLAS keeps a pool of its own.
thread_local std::int64_t allocations = 0;

}  // namespace

// Not inlined: GCC 12 would see free() of what operator new returned and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) std::abort();
  return memory;
}
// The sanitizer has one of its own, which doesn't pair with the delete below.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return operator new(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace mega::kernels {
namespace {

// Rows lie one after the other, as many for each expert.
void fill_routing(KernelCall& call, const OpInfo& op) {
  const std::vector<std::string> inputs = parse_index(op.index)->inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (input_dtype(op.kind, i) != DType::Int32) continue;
    std::int32_t place = 0;
    for (std::int32_t& value : call.in_ints(i)) {
      if (inputs[i] == "yx") value = 70;  // 2 sources, 3 experts: 420 rows
      if (inputs[i] == "sbk" && op.index.find('h') != std::string_view::npos) value = place++;
    }
  }
}

// Every op with a kernel, by its canonical index string and odd sizes.
std::unique_ptr<KernelCall> call_of(const OpInfo& op) {
  // Of what is packed, g is in x parts of y.
  const bool is_packed = op.kind == OpKind::Pack || op.kind == OpKind::Unpack;
  auto call = std::make_unique<KernelCall>(op.kind, std::string(op.index),
                                           std::string(is_packed ? "g6 " : "g2 ") +
                                               "s70 b3 h33 r3 d16 t70 f40 n9000 v45 p80 "
                                               "e9 k2 a420 z1 u840 c420 y2 x3 m5 o10 i6");
  call->call.attributes = {.epsilon = 1e-5,
                           .scale = 0.25,
                           .theta = 10000,
                           .value = 0.5,
                           .beta1 = 0.9,
                           .beta2 = 0.95,
                           .clip = 1,
                           .limit = 40,
                           .causal = true,
                           .decay = true};
  if (op.kind == OpKind::Rope) call->call.attributes.limit = 0;
  if (op.kind == OpKind::TokenLoss) {
    for (float& sum : call->in(1)) sum = 2;  // it takes the logarithm
  }
  fill_routing(*call, op);
  call->call.scalars = {0.01, 0.1, 3, 1234, 0};
  return call;
}

// Inputs of the global batch and the box, which live beside a call.
struct Surroundings {
  std::vector<std::uint8_t> text = std::vector<std::uint8_t>(100, 7);
  std::vector<std::int64_t> windows = {0, 5, 9};
  std::vector<std::int64_t> zero = {0};
  void attach(KernelCall& call) {
    call.call.batch = {text.data(), windows};
    call.call.box = {call.call.outputs[0].shape, zero, 99};
  }
};

std::vector<float> floats_of(KernelCall& call, OpKind kind, std::size_t outputs) {
  std::vector<float> all;
  for (std::size_t i = 0; i < outputs; ++i) {
    if (output_dtype(kind, i) == DType::Fp64) {
      all.push_back(static_cast<float>(call.out_scalar(i)));
    } else if (output_dtype(kind, i) == DType::Fp32) {
      all.insert(all.end(), call.out(i).begin(), call.out(i).end());
    }
  }
  return all;
}

std::vector<float> result_of(const OpInfo& op, int threads) {
  Surroundings surroundings;
  const auto call = call_of(op);
  surroundings.attach(*call);
  const std::size_t outputs = parse_index(op.index)->outputs.size();
  if (op.kind == OpKind::AdamW || op.kind == OpKind::Sgd || op.kind == OpKind::ShiftBias) {
    for (std::size_t i = 0; i < outputs; ++i) {
      for (float& x : call->out(i)) x = 0.25F;
    }
  }
  call->stream.threads = threads;
  call->run();
  return floats_of(*call, op.kind, outputs);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

TEST(Kernels, WriteEveryElement) {
  for (const OpInfo& op : all_ops()) {
    if (is_collective(op.kind)) continue;
    for (const float x : result_of(op, 1)) ASSERT_FALSE(std::isnan(x)) << op.name;
  }
}

// But for the BLAS, which rounds at the edges of its parts: its threads are in the plan.
TEST(Kernels, GiveTheSameBitsOnTwoThreads) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "GCC's OpenMP library synchronizes where the thread sanitizer can't see it";
#endif
  for (const OpInfo& op : all_ops()) {
    if (is_collective(op.kind)) continue;
    if (op.kind == OpKind::MatMul || op.kind == OpKind::GroupedMatMul) continue;
    EXPECT_TRUE(same_bits(result_of(op, 1), result_of(op, 2))) << op.name;
  }
}

TEST(Kernels, GiveTheSameBitsBesideOtherRanks) {
  constexpr int kRanks = 4;
  constexpr int kTurns = 4;
  for (const OpKind kind : {OpKind::MatMul, OpKind::Attention, OpKind::AttentionBackward}) {
    const OpInfo& op = info(kind);
    const std::vector<float> alone = result_of(op, 1);
    std::atomic<int> wrong = 0;
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&] {
        for (int turn = 0; turn < kTurns; ++turn) {
          if (!same_bits(result_of(op, 1), alone)) ++wrong;
        }
      });
    }
    for (std::thread& rank : ranks) rank.join();
    EXPECT_EQ(wrong, 0) << op.name;
  }
}

TEST(Kernels, TakeNothingFromTheHeap) {
  for (const OpInfo& op : all_ops()) {
    if (is_collective(op.kind)) continue;
    Surroundings surroundings;
    const auto call = call_of(op);
    surroundings.attach(*call);
    dispatch(call->stream, call->call);
    const std::int64_t before = allocations;
    dispatch(call->stream, call->call);
    EXPECT_EQ(allocations, before) << op.name;
  }
}

}  // namespace
}  // namespace mega::kernels
