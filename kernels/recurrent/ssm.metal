// The recurrence of Mamba-2, as SSM in ssm.go describes it. For a row s of the state of a head, a
// token takes one pass:
//
//   s   = decay * s + (dt * x) * B
//   out = s.C + D * x
//
// and then s is rounded to the type of the state.
//
// Grid: a simdgroup keeps ROWS rows of one head in registers for all tokens of a span, so the state
// is read and written once. Lane l has columns 4l to 4l+3 of each row, and 128+4l to 128+4l+3 of
// wide rows. int8 rows are codes, as floats, with a scale per row. Every 32 tokens, lane l computes
// decay and dt of token l of the next 32.
//
// A lane adds its columns in ascending order, and simd_sum adds the lanes. So the bits of a row
// depend only on the row's inputs, and not on spans or the grid.
//
// States inside a span are kept where they come by (keeping), in slots that no span has.
#include <metal_stdlib>
#include "common/state_rows.h"
#include "common/span.h"
using namespace metal;

constant bool keeping [[function_constant(3)]];   // states inside spans, listed after the spans

constant constexpr int ROWS = 4;

struct SSMParams {
  uint heads;
  uint groups;
  uint dim;
  uint n;
  uint x_stride;
  uint dt_stride;
  uint out_stride;
  uint slot_bytes;
  uint spans;
  float dt_min;
  float dt_max;
};

// Writes rows [row0, row0 + ROWS) of a head to a slot.
inline void store_rows(device uchar* slot, constant SSMParams& p, uint head, uint row0, uint lane,
    thread const float4 (&s)[ROWS][2], float4 scale) {
  device uchar* values = slot + (dtype == STATE_I8 ? ulong(p.heads) * p.dim * 4 : 0);
#pragma clang loop unroll(full)
  for (uint r = 0; r < ROWS; r++) {
    if (row0 + r < p.dim) {
      const ulong at = (ulong(head) * p.dim + row0 + r) * p.n;
      store4(values, at, 4 * lane, p.n, s[r][0]);
      if (wide) {
        store4(values, at, 128 + 4 * lane, p.n, s[r][1]);
      }
      if (dtype == STATE_I8 && lane == 0) {
        ((device float*)slot)[head * p.dim + row0 + r] = scale[r];
      }
    }
  }
}

kernel void ssm(
    constant SSMParams& p         [[buffer(0)]],
    device const float* x         [[buffer(1)]],   // [M, heads*dim + 2*groups*n]
    device const float* dt        [[buffer(2)]],   // [M, heads]
    device const float* a_log     [[buffer(3)]],   // [heads]
    device const float* dt_bias   [[buffer(4)]],   // [heads]
    device const float* d         [[buffer(5)]],   // [heads]
    device uchar* state           [[buffer(6)]],   // slots
    device const Span* spans      [[buffer(7)]],
    device float* out             [[buffer(8)]],   // [M, heads*dim]
    uint3 group                   [[threadgroup_position_in_grid]],   // block of rows, head, span
    uint lane                     [[thread_index_in_simdgroup]],
    uint sg                       [[simdgroup_index_in_threadgroup]],
    uint simdgroups               [[simdgroups_per_threadgroup]]) {
  device const Span* span = spans + group.z;
  const uint rows = uint(span->rows);
  const uint head = group.y;
  const uint row0 = (group.x * simdgroups + sg) * ROWS;
  if (row0 >= p.dim) {
    return;  // the whole simdgroup returns, and there is no barrier of the threadgroup
  }
  x += ulong(span->row) * p.x_stride;
  dt += ulong(span->row) * p.dt_stride + head;
  out += ulong(span->row) * p.out_stride + head * p.dim;
  const uint b_at = p.heads * p.dim + head / (p.heads / p.groups) * p.n;
  const uint c_at = b_at + p.groups * p.n;
  device uchar* slot = state + ulong(span->slot) * p.slot_bytes;
  device const float* scales = (device const float*)slot + head * p.dim;
  device const uchar* values = slot + (dtype == STATE_I8 ? ulong(p.heads) * p.dim * 4 : 0);

  float4 s[ROWS][2];
  float4 scale = float4(1.0f);
#pragma clang loop unroll(full)
  for (uint r = 0; r < ROWS; r++) {
    s[r][0] = float4(0.0f);
    s[r][1] = float4(0.0f);
    const bool here = row0 + r < p.dim;
    const ulong at = (ulong(head) * p.dim + row0 + r) * p.n;
    if (here && span->pos != 0) {
      s[r][0] = load4(values, at, 4 * lane, p.n);
      if (wide) {
        s[r][1] = load4(values, at, 128 + 4 * lane, p.n);
      }
    }
    if (dtype == STATE_I8) {
      scale[r] = here && span->pos != 0 ? scales[row0 + r] : 0.0f;
    }
  }

  const float rate = exp(a_log[head]);
  float my_dt = 0.0f;
  float my_decay = 0.0f;
  for (uint t = 0; t < rows; t++) {
    if (t % 32 == 0) {
      const uint mine = min(t + lane, rows - 1);
      const float soft = softplus(dt[ulong(mine) * p.dt_stride] + dt_bias[head]);
      my_dt = min(max(soft, p.dt_min), p.dt_max);
      my_decay = exp(-(rate * my_dt));
    }
    const float step = simd_shuffle(my_dt, ushort(t % 32));
    const float decay = simd_shuffle(my_decay, ushort(t % 32));
    device const float* token = x + ulong(t) * p.x_stride;
    float4 b[2];
    float4 c[2];
    for (uint v = 0; v < 2; v++) {
      if (v == 0 || wide) {
        b[v] = load4_f32(token, b_at, v * 128 + 4 * lane, p.n);
        c[v] = load4_f32(token, c_at, v * 128 + 4 * lane, p.n);
      }
    }
    float4 in = float4(0.0f);
    float4 sc = float4(0.0f);
    float4 most = float4(0.0f);
#pragma clang loop unroll(full)
    for (uint r = 0; r < ROWS; r++) {
      if (row0 + r < p.dim) {
        in[r] = token[head * p.dim + row0 + r];
      }
      const float g = decay * scale[r];
      const float by = step * in[r];
      s[r][0] = fma(float4(by), b[0], g * s[r][0]);
      sc[r] = dot_onto(0.0f, s[r][0], c[0]);
      most[r] = most_of(s[r][0]);
      if (wide) {
        s[r][1] = fma(float4(by), b[1], g * s[r][1]);
        sc[r] = dot_onto(sc[r], s[r][1], c[1]);
        most[r] = max(most[r], most_of(s[r][1]));
      }
      if (dtype == STATE_BF16) {
        s[r][0] = rounded_bf16(s[r][0]);
        s[r][1] = rounded_bf16(s[r][1]);
      }
    }
    const float4 o = fma(float4(d[head]), in, simd_sum(sc));
    if (lane < ROWS && row0 + lane < p.dim) {
      out[ulong(t) * p.out_stride + row0 + lane] =
          lane == 0 ? o.x : lane == 1 ? o.y : lane == 2 ? o.z : o.w;
    }
    if (dtype == STATE_I8) {
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
      const int kept = slot_after(spans, p.spans, span->row + int(t));
      if (kept >= 0) {
        store_rows(state + ulong(kept) * p.slot_bytes, p, head, row0, lane, s, scale);
      }
    }
  }

  simdgroup_barrier(mem_flags::mem_device);  // all lanes have read the scales that one lane writes
  store_rows(slot, p, head, row0, lane, s, scale);
}
