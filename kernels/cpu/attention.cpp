#include "kernels/cpu/attention.h"

#include <algorithm>

#include "kernels/attention.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/launch.h"
#include "kernels/operand.h"

namespace mega::kernels {
namespace {

using std::int64_t;

struct Geometry {
  int64_t queries, keys;                 // s, t
  int64_t batch, groups, sharers, size;  // b, g, r, d
  int64_t origin;
  float scale;
  bool causal;

  int64_t query_stride() const { return batch * groups * sharers * size; }
  int64_t key_stride() const { return batch * groups * size; }
  int64_t lse_stride() const { return batch * groups * sharers; }

  // Keys of the tile at `key` that the query at `query` sees, and its followers.
  Visibility visibility(int64_t query, int64_t key, int64_t width) const {
    return {width, causal ? origin + query - key + 1 : width};
  }
  // Keys that any query of a tile sees.
  int64_t visible_keys(int64_t query, int64_t height) const {
    return causal ? std::clamp<int64_t>(origin + query + height, 0, keys) : keys;
  }
};

Geometry geometry_of(const Call& call, const Operand& q, const Operand& k) {
  return {q.shape[0],
          k.shape[0],
          q.shape[1],
          q.shape[2],
          q.shape[3],
          q.shape[4],
          call.origin,
          static_cast<float>(call.attributes.scale),
          call.attributes.causal};
}

// Runs row kernels inside a tile, on this thread.
template <class Kernel>
void each_row(int64_t rows, const Kernel& kernel) {
  for (int64_t row = 0; row < rows; ++row) kernel(row, OneLane{});
}

struct Forward {
  Geometry shape;
  const float *q, *k, *v;
  float *o, *lse;

  // One query head: `head` counts b, g, r; its keys are at head / r.
  void operator()(int64_t head) const {
    for (int64_t query = 0; query < shape.queries; query += kQueryTile) tile(head, query);
  }

 private:
  void tile(int64_t head, int64_t query) const {
    alignas(64) float scores[kQueryTile * kKeyTile];
    float top[kQueryTile];
    float total[kQueryTile] = {};
    std::fill_n(top, kQueryTile, -HUGE_VALF);
    const int64_t height = std::min(kQueryTile, shape.queries - query);
    const int64_t stride = shape.query_stride();
    const float* q_tile = q + query * stride + head * shape.size;
    float* o_tile = o + query * stride + head * shape.size;
    const int64_t end = shape.visible_keys(query, height);
    if (end == 0)
      each_row(height,
               [&](int64_t row, OneLane) { std::fill_n(o_tile + row * stride, shape.size, 0.0F); });
    for (int64_t key = 0; key < end; key += kKeyTile) {
      const int64_t width = std::min(kKeyTile, end - key);
      const int64_t at = key * shape.key_stride() + head / shape.sharers * shape.size;
      gemm(height, width, shape.size, shape.scale, {q_tile, stride},
           {k + at, shape.key_stride(), true}, scores, kKeyTile, false);
      each_row(height, SoftmaxTileRows{scores, top, total, o_tile, stride, shape.size,
                                       shape.visibility(query, key, width), key == 0});
      gemm(height, shape.size, width, 1.0F, {scores, kKeyTile}, {v + at, shape.key_stride()},
           o_tile, stride, key > 0);
    }
    each_row(height, SoftmaxFinishRows{top, total, o_tile, lse + query * shape.lse_stride() + head,
                                       stride, shape.size, shape.lse_stride()});
  }
};

struct Backward {
  Geometry shape;
  const float *output_gradient, *q, *k, *v, *o, *lse;
  float *dq, *dk, *dv;

  // One key head: all its tiles of keys, in order; in each, the query heads that share it and
  // their tiles of queries, in order. So every sum has one order.
  void operator()(int64_t group) const {
    for (int64_t key = 0; key < shape.keys; key += kKeyTile) {
      const int64_t width = std::min(kKeyTile, shape.keys - key);
      const int64_t at = key * shape.key_stride() + group * shape.size;
      bool is_first = true;
      for (int64_t r = 0; r < shape.sharers; ++r) {
        for (int64_t query = 0; query < shape.queries; query += kQueryTile) {
          const int64_t height = std::min(kQueryTile, shape.queries - query);
          if (shape.visible_keys(query, height) <= key && key > 0) continue;
          tile(group * shape.sharers + r, query, height, key, width, at, is_first);
          is_first = false;
        }
      }
      if (!is_first) continue;
      for (int64_t row = 0; row < width; ++row) {  // no query sees these keys
        std::fill_n(dk + at + row * shape.key_stride(), shape.size, 0.0F);
        std::fill_n(dv + at + row * shape.key_stride(), shape.size, 0.0F);
      }
    }
  }

 private:
  void tile(int64_t head, int64_t query, int64_t height, int64_t key, int64_t width, int64_t at,
            bool is_first) const {
    alignas(64) float scores[kQueryTile * kKeyTile];
    alignas(64) float gradient[kQueryTile * kKeyTile];
    float delta[kQueryTile];
    const int64_t stride = shape.query_stride();
    const int64_t from = query * stride + head * shape.size;
    const Factor q_tile{q + from, stride};
    const Factor k_tile{k + at, shape.key_stride()};
    const Factor do_tile{output_gradient + from, stride};
    each_row(height, DeltaRows{output_gradient + from, o + from, delta, stride, shape.size});
    gemm(height, width, shape.size, shape.scale, q_tile, {k_tile.data, k_tile.stride, true}, scores,
         kKeyTile, false);
    gemm(height, width, shape.size, 1.0F, do_tile, {v + at, shape.key_stride(), true}, gradient,
         kKeyTile, false);
    each_row(height, ScoreBackwardRows{scores, gradient, lse + query * shape.lse_stride() + head,
                                       delta, shape.lse_stride(), shape.scale,
                                       shape.visibility(query, key, width)});
    gemm(width, shape.size, height, 1.0F, {scores, kKeyTile, true}, do_tile, dv + at,
         shape.key_stride(), !is_first);
    gemm(width, shape.size, height, 1.0F, {gradient, kKeyTile, true}, q_tile, dk + at,
         shape.key_stride(), !is_first);
    gemm(height, shape.size, width, 1.0F, {gradient, kKeyTile}, k_tile, dq + from, stride, key > 0);
  }
};

// One head at a time per thread; the products inside a head stay on that thread.
template <class Head>
void each_head(CpuStream& stream, int64_t heads, const Head& head) {
  split(stream, heads, 1, [&](int64_t begin, int64_t end) {
    set_blas_threads(1);
    for (int64_t i = begin; i < end; ++i) head(i);
  });
}

}  // namespace

void attention(CpuStream& stream, const Call& call) {
  const Geometry shape = geometry_of(call, call.inputs[0], call.inputs[1]);
  each_head(stream, shape.batch * shape.groups * shape.sharers,
            Forward{shape, floats(call.inputs[0]), floats(call.inputs[1]), floats(call.inputs[2]),
                    mutable_floats(call.outputs[0]), mutable_floats(call.outputs[1])});
}

void attention_backward(CpuStream& stream, const Call& call) {
  const Geometry shape = geometry_of(call, call.inputs[1], call.inputs[2]);
  each_head(stream, shape.batch * shape.groups,
            Backward{shape, floats(call.inputs[0]), floats(call.inputs[1]), floats(call.inputs[2]),
                     floats(call.inputs[3]), floats(call.inputs[4]), floats(call.inputs[5]),
                     mutable_floats(call.outputs[0]), mutable_floats(call.outputs[1]),
                     mutable_floats(call.outputs[2])});
}

}  // namespace mega::kernels
