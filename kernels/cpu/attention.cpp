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
  int64_t value_size;                    // j
  Sequence query_at, key_at;
  float scale;
  bool causal;

  int64_t query_stride() const { return batch * groups * sharers * size; }
  int64_t key_stride() const { return batch * groups * size; }
  int64_t output_stride() const { return batch * groups * sharers * value_size; }
  int64_t value_stride() const { return batch * groups * value_size; }
  int64_t lse_stride() const { return batch * groups * sharers; }

  // Rows of the tile at `query`; their positions follow each other, as those of its keys do.
  int64_t height(int64_t query) const {
    return std::min({kQueryTile, queries - query, query_at.run(query)});
  }
  int64_t width(int64_t key) const { return std::min({kKeyTile, keys - key, key_at.run(key)}); }
  // Keys of the tile at `key` that the query at `query` sees; each further query sees one more.
  int64_t seen(int64_t query, int64_t key) const {
    return query_at.position(query) - key_at.position(key) + 1;
  }
  Visibility visibility(int64_t query, int64_t key, int64_t width) const {
    return {width, causal ? seen(query, key) : width};
  }
  // Keys of the tile at `key` that any query of the tile at `query` sees.
  int64_t visible_keys(int64_t query, int64_t key) const {
    if (!causal) return width(key);
    return std::clamp<int64_t>(seen(query, key) + height(query) - 1, 0, width(key));
  }
};

Geometry geometry_of(const Call& call, const Operand& q, const Operand& k, const Operand& v) {
  return {q.shape[0],
          k.shape[0],
          q.shape[1],
          q.shape[2],
          q.shape[3],
          q.shape[4],
          v.shape[3],
          sequence_of(call),
          key_sequence_of(call, k.shape[0]),
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
  bool adds;  // goes on from the output and the log-sum-exp of other keys

  // One query head: `head` counts b, g, r; its keys are at head / r.
  void operator()(int64_t head) const {
    for (int64_t query = 0; query < shape.queries; query += shape.height(query)) tile(head, query);
  }

 private:
  void tile(int64_t head, int64_t query) const {
    alignas(64) float scores[kQueryTile * kKeyTile];
    float top[kQueryTile];
    float total[kQueryTile] = {};
    std::fill_n(top, kQueryTile, -HUGE_VALF);
    const int64_t height = shape.height(query);
    const int64_t stride = shape.output_stride();
    const float* q_tile = q + query * shape.query_stride() + head * shape.size;
    float* o_tile = o + query * stride + head * shape.value_size;
    float* const lse_tile = lse + query * shape.lse_stride() + head;
    for (int64_t row = 0; adds && row < height; ++row) {
      top[row] = lse_tile[row * shape.lse_stride()];
      total[row] = top[row] == -HUGE_VALF ? 0.0F : 1.0F;
    }
    bool is_first = !adds;
    for (int64_t key = 0; key < shape.keys; key += shape.width(key)) {
      const int64_t width = shape.visible_keys(query, key);
      if (width == 0) continue;
      const int64_t at = key * shape.key_stride() + head / shape.sharers * shape.size;
      const int64_t value = key * shape.value_stride() + head / shape.sharers * shape.value_size;
      gemm(height, width, shape.size, shape.scale, {q_tile, shape.query_stride()},
           {k + at, shape.key_stride(), true}, scores, kKeyTile, false);
      each_row(height, SoftmaxTileRows{scores, top, total, o_tile, stride, shape.value_size,
                                       shape.visibility(query, key, width), is_first});
      gemm(height, shape.value_size, width, 1.0F, {scores, kKeyTile},
           {v + value, shape.value_stride()}, o_tile, stride, !is_first);
      is_first = false;
    }
    for (int64_t row = 0; is_first && row < height; ++row) {  // it sees no key
      std::fill_n(o_tile + row * stride, shape.value_size, 0.0F);
    }
    each_row(height, SoftmaxFinishRows{top, total, o_tile, lse_tile, stride, shape.value_size,
                                       shape.lse_stride()});
  }
};

struct Backward {
  Geometry shape;
  const float *output_gradient, *q, *k, *v, *o, *lse;
  float *dq, *dk, *dv;
  bool adds_queries, adds_keys, adds_values;

  // One key head: all its tiles of keys, in order; in each, the query heads that share it and
  // their tiles of queries, in order. So every sum has one order.
  void operator()(int64_t group) const {
    if (!adds_queries) clear_queries(group);
    for (int64_t key = 0; key < shape.keys; key += shape.width(key)) {
      const int64_t width = shape.width(key);
      const int64_t at = key * shape.key_stride() + group * shape.size;
      const int64_t value = key * shape.value_stride() + group * shape.value_size;
      bool is_first = true;
      for (int64_t r = 0; r < shape.sharers; ++r) {
        for (int64_t query = 0; query < shape.queries; query += shape.height(query)) {
          if (shape.visible_keys(query, key) == 0) continue;
          tile(group * shape.sharers + r, query, shape.height(query), key, width, at, value,
               is_first);
          is_first = false;
        }
      }
      if (!is_first) continue;
      for (int64_t row = 0; row < width; ++row) {  // no query sees these keys
        if (!adds_keys) std::fill_n(dk + at + row * shape.key_stride(), shape.size, 0.0F);
        if (!adds_values) {
          std::fill_n(dv + value + row * shape.value_stride(), shape.value_size, 0.0F);
        }
      }
    }
  }

 private:
  void clear_queries(int64_t group) const {
    const int64_t width = shape.sharers * shape.size;
    for (int64_t query = 0; query < shape.queries; ++query) {
      std::fill_n(dq + query * shape.query_stride() + group * width, width, 0.0F);
    }
  }

  void tile(int64_t head, int64_t query, int64_t height, int64_t key, int64_t width, int64_t at,
            int64_t value, bool is_first) const {
    alignas(64) float scores[kQueryTile * kKeyTile];
    alignas(64) float gradient[kQueryTile * kKeyTile];
    float delta[kQueryTile];
    const int64_t stride = shape.query_stride();
    const int64_t from = query * stride + head * shape.size;
    const Factor q_tile{q + from, stride};
    const Factor k_tile{k + at, shape.key_stride()};
    const int64_t result = query * shape.output_stride() + head * shape.value_size;
    const Factor do_tile{output_gradient + result, shape.output_stride()};
    each_row(height, DeltaRows{output_gradient + result, o + result, delta, shape.output_stride(),
                               shape.value_size});
    gemm(height, width, shape.size, shape.scale, q_tile, {k_tile.data, k_tile.stride, true}, scores,
         kKeyTile, false);
    gemm(height, width, shape.value_size, 1.0F, do_tile, {v + value, shape.value_stride(), true},
         gradient, kKeyTile, false);
    each_row(height, ScoreBackwardRows{scores, gradient, lse + query * shape.lse_stride() + head,
                                       delta, shape.lse_stride(), shape.scale,
                                       shape.visibility(query, key, width)});
    gemm(width, shape.value_size, height, 1.0F, {scores, kKeyTile, true}, do_tile, dv + value,
         shape.value_stride(), adds_values || !is_first);
    gemm(width, shape.size, height, 1.0F, {gradient, kKeyTile, true}, q_tile, dk + at,
         shape.key_stride(), adds_keys || !is_first);
    gemm(height, shape.size, width, 1.0F, {gradient, kKeyTile}, k_tile, dq + from, stride, true);
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
  const Geometry shape = geometry_of(call, call.inputs[0], call.inputs[1], call.inputs[2]);
  each_head(stream, shape.batch * shape.groups * shape.sharers,
            Forward{shape, floats(call.inputs[0]), floats(call.inputs[1]), floats(call.inputs[2]),
                    mutable_floats(call.outputs[0]), mutable_floats(call.outputs[1]),
                    accumulates(call, 0)});
}

void attention_backward(CpuStream& stream, const Call& call) {
  const Geometry shape = geometry_of(call, call.inputs[1], call.inputs[2], call.inputs[3]);
  each_head(stream, shape.batch * shape.groups,
            Backward{shape, floats(call.inputs[0]), floats(call.inputs[1]), floats(call.inputs[2]),
                     floats(call.inputs[3]), floats(call.inputs[4]), floats(call.inputs[5]),
                     mutable_floats(call.outputs[0]), mutable_floats(call.outputs[1]),
                     mutable_floats(call.outputs[2]), accumulates(call, 0), accumulates(call, 1),
                     accumulates(call, 2)});
}

}  // namespace mega::kernels
