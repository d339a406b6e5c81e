#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "ir/base/check.h"
#include "kernels/call.h"
#include "kernels/dispatch.h"
#include "tools/megabench_profile.h"

namespace mega::bench {
namespace {

constexpr std::align_val_t kAlignment{static_cast<std::size_t>(kBufferAlignmentBytes)};

struct Free {
  void operator()(float* data) const { ::operator delete[](data, kAlignment); }
};

struct Tensor {
  Shape shape;
  std::unique_ptr<float[], Free> data;
};

// Values of changing sign and size; denormals would time something else.
Tensor make_tensor(Shape shape) {
  const auto count = static_cast<std::size_t>(element_count(shape));
  Tensor tensor{std::move(shape), nullptr};
  tensor.data.reset(static_cast<float*>(::operator new[](count * sizeof(float), kAlignment)));
  for (std::size_t i = 0; i < count; ++i)
    tensor.data[i] = static_cast<float>(i * 7919 % 211) / 105.5F - 1.0F;
  return tensor;
}

// One op with its operands, ready to run again and again on one rank.
class Kernel {
 public:
  Kernel(OpKind kind, const std::string& index, const std::vector<Shape>& inputs,
         const std::vector<Shape>& outputs, const Attributes& attributes = {})
      : index_(*parse_index(index)) {
    const ExtentsOrMessage extents = extents_of(index_, inputs, outputs);
    MEGA_CHECK(extents.extents, extents.message);
    call_.kind = kind;
    call_.extents = *extents.extents;
    call_.attributes = attributes;
    tensors_.reserve(inputs.size() + outputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) call_.inputs[i] = operand(inputs[i]);
    for (std::size_t i = 0; i < outputs.size(); ++i) call_.outputs[i] = operand(outputs[i]);
  }

  void operator()() {
    call_.index = &index_;
    kernels::dispatch(stream_, call_);
  }
  double flops_per_call() const {
    return flops(call_.kind, index_, call_.extents, call_.attributes).count();
  }
  double bytes_per_call() const {
    double bytes = 0;
    for (const Tensor& tensor : tensors_)
      bytes += static_cast<double>(bytes_of(DType::Fp32, tensor.shape).count());
    return bytes;
  }

 private:
  kernels::Operand operand(const Shape& shape) {
    tensors_.push_back(make_tensor(shape));
    const Tensor& tensor = tensors_.back();
    return {tensor.data.get(), DType::Fp32, tensor.shape};
  }

  Index index_;
  kernels::CpuStream stream_;  // one thread per rank
  kernels::Call call_;
  std::vector<Tensor> tensors_;
};

using MakeKernel = std::function<std::unique_ptr<Kernel>()>;

Seconds time_of(const Options& options, int repetitions, int calls, const MakeKernel& make) {
  const Seconds time = median_time(options.ranks, repetitions, [&](int) {
    std::shared_ptr<Kernel> kernel = make();
    return [kernel, calls] {
      for (int i = 0; i < calls; ++i) (*kernel)();
    };
  });
  return time / static_cast<double>(calls);
}

MakeKernel matmul(std::int64_t m, std::int64_t n, std::int64_t k) {
  return [=] {
    return std::make_unique<Kernel>(OpKind::MatMul, "sbh,nh->sbn",
                                    std::vector<Shape>{{m, 1, k}, {n, k}},
                                    std::vector<Shape>{{m, 1, n}});
  };
}

MakeKernel add(std::int64_t rows, std::int64_t hidden) {
  return [=] {
    const Shape shape{rows, 1, hidden};
    return std::make_unique<Kernel>(OpKind::Add, "sbh,sbh->sbh", std::vector<Shape>{shape, shape},
                                    std::vector<Shape>{shape});
  };
}

MakeKernel layer_norm(std::int64_t rows, std::int64_t hidden) {
  return [=] {
    const Shape shape{rows, 1, hidden};
    Attributes attributes;
    attributes.epsilon = 1e-5;
    return std::make_unique<Kernel>(OpKind::LayerNorm, "sbh,h,h->sbh,sb,sb",
                                    std::vector<Shape>{shape, {hidden}, {hidden}},
                                    std::vector<Shape>{shape, {rows, 1}, {rows, 1}}, attributes);
  };
}

// Four heads of one sequence. s queries, b batch, g kv heads, r heads each, d head_dim; t keys.
constexpr std::int64_t kHeads = 4;

Attributes attention_attributes(std::int64_t head_dim) {
  Attributes attributes;
  attributes.causal = true;
  attributes.scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  return attributes;
}

MakeKernel attention(std::int64_t sequence, std::int64_t head_dim) {
  return [=] {
    const Shape q{sequence, 1, kHeads, 1, head_dim}, k{sequence, 1, kHeads, head_dim},
        lse{sequence, 1, kHeads, 1};
    return std::make_unique<Kernel>(OpKind::Attention, "sbgrd,tbgd,tbgd->sbgrd,sbgr",
                                    std::vector<Shape>{q, k, k}, std::vector<Shape>{q, lse},
                                    attention_attributes(head_dim));
  };
}

MakeKernel attention_backward(std::int64_t sequence, std::int64_t head_dim) {
  return [=] {
    const Shape q{sequence, 1, kHeads, 1, head_dim}, k{sequence, 1, kHeads, head_dim},
        lse{sequence, 1, kHeads, 1};
    return std::make_unique<Kernel>(OpKind::AttentionBackward,
                                    "sbgrd,sbgrd,tbgd,tbgd,sbgrd,sbgr->sbgrd,tbgd,tbgd",
                                    std::vector<Shape>{q, q, k, k, q, lse},
                                    std::vector<Shape>{q, k, k}, attention_attributes(head_dim));
  };
}

// Calls of one repetition: enough to take about `target`.
int calls_for(Seconds one_call, Seconds target) {
  return static_cast<int>(std::clamp(target.count() / one_call.count(), 1.0, 1e5));
}

Seconds measured(const Options& options, const MakeKernel& make) {
  const Seconds one_call = time_of(options, 2, 1, make);
  const Seconds repetition(options.quick ? 0.02 : 0.1);
  return time_of(options, options.quick ? 9 : 21, calls_for(one_call, repetition), make);
}

}  // namespace

Seconds median_time(int ranks, int repetitions,
                    const std::function<std::function<void()>(int rank)>& make_work) {
  using Clock = std::chrono::steady_clock;
  std::barrier together(ranks);
  std::vector<std::vector<double>> times(static_cast<std::size_t>(ranks));
  const auto run_rank = [&](int rank) {
    const std::function<void()> work = make_work(rank);
    work();  // touches the memory and warms the caches
    for (int i = 0; i < repetitions; ++i) {
      together.arrive_and_wait();
      const auto start = Clock::now();
      work();
      const std::chrono::duration<double> time = Clock::now() - start;
      times[static_cast<std::size_t>(rank)].push_back(time.count());
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 1; rank < ranks; ++rank) threads.emplace_back(run_rank, rank);
  run_rank(0);
  for (std::thread& thread : threads) thread.join();

  std::vector<double> all;
  for (const auto& of_rank : times) all.insert(all.end(), of_rank.begin(), of_rank.end());
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return Seconds(*middle);
}

void measure_kernels(const Options& options, Profile& profile) {
  // Small to large, wide and narrow: the layers of models of width 128 to 1024.
  std::vector<std::array<std::int64_t, 3>> shapes = {{256, 128, 128},  {1024, 512, 128},
                                                     {1024, 128, 512}, {256, 768, 768},
                                                     {256, 3072, 768}, {1024, 1024, 1024}};
  if (!options.quick) shapes.insert(shapes.end(), {{2048, 2048, 2048}, {256, 50304, 768}});
  for (const auto& [m, n, k] : shapes) {
    const MakeKernel make = matmul(m, n, k);
    const Seconds time = measured(options, make);
    profile.matmul.push_back({m, n, k, FlopsPerSecond(make()->flops_per_call() / time.count())});
  }
  for (const auto& [sequence, head_dim] :
       {std::pair<std::int64_t, std::int64_t>{128, 32}, {options.quick ? 256 : 1024, 64}}) {
    const MakeKernel forward = attention(sequence, head_dim);
    const MakeKernel backward = attention_backward(sequence, head_dim);
    const double work = forward()->flops_per_call() + backward()->flops_per_call();
    const Seconds time = measured(options, forward) + measured(options, backward);
    profile.attention.push_back({sequence, head_dim, FlopsPerSecond(work / time.count())});
  }
  // 24 MiB and more per rank: beyond its share of the last cache.
  const std::int64_t rows = options.quick ? 8192 : 32768;
  for (const auto& [name, make] :
       {std::pair{"add", add(rows, 256)}, std::pair{"layer_norm", layer_norm(rows, 384)}}) {
    const Seconds time = measured(options, make);
    profile.stream.push_back({name, BytesPerSecond(make()->bytes_per_call() / time.count())});
  }
  profile.launch = measured(options, add(1, 16));
}

}  // namespace mega::bench
