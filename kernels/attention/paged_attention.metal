// Attention over paged keys and values, in float32 from codes that are widened in registers. Segments of 256 positions lie at absolute
// positions; each gives a record of a vector (a query row of a head): the weighted sum of values, the highest score, and the sum of
// weights. Records are merged in order of their segments.
//
// A threadgroup of four simdgroups takes up to 8 vectors of one KV head, and one segment of a long context, or all in turn where there
// are vectors enough to fill the machine: the same steps, so the same bits. For a segment
//   - scores: a simdgroup has 64 positions, a lane two of them, and adds up dimensions in ascending order;
//   - weights: a simdgroup has every fourth vector, a lane every 32nd position; simd_max and simd_sum;
//   - values: a lane has dimensions, of every fourth 32, and adds up positions in ascending order.
// A vector's bits do not depend on the others. Positions that it does not see take no part in its sums, whatever they hold.
#include <metal_stdlib>
#include "common/attention.h"
using namespace metal;

constant uint vectors [[function_constant(8)]];   // of a block, at most 8

constant constexpr uint VECTORS = 8;
constant constexpr uint SEGMENT = 256;
constant constexpr uint SIMDGROUPS = 4;
constant constexpr uint DIMS = 4;   // of a lane: heads of up to 512
constant constexpr uint AHEAD = 4;  // loads of four elements that a lane has under way at a time; STRIP / 4
constant constexpr uint PAGES = SEGMENT / 16 + 1;   // that a segment lies in
constant constexpr int RECORDS = 8;                 // that a thread of the merge has under way

kernel void attend(
    constant AttentionParams& p        [[buffer(0)]],
    device const float* q              [[buffer(1)]],   // [M, H*head_dim]
    device const uchar* k_pages        [[buffer(2)]],
    device const uchar* v_pages        [[buffer(3)]],
    device const AttentionSpan* spans  [[buffer(4)]],
    device const float* sinks          [[buffer(5)]],   // [H], or nothing
    device float* records              [[buffer(6)]],   // [blocks, segments, kv_heads, vectors, head_dim + 2]
    device float* out                  [[buffer(7)]],   // [M, H*head_dim]
    threadgroup float* shared          [[threadgroup(0)]],   // queries [vectors, head_dim], weights [vectors, SEGMENT], 2 [vectors]
    uint3 place                        [[threadgroup_position_in_grid]],   // segment, KV head, block
    uint tid                           [[thread_index_in_threadgroup]],
    uint lane                          [[thread_index_in_simdgroup]],
    uint sg                            [[simdgroup_index_in_threadgroup]]) {
  uint s = 0;
  while (s + 1 < p.spans && int(place.z) >= spans[s + 1].block) {
    s++;
  }
  device const AttentionSpan* span = spans + s;
  device const int* pages = (device const int*)(spans + p.spans) + span->pages;
  const bool split = span->segments != 0;
  const uint head = place.y;
  const uint block = place.z - uint(span->block);
  const uint first = block * vectors;
  const uint count = min(vectors, uint(span->rows) * p.group - first);
  const uint first_pos = uint(span->pos) + first / p.group;
  const uint last_pos = uint(span->pos) + (first + count - 1) / p.group;
  if (place.x >= (split ? uint(span->segments) : 1)) {
    return;
  }
  threadgroup int held[2 * PAGES];   // page tables of this segment and the one before, which some threads may still read
  threadgroup float* weights = shared + vectors * head_dim;
  threadgroup float* highest = weights + vectors * SEGMENT;
  threadgroup float* sums = highest + vectors;

  for (uint i = tid; i < vectors * head_dim; i += 32 * SIMDGROUPS) {
    const uint v = first + min(i / head_dim, count - 1);
    const uint row = uint(span->row) + v / p.group;
    shared[i] = q[ulong(row) * p.q_stride + (head * p.group + v % p.group) * head_dim + i % head_dim] * p.scale;
  }

  // The running totals, for one segment after the other; begun with the sink, a score with a weight and no value.
  float total[VECTORS][DIMS];
  float top[VECTORS];
  float all[VECTORS];
#pragma clang loop unroll(full)
  for (uint v = 0; v < VECTORS; v++) {
    if (v < vectors) {
      const bool sink = p.has_sinks != 0;
      top[v] = sink ? sinks[head * p.group + (first + min(v, count - 1)) % p.group] : LOWEST;
      all[v] = sink ? 1.0f : 0.0f;
#pragma clang loop unroll(full)
      for (uint i = 0; i < DIMS; i++) {
        total[v][i] = 0.0f;
      }
    }
  }

  const uint behind = seen_from(p.window, p.sink_tokens, first_pos) / SEGMENT;   // the first segment behind the sinks'
  const uint apart = p.sink_tokens > 0 && behind > 0 ? 1 : 0;                    // the sinks' segment comes before it
  uint from = 0;
  uint to = apart + last_pos / SEGMENT + 1 - behind;
  if (split) {
    from = place.x;
    to = place.x + 1;
  }
  uint turn = 0;
  for (uint n = from; n < to; n++) {
    uint segment = n < apart ? 0 : behind + n - apart;
    if (split) {
      segment = span->segment > 0 && p.sink_tokens > 0 ? (n == 0 ? 0 : uint(span->segment) + n - 1) : uint(span->segment) + n;
    }
    const uint start = segment * SEGMENT;
    const bool early = is_early(p, start);
    // What the block sees of it.
    Seen any;
    any.from = max(start, seen_from(p.window, p.sink_tokens, first_pos));
    any.to = min(start + SEGMENT, last_pos + 1);
    any.sinks = segment == 0 ? min(p.sink_tokens, last_pos + 1) : 0;
    const bool something = any.from < any.to || any.sinks > 0;
    if (!something && !split) {
      continue;
    }
    turn = PAGES - turn;
    threadgroup int* table = held + turn;
    const uint first_page = start / p.page_tokens;
    if (tid < PAGES) {
      table[tid] = (first_page + tid) * p.page_tokens <= last_pos ? pages[first_page + tid] : 0;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);   // queries and table are here; the weights before have been used

    if (something) {
      // Scores. A lane whose position nobody sees takes one that somebody does, and its score is not used.
      const uint other = any.from < any.to ? any.to - 1 : any.sinks - 1;
      float score[VECTORS][2];
      device const uchar* page[2];
      uint in_page[2];
#pragma clang loop unroll(full)
      for (uint h = 0; h < 2; h++) {
        uint j = start + sg * 64 + h * 32 + lane;
        j = sees(any, j) ? j : other;
        in_page[h] = j % p.page_tokens;
        page[h] = head_page(k_pages, k_format(), p, early, table[j / p.page_tokens - first_page], head);
#pragma clang loop unroll(full)
        for (uint v = 0; v < VECTORS; v++) {
          score[v][h] = 0.0f;
        }
      }
      for (uint d = 0; d < head_dim / 4; d += AHEAD) {
        float4 x[2][AHEAD];
#pragma clang loop unroll(full)
        for (uint e = 0; e < AHEAD; e++) {
          x[0][e] = k_quad(page[0], early, p.page_tokens, in_page[0], d + e);
          x[1][e] = k_quad(page[1], early, p.page_tokens, in_page[1], d + e);
        }
#pragma clang loop unroll(full)
        for (uint e = 0; e < AHEAD; e++) {
#pragma clang loop unroll(full)
          for (uint v = 0; v < VECTORS; v++) {
            if (v < vectors) {
              const float4 y = *(threadgroup const float4*)(shared + v * head_dim + 4 * (d + e));
#pragma clang loop unroll(full)
              for (uint h = 0; h < 2; h++) {
                const float4 k = x[h][e];
                score[v][h] = fma(k.w, y.w, fma(k.z, y.z, fma(k.y, y.y, fma(k.x, y.x, score[v][h]))));
              }
            }
          }
        }
      }
#pragma clang loop unroll(full)
      for (uint v = 0; v < VECTORS; v++) {
        if (v < vectors) {
          weights[v * SEGMENT + sg * 64 + lane] = score[v][0];
          weights[v * SEGMENT + sg * 64 + 32 + lane] = score[v][1];
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // Weights, of positions that a vector sees.
    for (uint v = sg; v < vectors; v += SIMDGROUPS) {
      const uint pos = uint(span->pos) + (first + min(v, count - 1)) / p.group;
      Seen own;
      own.from = max(start, seen_from(p.window, p.sink_tokens, pos));
      own.to = something ? min(start + SEGMENT, pos + 1) : 0;
      own.sinks = segment == 0 ? min(p.sink_tokens, pos + 1) : 0;
      float x[SEGMENT / 32];
      float most = LOWEST;
#pragma clang loop unroll(full)
      for (uint i = 0; i < SEGMENT / 32; i++) {
        x[i] = LOWEST;
        if (sees(own, start + i * 32 + lane)) {
          x[i] = weights[v * SEGMENT + i * 32 + lane];
        }
        most = max(most, x[i]);
      }
      most = simd_max(most);
      float sum = 0.0f;
#pragma clang loop unroll(full)
      for (uint i = 0; i < SEGMENT / 32; i++) {
        const float w = sees(own, start + i * 32 + lane) ? exp(x[i] - most) : 0.0f;
        weights[v * SEGMENT + i * 32 + lane] = w;
        sum += w;
      }
      sum = simd_sum(sum);
      if (lane == 0) {
        highest[v] = most;
        sums[v] = sum;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // Values.
    float part[VECTORS][DIMS];
#pragma clang loop unroll(full)
    for (uint v = 0; v < VECTORS; v++) {
#pragma clang loop unroll(full)
      for (uint i = 0; i < DIMS; i++) {
        part[v][i] = 0.0f;
      }
    }
    const uint low = any.sinks > 0 ? start : any.from / 4 * 4;
    const uint since_last = seen_from(p.window, p.sink_tokens, last_pos);
    for (uint j = low; something && j < max(any.to, any.sinks); j += 4) {
      if (j % STRIP == 0 && j + STRIP <= first_pos + 1 && (j >= since_last || j + STRIP <= p.sink_tokens)) {   // all vectors see all of a strip
        device const uchar* v_page = head_page(v_pages, v_format(), p, early, table[j / p.page_tokens - first_page], head);
#pragma clang loop unroll(full)
        for (uint i = 0; i < DIMS; i++) {
          const uint d = (i * SIMDGROUPS + sg) * 32 + lane;
          if (d < head_dim) {
            float4 x[AHEAD];
#pragma clang loop unroll(full)
            for (uint e = 0; e < AHEAD; e++) {
              x[e] = v_quad(v_page, early, j % p.page_tokens + 4 * e, d);
            }
#pragma clang loop unroll(full)
            for (uint e = 0; e < AHEAD; e++) {
#pragma clang loop unroll(full)
              for (uint v = 0; v < VECTORS; v++) {
                if (v < vectors) {
                  const float4 w = *(threadgroup const float4*)(weights + v * SEGMENT + j - start + 4 * e);
                  part[v][i] = fma(w.w, x[e].w, fma(w.z, x[e].z, fma(w.y, x[e].y, fma(w.x, x[e].x, part[v][i]))));
                }
              }
            }
          }
        }
        j += STRIP - 4;
        continue;
      }
      if (j >= any.sinks && (j + 4 <= any.from || any.from >= any.to)) {
        continue;
      }
      device const uchar* v_page = head_page(v_pages, v_format(), p, early, table[j / p.page_tokens - first_page], head);
      // All vectors see all four, or each takes what it sees.
      const bool whole = j + 4 <= first_pos + 1 && (j >= since_last || j + 4 <= p.sink_tokens);
#pragma clang loop unroll(full)
      for (uint i = 0; i < DIMS; i++) {
        const uint d = (i * SIMDGROUPS + sg) * 32 + lane;
        if (d < head_dim) {
          const float4 x = v_quad(v_page, early, j % p.page_tokens, d);
#pragma clang loop unroll(full)
          for (uint v = 0; v < VECTORS; v++) {
            if (v < vectors) {
              const float4 w = *(threadgroup const float4*)(weights + v * SEGMENT + j - start);
              float sum = part[v][i];
              if (whole) {
                sum = fma(w.w, x.w, fma(w.z, x.z, fma(w.y, x.y, fma(w.x, x.x, sum))));
              } else {
                const uint pos = uint(span->pos) + (first + min(v, count - 1)) / p.group;
                const uint since = seen_from(p.window, p.sink_tokens, pos);
                for (uint e = 0; e < 4; e++) {
                  if (j + e <= pos && (j + e >= since || j + e < p.sink_tokens)) {
                    sum = fma(w[e], x[e], sum);
                  }
                }
              }
              part[v][i] = sum;
            }
          }
        }
      }
    }

#pragma clang loop unroll(full)
    for (uint v = 0; v < VECTORS; v++) {
      if (v >= vectors) {
        continue;
      }
      if (split) {
        device float* record = records + ((ulong(span->record) + ulong(block) * uint(span->segments) + place.x) * p.kv_heads * vectors +
                                          head * vectors + v) * (head_dim + 2);
#pragma clang loop unroll(full)
        for (uint i = 0; i < DIMS; i++) {
          const uint d = (i * SIMDGROUPS + sg) * 32 + lane;
          if (d < head_dim) {
            record[d] = part[v][i];
          }
        }
        if (tid == 0) {
          record[head_dim] = highest[v];
          record[head_dim + 1] = sums[v];
        }
      } else if (sums[v] > 0.0f) {
        const float most = max(top[v], highest[v]);
        const float a = exp(top[v] - most);
        const float b = exp(highest[v] - most);
        top[v] = most;
        all[v] = merged(all[v], a, sums[v], b);
#pragma clang loop unroll(full)
        for (uint i = 0; i < DIMS; i++) {
          total[v][i] = merged(total[v][i], a, part[v][i], b);
        }
      }
    }
  }
  if (split) {
    return;
  }
#pragma clang loop unroll(full)
  for (uint v = 0; v < VECTORS; v++) {
    if (v < vectors && v < count) {
      const uint row = uint(span->row) + (first + v) / p.group;
      device float* o = out + ulong(row) * p.out_stride + (head * p.group + (first + v) % p.group) * head_dim;
#pragma clang loop unroll(full)
      for (uint i = 0; i < DIMS; i++) {
        const uint d = (i * SIMDGROUPS + sg) * 32 + lane;
        if (d < head_dim) {
          o[d] = total[v][i] / all[v];
        }
      }
    }
  }
}

// The records of split spans, in the order of their segments. A threadgroup takes a vector, a thread dimensions.
kernel void attend_merge(
    constant AttentionParams& p        [[buffer(0)]],
    device const AttentionSpan* spans  [[buffer(1)]],
    device const float* sinks          [[buffer(2)]],
    device const float* records        [[buffer(3)]],
    device float* out                  [[buffer(4)]],
    uint3 place                        [[threadgroup_position_in_grid]],   // vector of the block, KV head, block
    uint tid                           [[thread_index_in_threadgroup]],
    uint threads                       [[threads_per_threadgroup]]) {
  uint s = 0;
  while (s + 1 < p.spans && int(place.z) >= spans[s + 1].block) {
    s++;
  }
  device const AttentionSpan* span = spans + s;
  const uint block = place.z - uint(span->block);
  const uint vector = block * vectors + place.x;
  if (span->segments == 0 || vector >= uint(span->rows) * p.group) {
    return;
  }
  const uint h = place.y * p.group + vector % p.group;
  device float* o = out + ulong(uint(span->row) + vector / p.group) * p.out_stride + h * head_dim;
  const uint stride = p.kv_heads * vectors * (head_dim + 2);
  device const float* first = records + (ulong(span->record) + ulong(block) * uint(span->segments)) * stride +
                              (place.y * vectors + place.x) * (head_dim + 2);
  for (uint d = tid; d < head_dim; d += threads) {
    float top = p.has_sinks != 0 ? sinks[h] : LOWEST;
    float all = p.has_sinks != 0 ? 1.0f : 0.0f;
    float total = 0.0f;
    for (int n = 0; n < span->segments; n += RECORDS) {
      float most[RECORDS];
      float sum[RECORDS];
      float value[RECORDS];
#pragma clang loop unroll(full)
      for (int e = 0; e < RECORDS; e++) {
        device const float* record = first + ulong(min(n + e, span->segments - 1)) * stride;
        most[e] = record[head_dim];
        sum[e] = n + e < span->segments ? record[head_dim + 1] : 0.0f;
        value[e] = record[d];
      }
#pragma clang loop unroll(full)
      for (int e = 0; e < RECORDS; e++) {
        if (sum[e] > 0.0f) {
          const float now = max(top, most[e]);
          const float a = exp(top - now);
          const float b = exp(most[e] - now);
          top = now;
          all = merged(all, a, sum[e], b);
          total = merged(total, a, value[e], b);
        }
      }
    }
    o[d] = total / all;
  }
}
