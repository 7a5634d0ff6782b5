// The gated delta rule, as GatedDelta in gated_delta.go describes it, with the algorithm of
// gated_delta.c. For a value row s of the state, a token takes two dot products and one update:
//
//   d   = (v - g * (s.k)) * beta
//   out = g * (s.q) + d * (q.k)
//   s   = g * s + d * k, rounded to the type of the state
//
// Grid: a simdgroup keeps ROWS value rows of one head in registers for all tokens of a span, so the
// state is read and written once. Lane l has columns 4l to 4l+3 of each row, and 128+4l to 128+4l+3
// of wide rows. int8 rows are codes, as floats, with a scale per row.
//
// The simdgroups of a threadgroup compute the same head. Together they prepare a window of tokens
// in threadgroup memory: normalized q and k, q.k, and the gates. Then each computes its own rows.
//
// A lane adds its columns in ascending order, and simd_sum adds the lanes. So the bits of a row
// depend only on the row's inputs, and not on windows, spans or the grid.
//
// States inside a span are kept where they come by (keeping), in slots that no span has.
#include <metal_stdlib>
#include "common/state_rows.h"
#include "common/span.h"
using namespace metal;

constant bool keeping [[function_constant(3)]];   // states inside spans, listed after the spans

constant constexpr int ROWS = 4;

struct GatedDeltaParams {
  uint hk;
  uint hv;
  uint dk;
  uint dv;
  uint qkv_stride;
  uint a_stride;
  uint b_stride;
  uint out_stride;
  uint slot_bytes;
  uint window;
  uint spans;
  float l2_eps;   // added to the sum of squares of q and of k
};

// Writes the value rows [row0, row0 + ROWS) of a head to a slot.
inline void store_rows(device uchar* slot, constant GatedDeltaParams& p, uint head, uint row0,
    uint lane, thread const float4 (&s)[ROWS][2], float4 scale) {
  device uchar* values = slot + (dtype == STATE_I8 ? ulong(p.hv) * p.dv * 4 : 0);
#pragma clang loop unroll(full)
  for (uint r = 0; r < ROWS; r++) {
    if (row0 + r < p.dv) {
      const ulong at = (ulong(head) * p.dv + row0 + r) * p.dk;
      store4(values, at, 4 * lane, p.dk, s[r][0]);
      if (wide) {
        store4(values, at, 128 + 4 * lane, p.dk, s[r][1]);
      }
      if (dtype == STATE_I8 && lane == 0) {
        ((device float*)slot)[head * p.dv + row0 + r] = scale[r];
      }
    }
  }
}

kernel void gated_delta(
    constant GatedDeltaParams& p  [[buffer(0)]],
    device const float* qkv       [[buffer(1)]],   // [M, 2*hk*dk + hv*dv]
    device const float* a         [[buffer(2)]],   // [M, hv]
    device const float* b         [[buffer(3)]],   // [M, hv]
    device const float* a_log     [[buffer(4)]],   // [hv]
    device const float* dt_bias   [[buffer(5)]],   // [hv]
    device uchar* state           [[buffer(6)]],   // slots
    device const Span* spans      [[buffer(7)]],
    device float* out             [[buffer(8)]],   // [M, hv*dv]
    // for each token of the window: q and k of 128 or 256 columns, g, beta, q.k and a gap
    threadgroup float* prepared   [[threadgroup(0)]],
    // block of value rows, value head, span
    uint3 group                   [[threadgroup_position_in_grid]],
    uint lane                     [[thread_index_in_simdgroup]],
    uint sg                       [[simdgroup_index_in_threadgroup]],
    uint simdgroups               [[simdgroups_per_threadgroup]]) {
  device const Span* span = spans + group.z;
  const uint rows = uint(span->rows);
  const uint head = group.y;
  const uint key_head = head / (p.hv / p.hk);
  const uint row0 = (group.x * simdgroups + sg) * ROWS;
  const uint width = wide ? 256 : 128;
  const uint token_floats = 2 * width + 4;
  qkv += ulong(span->row) * p.qkv_stride;
  a += ulong(span->row) * p.a_stride + head;
  b += ulong(span->row) * p.b_stride + head;
  out += ulong(span->row) * p.out_stride + head * p.dv;
  device const float* values_in = qkv + 2 * p.hk * p.dk + head * p.dv;
  device uchar* slot = state + ulong(span->slot) * p.slot_bytes;
  device const float* scales = (device const float*)slot + head * p.dv;
  device const uchar* values = slot + (dtype == STATE_I8 ? ulong(p.hv) * p.dv * 4 : 0);

  float4 s[ROWS][2];
  float4 scale = float4(1.0f);
#pragma clang loop unroll(full)
  for (uint r = 0; r < ROWS; r++) {
    s[r][0] = float4(0.0f);
    s[r][1] = float4(0.0f);
    const bool here = row0 + r < p.dv;
    const ulong at = (ulong(head) * p.dv + row0 + r) * p.dk;
    if (here && span->pos != 0) {
      s[r][0] = load4(values, at, 4 * lane, p.dk);
      if (wide) {
        s[r][1] = load4(values, at, 128 + 4 * lane, p.dk);
      }
    }
    if (dtype == STATE_I8) {
      scale[r] = here && span->pos != 0 ? scales[row0 + r] : 0.0f;
    }
  }

  for (uint from = 0; from < rows; from += p.window) {
    const uint n = min(p.window, rows - from);
    for (uint t = sg; t < n; t += simdgroups) {
      device const float* x = qkv + ulong(from + t) * p.qkv_stride;
      threadgroup float* token = prepared + t * token_floats;
      float4 q[2];
      float4 k[2];
      float2 squares = float2(0.0f);
      for (uint v = 0; v < 2; v++) {
        if (v == 0 || wide) {
          q[v] = load4_f32(x, key_head * p.dk, v * 128 + 4 * lane, p.dk);
          k[v] = load4_f32(x, (p.hk + key_head) * p.dk, v * 128 + 4 * lane, p.dk);
          squares = float2(dot_onto(squares.x, q[v], q[v]), dot_onto(squares.y, k[v], k[v]));
        }
      }
      squares = simd_sum(squares);
      const float q_scale = (1.0f / sqrt(float(p.dk))) / sqrt(squares.x + p.l2_eps);
      const float k_scale = 1.0f / sqrt(squares.y + p.l2_eps);
      float qk = 0.0f;
      for (uint v = 0; v < 2; v++) {
        if (v == 0 || wide) {
          q[v] = q[v] * q_scale;
          k[v] = k[v] * k_scale;
          qk = dot_onto(qk, q[v], k[v]);
          *(threadgroup float4*)(token + v * 128 + 4 * lane) = q[v];
          *(threadgroup float4*)(token + width + v * 128 + 4 * lane) = k[v];
        }
      }
      qk = simd_sum(qk);
      if (lane == 0) {
        const float soft = softplus(a[ulong(from + t) * p.a_stride] + dt_bias[head]);
        token[2 * width] = exp(-(exp(a_log[head]) * soft));
        token[2 * width + 1] = 1.0f / (1.0f + exp(-b[ulong(from + t) * p.b_stride]));
        token[2 * width + 2] = qk;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    for (uint t = 0; t < n; t++) {
      threadgroup const float* token = prepared + t * token_floats;
      float4 q[2];
      float4 k[2];
      for (uint v = 0; v < 2; v++) {
        if (v == 0 || wide) {
          q[v] = *(threadgroup const float4*)(token + v * 128 + 4 * lane);
          k[v] = *(threadgroup const float4*)(token + width + v * 128 + 4 * lane);
        }
      }
      float4 sk = float4(0.0f);
      float4 sq = float4(0.0f);
      float4 in = float4(0.0f);
#pragma clang loop unroll(full)
      for (uint r = 0; r < ROWS; r++) {
        sk[r] = dot_onto(0.0f, s[r][0], k[0]);
        sq[r] = dot_onto(0.0f, s[r][0], q[0]);
        if (wide) {
          sk[r] = dot_onto(sk[r], s[r][1], k[1]);
          sq[r] = dot_onto(sq[r], s[r][1], q[1]);
        }
        if (row0 + r < p.dv) {
          in[r] = values_in[ulong(from + t) * p.qkv_stride + row0 + r];
        }
      }
      sk = simd_sum(sk);
      sq = simd_sum(sq);
      const float4 g = token[2 * width] * scale;
      const float4 d = fma(-g, sk, in) * token[2 * width + 1];
      const float4 o = fma(d, float4(token[2 * width + 2]), g * sq);
      if (lane < ROWS && row0 + lane < p.dv) {
        out[ulong(from + t) * p.out_stride + row0 + lane] =
            lane == 0 ? o.x : lane == 1 ? o.y : lane == 2 ? o.z : o.w;
      }
#pragma clang loop unroll(full)
      for (uint r = 0; r < ROWS; r++) {
        s[r][0] = fma(float4(d[r]), k[0], g[r] * s[r][0]);
        if (wide) {
          s[r][1] = fma(float4(d[r]), k[1], g[r] * s[r][1]);
        }
        if (dtype == STATE_BF16) {
          s[r][0] = rounded_bf16(s[r][0]);
          s[r][1] = rounded_bf16(s[r][1]);
        }
      }
      if (dtype == STATE_I8) {
        float4 most = float4(0.0f);
#pragma clang loop unroll(full)
        for (uint r = 0; r < ROWS; r++) {
          most[r] = wide ? max(most_of(s[r][0]), most_of(s[r][1])) : most_of(s[r][0]);
        }
        const float4 amax = max(
            float4(simd_max(most.x), simd_max(most.y), simd_max(most.z), simd_max(most.w)),
            float4(LEAST_AMAX));
        const float4 inverse = float4(LARGEST_CODE) / amax;
#pragma clang loop unroll(full)
        for (uint r = 0; r < ROWS; r++) {
          s[r][0] = codes_of(s[r][0], inverse[r]);
          if (wide) {
            s[r][1] = codes_of(s[r][1], inverse[r]);
          }
        }
        scale = amax / float4(LARGEST_CODE);
      }
      if (keeping) {
        const int kept = slot_after(spans, p.spans, span->row + int(from + t));
        if (kept >= 0) {
          store_rows(state + ulong(kept) * p.slot_bytes, p, head, row0, lane, s, scale);
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);  // before the next window overwrites this one
  }

  simdgroup_barrier(mem_flags::mem_device);  // all lanes have read the scales that one lane writes
  store_rows(slot, p, head, row0, lane, s, scale);
}
