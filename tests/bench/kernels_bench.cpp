// Times each kernel on the shapes of one GPT-2 124M step (B=4, T=64, one thread) and adds them up
// to a step. By hand: build target kernels_bench, run alone on a quiet machine.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "kernels/dispatch.h"

namespace mega::kernels {
namespace {

struct Case {
  OpKind kind;
  std::string index;
  std::string shapes;  // sizes of the letters: "s64 b4 h768"
  int times;           // per step
  Attributes attributes = {};
};

Extents parse_sizes(const std::string& text) {
  Extents extents;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] < 'a' || text[i] > 'z') continue;
    extents[text[i]] = std::strtoll(text.c_str() + i + 1, nullptr, 10);
  }
  return extents;
}

struct Buffers {
  std::vector<std::vector<double>> storage;
  std::vector<Shape> shapes;
};

Operand make(Buffers& buffers, const std::string& letters, const Extents& extents, DType dtype) {
  Shape shape;
  for (const char letter : letters) shape.push_back(extents[letter]);
  const std::int64_t count = element_count(shape);
  buffers.shapes.push_back(shape);
  buffers.storage.emplace_back(static_cast<std::size_t>(count) + 8);
  auto& storage = buffers.storage.back();
  for (std::int64_t i = 0; i < count; ++i) {
    if (dtype == DType::Fp32) {
      reinterpret_cast<float*>(storage.data())[i] = 0.1F + static_cast<float>(i % 977) * 1e-3F;
    } else if (dtype == DType::Int32) {
      reinterpret_cast<std::int32_t*>(storage.data())[i] =
          static_cast<std::int32_t>(i * 97 % 50257);
    } else {
      storage[static_cast<std::size_t>(i)] = 256;
    }
  }
  return {storage.data(), dtype, {}};
}

// Processor time on one thread, which others on the machine disturb less; else the wall clock's.
double now(const CpuStream& stream) {
  if (stream.threads == 1) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_start).count();
}

double seconds_of(CpuStream& stream, const Call& call) {
  double best = 1e9;
  dispatch(stream, call);
  for (int turn = 0; turn < 5; ++turn) {
    const double start = now(stream);
    int repeats = 0;
    do {
      dispatch(stream, call);
      ++repeats;
    } while (now(stream) - start < 0.01);
    best = std::min(best, (now(stream) - start) / repeats);
  }
  return best;
}

double run(CpuStream& stream, const Case& test) {
  const Index index = *parse_index(test.index);
  Call call;
  call.kind = test.kind;
  call.index = &index;
  call.extents = parse_sizes(test.shapes);
  call.attributes = test.attributes;
  call.scalars = {1e-4, 0.1, 10, 1234, 0};
  Buffers buffers;
  for (std::size_t i = 0; i < index.inputs.size(); ++i) {
    call.inputs[i] = make(buffers, index.inputs[i], call.extents, input_dtype(test.kind, i));
  }
  for (std::size_t i = 0; i < index.outputs.size(); ++i) {
    call.outputs[i] = make(buffers, index.outputs[i], call.extents, output_dtype(test.kind, i));
  }
  for (std::size_t i = 0; i < index.inputs.size(); ++i) call.inputs[i].shape = buffers.shapes[i];
  for (std::size_t i = 0; i < index.outputs.size(); ++i) {
    call.outputs[i].shape = buffers.shapes[index.inputs.size() + i];
  }
  const std::vector<std::int64_t> zeros(8, 0);
  call.box = {call.outputs[0].shape, std::span(zeros).first(call.outputs[0].shape.size()), 77};
  return seconds_of(stream, call);
}

// The ops of a step; 0 times for what GPT-2 lacks.
std::vector<Case> gpt2_step(const std::string& seq, const std::string& batch) {
  using enum OpKind;
  const std::string act = "s" + seq + " b" + batch + " h768 f3072 n768 v50304 p1024 ";
  const std::string heads = "s" + seq + " t" + seq + " b" + batch + " g12 r1 d64 h768 ";
  const Attributes norm{.epsilon = 1e-5};
  const Attributes causal{.scale = 0.125, .causal = true};
  const Attributes loss{.limit = 50257};
  const Attributes into{.accumulate = 7};
  const Attributes adam{.epsilon = 1e-8, .beta1 = 0.9, .beta2 = 0.95, .clip = 1, .decay = true};
  return {
      {Embedding, "sb,vh->sbh", act, 1},
      {EmbeddingBackward, "sb,sbh->vh", act, 1, into},
      {AddPosition, "sbh,ph->sbh", act, 1},
      {AddPositionBackward, "sbh->ph", act, 1, into},
      {LayerNorm, "sbh,h,h->sbh,sb,sb", act, 25, norm},
      {LayerNormBackward, "sbh,sbh,h,sb,sb->sbh,h,h", act, 25, {.epsilon = 1e-5, .accumulate = 6}},
      {MatMul, "sbh,grdh,grd->sbgrd", heads, 36},
      {MatMul, "sbgrd,grdh->sbh", heads, 36},
      {MatMul, "sbgrd,sbh->grdh", heads, 36, into},
      {MatMul, "sbh,nh,n->sbn", act, 12},
      {MatMul, "sbn,nh->sbh", act, 12},
      {MatMul, "sbn,sbh->nh", act, 12, into},
      {MatMul, "sbh,fh,f->sbf", act, 12},
      {MatMul, "sbf,fh->sbh", act, 12},
      {MatMul, "sbf,sbh->fh", act, 12, into},
      {MatMul, "sbf,hf,h->sbh", act, 12},
      {MatMul, "sbh,hf->sbf", act, 12},
      {MatMul, "sbh,sbf->hf", act, 12, into},
      {MatMul, "sbh,vh->sbv", act, 1},
      {MatMul, "sbv,vh->sbh", act, 1},
      {MatMul, "sbv,sbh->vh", act, 1, into},
      {BiasBackward, "sbh->h", act, 60, into},
      {BiasBackward, "sbf->f", act, 12, into},
      {Attention, "sbgrd,tbgd,tbgd->sbgrd,sbgr", heads, 12, causal},
      {AttentionBackward, "sbgrd,sbgrd,tbgd,tbgd,sbgrd,sbgr->sbgrd,tbgd,tbgd", heads, 12, causal},
      {Rope, "sbgrd->sbgrd", heads, 0, {.theta = 10000}},
      {GeluTanh, "sbf->sbf", act, 12},
      {GeluTanhBackward, "sbf,sbf->sbf", act, 12},
      {Gelu, "sbf->sbf", act, 0},
      {GeluBackward, "sbf,sbf->sbf", act, 0},
      {SwiGlu, "sbf,sbf->sbf", act, 0},
      {SwiGluBackward, "sbf,sbf,sbf->sbf,sbf", act, 0},
      {Add, "sbh,sbh->sbh", act, 48},
      {VocabMax, "sbv->sb", act, 1, loss},
      {VocabSumExp, "sbv,sb,sb->sb,sb", act, 1, loss},
      {TokenLoss, "sb,sb,sb,sb,->", act, 1},
      {CrossEntropyBackward, "sbv,sb,sb,sb,->sbv", act, 1, loss},
      {Fill, "->n", "n124439808", 1},
      {SquareSum, "n->", "n124439808", 1},
      {AdamW, "n,->n,n,n", "n124439808", 1, adam},
      {InitNormal, "->n", "n1244398", 0, {.value = 0.02}},
  };
}

int report(const std::string& seq, const std::string& batch, int threads) {
  CpuStream stream{threads};
  double total = 0;
  std::map<std::string, double> by_kind;
  for (const Case& test : gpt2_step(seq, batch)) {
    const double seconds = run(stream, test);
    const Index index = *parse_index(test.index);
    const double work = flops(test.kind, index, parse_sizes(test.shapes), test.attributes).count();
    std::printf("%-24s %-50s %10.1f us %7.2f GF/s x %2d = %8.2f ms\n",
                std::string(info(test.kind).name).c_str(), test.index.c_str(), seconds * 1e6,
                work / seconds * 1e-9, test.times, seconds * test.times * 1e3);
    total += seconds * test.times;
    by_kind[std::string(info(test.kind).name)] += seconds * test.times;
  }
  for (const auto& [name, seconds] : by_kind) {
    if (seconds > 0) std::printf("  %-24s %8.2f ms\n", name.c_str(), seconds * 1e3);
  }
  const double tokens = std::atof(seq.c_str()) * std::atof(batch.c_str());
  std::printf("step %.3f s, %.1f tokens/s\n", total, tokens / total);
  return 0;
}

}  // namespace
}  // namespace mega::kernels

// kernels_bench [SEQUENCE [BATCH [THREADS]]]
int main(int argc, char** argv) {
  return mega::kernels::report(argc > 1 ? argv[1] : "64", argc > 2 ? argv[2] : "4",
                               argc > 3 ? std::atoi(argv[3]) : 1);
}
