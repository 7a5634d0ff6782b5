// out = silu(sum over t of weight[c, t] * row[p - past + t, c] + bias[c]) with past = taps - 1, or
// the sum itself if the convolution is linear. Rows before the current one are rounded to the type
// of the state. A rounded row depends only on that row, so rows can run in parallel.
//
// Grid: a simdgroup computes 64 channels of a chunk of rows of a span. In int8 these channels share
// a scale. Lane l has channels l and l + 32. The simdgroup processes its rows in order and keeps
// the previous rows in registers. They come from the state, or are rounded again from x if the
// chunk begins within the span. An element is one chain of fused multiply-adds from the oldest tap
// on, so its bits depend only on its inputs.
//
// States inside a span are kept where they come by (keeping), in slots that no span has.
//
// A span of one chunk writes its state in this dispatch. For a span of several chunks a second
// dispatch, conv_keep, writes the state, because the first chunk may still be reading it.
#include <metal_stdlib>
#include "common/state.h"
#include "common/span.h"
using namespace metal;

constant uint dtype [[function_constant(0)]];
constant uint taps [[function_constant(1)]];
constant bool keeping [[function_constant(2)]];   // states inside spans, listed after the spans

constant constexpr int GROUP = 64;  // channels that share a scale, as in state.go
constant constexpr int PAST = 7;    // most rows before the current one

struct ConvParams {
  uint channels;
  uint x_stride;
  uint out_stride;
  uint slot_bytes;
  uint chunk;
  uint linear;  // no SiLU
  uint biased;
  uint spans;
};

// Two channels of a rounded row: values, or for int8 codes with a scale.
struct Rounded {
  float2 values;
  float scale;
};

inline float2 value_of(Rounded k) { return dtype == STATE_I8 ? k.values * k.scale : k.values; }

// Rounds a row. Lanes past the last channel have zeros, which do not change the scale.
inline Rounded round_row(float2 x) {
  Rounded k;
  k.values = x;
  k.scale = 1.0f;
  if (dtype == STATE_BF16) {
    k.values = float2(from_bf16(to_bf16(x.x)), from_bf16(to_bf16(x.y)));
  } else if (dtype == STATE_I8) {
    const float amax = max(simd_max(max(fabs(x.x), fabs(x.y))), LEAST_AMAX);
    const float inverse = LARGEST_CODE / amax;
    k.values = float2(float(to_code(x.x, inverse)), float(to_code(x.y, inverse)));
    k.scale = amax / LARGEST_CODE;
  }
  return k;
}

inline float load_value(device const uchar* slot, uint at, uint rows_of_scales) {
  switch (dtype) {
    case STATE_BF16: return from_bf16(((device const ushort*)slot)[at]);
    case STATE_I8: return float(((device const char*)(slot + rows_of_scales))[at]);
  }
  return ((device const float*)slot)[at];
}

inline void store_value(device uchar* slot, uint at, uint rows_of_scales, float value) {
  switch (dtype) {
    case STATE_BF16: ((device ushort*)slot)[at] = ushort(as_type<uint>(value) >> 16); return;
    case STATE_I8: ((device char*)(slot + rows_of_scales))[at] = char(int(value)); return;
  }
  ((device float*)slot)[at] = value;
}

// The channels and the scale group of a lane.
struct Place {
  uint c0, c1;
  bool has0, has1;
  uint group, groups;
};

inline Place place_of(uint block, uint channels, uint lane) {
  Place at;
  at.group = block;
  at.groups = (channels + GROUP - 1) / GROUP;
  at.c0 = block * GROUP + lane;
  at.c1 = at.c0 + 32;
  at.has0 = at.c0 < channels;
  at.has1 = at.c1 < channels;
  return at;
}

inline Rounded load_row(device const uchar* slot, uint t, Place at, uint channels) {
  const uint scales = (taps - 1) * at.groups * 4;
  Rounded k;
  k.values = float2(at.has0 ? load_value(slot, t * channels + at.c0, scales) : 0.0f,
      at.has1 ? load_value(slot, t * channels + at.c1, scales) : 0.0f);
  k.scale = dtype == STATE_I8 ? ((device const float*)slot)[t * at.groups + at.group] : 1.0f;
  return k;
}

inline void store_row(device uchar* slot, uint t, Place at, uint channels, Rounded k, uint lane) {
  const uint scales = (taps - 1) * at.groups * 4;
  if (at.has0) {
    store_value(slot, t * channels + at.c0, scales, k.values.x);
  }
  if (at.has1) {
    store_value(slot, t * channels + at.c1, scales, k.values.y);
  }
  if (dtype == STATE_I8 && lane == 0) {
    ((device float*)slot)[t * at.groups + at.group] = k.scale;
  }
}

// Stores the last taps - 1 rows, which are the last of `before`.
inline void store_rows(device uchar* slot, Place at, uint channels,
    thread const Rounded (&before)[PAST], uint lane) {
  const int past = int(taps) - 1;
  for (int i = 0; i < PAST; i++) {
    if (i >= PAST - past) {
      store_row(slot, i - (PAST - past), at, channels, before[i], lane);
    }
  }
}

inline float2 x_row(device const float* x, uint row, uint stride, Place at) {
  device const float* r = x + ulong(row) * stride;
  return float2(at.has0 ? r[at.c0] : 0.0f, at.has1 ? r[at.c1] : 0.0f);
}

inline float silu(float x) { return x / (1.0f + exp(-x)); }

kernel void conv(
    constant ConvParams& p       [[buffer(0)]],
    device const float* x        [[buffer(1)]],   // [M, channels]
    device const float* weight   [[buffer(2)]],   // [channels, taps]
    device uchar* state          [[buffer(3)]],   // slots
    device const Span* spans     [[buffer(4)]],
    device float* out            [[buffer(5)]],   // [M, channels]
    device const float* bias     [[buffer(6)]],   // [channels], if biased
    uint3 group                  [[threadgroup_position_in_grid]],   // channels, chunk, span
    uint lane                    [[thread_index_in_simdgroup]],
    uint sg                      [[simdgroup_index_in_threadgroup]],
    uint simdgroups              [[simdgroups_per_threadgroup]]) {
  device const Span* span = spans + group.z;
  const int rows = span->rows;
  const int first = int(group.y * p.chunk);
  const Place at = place_of(group.x * simdgroups + sg, p.channels, lane);
  if (first >= rows || at.group >= at.groups) {
    return;
  }
  const int past = int(taps) - 1;
  const int end = min(rows, first + int(p.chunk));
  x += ulong(span->row) * p.x_stride;
  out += ulong(span->row) * p.out_stride;
  device uchar* slot = state + ulong(span->slot) * p.slot_bytes;

  // before[PAST - 1] is the row before the current one. The first PAST - past entries are not used.
  Rounded before[PAST];
  float2 w[PAST + 1];
  for (int i = 0; i < PAST; i++) {
    const int t = i - (PAST - past);
    if (t < 0) {
      continue;
    }
    w[i] = float2(
        at.has0 ? weight[at.c0 * taps + t] : 0.0f, at.has1 ? weight[at.c1 * taps + t] : 0.0f);
    const int row = first - past + t;
    if (row >= 0) {
      before[i] = round_row(x_row(x, row, p.x_stride, at));
    } else if (span->pos == 0) {
      before[i].values = float2(0.0f);
      before[i].scale = 0.0f;
    } else {
      before[i] = load_row(slot, row + past, at, p.channels);
    }
  }
  w[PAST] = float2(
      at.has0 ? weight[at.c0 * taps + past] : 0.0f, at.has1 ? weight[at.c1 * taps + past] : 0.0f);

  const float2 shift = p.biased != 0
      ? float2(at.has0 ? bias[at.c0] : 0.0f, at.has1 ? bias[at.c1] : 0.0f) : float2(0.0f);

  for (int r = first; r < end; r++) {
    const float2 now = x_row(x, r, p.x_stride, at);
    float2 sum = float2(0.0f);
    for (int i = 0; i < PAST; i++) {
      if (i >= PAST - past) {
        sum = fma(value_of(before[i]), w[i], sum);
      }
    }
    sum = fma(now, w[PAST], sum) + shift;
    if (at.has0) {
      out[ulong(r) * p.out_stride + at.c0] = p.linear != 0 ? sum.x : silu(sum.x);
    }
    if (at.has1) {
      out[ulong(r) * p.out_stride + at.c1] = p.linear != 0 ? sum.y : silu(sum.y);
    }
    for (int i = 0; i + 1 < PAST; i++) {
      if (i >= PAST - past) {
        before[i] = before[i + 1];
      }
    }
    before[PAST - 1] = round_row(now);
    if (keeping) {
      const int kept = slot_after(spans, p.spans, span->row + r);
      if (kept >= 0) {
        store_rows(state + ulong(kept) * p.slot_bytes, at, p.channels, before, lane);
      }
    }
  }
  if (rows <= int(p.chunk)) {
    // all lanes have read the scales that one lane writes
    simdgroup_barrier(mem_flags::mem_device);
    store_rows(slot, at, p.channels, before, lane);
  }
}

// Writes the state of spans of several chunks: their last rows.
kernel void conv_keep(
    constant ConvParams& p       [[buffer(0)]],
    device const float* x        [[buffer(1)]],
    device uchar* state          [[buffer(2)]],
    device const Span* spans     [[buffer(3)]],
    uint3 group                  [[threadgroup_position_in_grid]],   // channels, 0, span
    uint lane                    [[thread_index_in_simdgroup]],
    uint sg                      [[simdgroup_index_in_threadgroup]],
    uint simdgroups              [[simdgroups_per_threadgroup]]) {
  device const Span* span = spans + group.z;
  const int rows = span->rows;
  const Place at = place_of(group.x * simdgroups + sg, p.channels, lane);
  if (rows <= int(p.chunk) || at.group >= at.groups) {
    return;
  }
  device uchar* slot = state + ulong(span->slot) * p.slot_bytes;
  const uint past = taps - 1;
  for (uint t = 0; t < past; t++) {
    store_row(slot, t, at, p.channels,
        round_row(x_row(x, uint(span->row + rows) - past + t, p.x_stride, at)), lane);
  }
}
