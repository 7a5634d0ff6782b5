// Attention over paged keys and values in float32, with codes widened in registers. Scales stay out
// of the sums over codes. The scale of a group of K multiplies that group's part of the score, and
// the scales of V multiply the weights, once for all dimensions of a group.
//
// Segments are 256 positions from a multiple of 256. Each segment gives a record per vector (a
// query row of a head): the weighted sum of values, the highest score, and the sum of weights.
// Records are merged in the order of their segments.
//
// Grid: a threadgroup of two, four or eight simdgroups computes up to 8 vectors of one KV head. It
// computes one segment of a long context, or all segments in order if there are enough vectors to
// fill the GPU. All ways do the same steps and give the same bits. For a segment:
//   - Scores: a lane has SEGMENT / (32 simdgroups) positions and adds dimensions in ascending
//     order.
//   - Weights: the simdgroups take vectors by turns, a lane has every 32nd position. simd_max and
//     simd_sum combine the lanes.
//   - Values: the simdgroups take 32 dimensions by turns, a lane one of them, and it adds positions
//     in ascending order. For biases a lane adds every 32nd position, and simd_sum the lanes.
// The bits of a vector do not depend on other vectors. Positions that it does not see take no part
// in its sums, whatever their contents.
//
// A threadgroup keeps the places of a segment's strips of 16 positions as 32-bit numbers of strips,
// counted across all pages and heads. That suffices for any pool that fits into a Mac: a strip has
// at least 16 * 12 bytes, of 32 dimensions in 2 bits with a scale and a bias, so 2^32 strips are
// 768 GiB. Everything computed from them is in 64 bits.
#include <metal_stdlib>
#include "common/attention.h"
using namespace metal;

constant uint vectors [[function_constant(8)]];   // vectors of a block, at most 8
// Dimensions of values. If there are fewer than head_dim, values are the first elements of keys.
constant uint value_dim [[function_constant(12)]];
// Simdgroups of a threadgroup: 2, 4 or 8. More of them finish a segment sooner, fewer read the
// queries from threadgroup memory less often.
constant uint simdgroups [[function_constant(13)]];

constant constexpr uint VECTORS = 8;
constant constexpr uint SEGMENT = 256;
constant constexpr uint PLACES = 4;   // most positions of a lane: those with two simdgroups
constant constexpr uint WIDE = 2;     // dimensions that a lane adds at a time, of plain values
constant constexpr uint AHEAD = 4;  // loads of four elements in flight per lane: STRIP / 4
constant constexpr uint CHUNK = 32; // positions whose weights a simdgroup scales at a time
constant constexpr float UNSEEN = -1.0f;  // weight of a position that a vector does not see
constant constexpr uint STRIPS = SEGMENT / STRIP;   // strips of a segment
constant constexpr int RECORDS = 16;                // records in flight per thread of the merge

// Returns the index in out where the output of a vector of a head begins.
inline ulong output(
    device const AttentionSpan* span, constant AttentionParams& p, uint head, uint vector) {
  return ulong(uint(span->row) + vector / p.group) * p.out_stride +
      (head * p.group + vector % p.group) * value_dim;
}

// The positions of a lane.
inline uint places() { return SEGMENT / 32 / simdgroups; }

// Loads the words with the codes of dimensions 32b to 32b+31 of position place of a strip.
inline void k_load(thread uint (&words)[8], device const uchar* strip, uint place, uint b) {
  device const uchar* codes = strip + kv_param_bytes(k_format(), head_dim) + b * 64 * k_bits +
      4 * place;
#pragma clang loop unroll(full)
  for (uint i = 0; i < 8; i++) {
    words[i] = i < k_bits ? *(device const uint*)(codes + i * 64) : 0;
  }
}

// The rows of keys or values, numbered across all pages and heads. early selects the pages of the
// Start.
inline device const uchar* head_rows(
    device const uchar* pages, KVFormat f, constant AttentionParams& p, bool early) {
  return early || has_start == 0
      ? pages
      : pages + kv_start_bytes(f, head_dim, p.kv_heads, p.page_tokens, p.start_pages);
}

// Adds the products of dimensions 4q to 4q+3 to each vector's scores of a lane's positions.
inline void add_scores(thread float (&part)[VECTORS][PLACES], threadgroup const float* queries,
    uint q, thread const float4 (&x)[PLACES]) {
#pragma clang loop unroll(full)
  for (uint v = 0; v < VECTORS; v++) {
    if (v < vectors) {
      const float4 y = *(threadgroup const float4*)(queries + v * head_dim + 4 * q);
#pragma clang loop unroll(full)
      for (uint h = 0; h < PLACES; h++) {
        if (h < places()) {
          part[v][h] = fma(x[h].w, y.w,
              fma(x[h].z, y.z, fma(x[h].y, y.y, fma(x[h].x, y.x, part[v][h]))));
        }
      }
    }
  }
}

// Scores of a lane's positions with plain keys. place has their offsets in the segment.
inline void score_numbers(thread float (&score)[VECTORS][PLACES], threadgroup const float* queries,
    device const uchar* rows, bool early, threadgroup const uint* table,
    thread const uint (&place)[PLACES], uint page_tokens, uint start) {
  device const uchar* page[PLACES];
  uint in_page[PLACES];
#pragma clang loop unroll(full)
  for (uint h = 0; h < PLACES && h < places(); h++) {
    in_page[h] = (start + place[h]) % page_tokens;
    page[h] = rows +
        (ulong(table[place[h] / STRIP]) * STRIP + place[h] % STRIP - in_page[h]) *
            kv_row_bytes(early ? kv_start(k_format()) : k_format(), head_dim);
  }
  for (uint d = 0; d < head_dim / 4; d += AHEAD) {
    float4 x[AHEAD][PLACES];
#pragma clang loop unroll(full)
    for (uint e = 0; e < AHEAD; e++) {
#pragma clang loop unroll(full)
      for (uint h = 0; h < PLACES; h++) {
        if (h < places()) {
          x[e][h] = k_numbers(page[h], early, page_tokens, in_page[h], d + e);
        }
      }
    }
#pragma clang loop unroll(full)
    for (uint e = 0; e < AHEAD; e++) {
      add_scores(score, queries, d + e, x[e]);
    }
  }
}

// The same with quantized keys, 32 dimensions at a time. sums has each query's sums over the
// dimensions of a group.
inline void score_codes(thread float (&score)[VECTORS][PLACES], threadgroup const float* queries,
    threadgroup const float* sums, device const uchar* rows, threadgroup const uint* table,
    thread const uint (&place)[PLACES]) {
  device const uchar* strip[PLACES];
  uint next[PLACES][8];
#pragma clang loop unroll(full)
  for (uint h = 0; h < PLACES && h < places(); h++) {
    strip[h] = rows + ulong(table[place[h] / STRIP]) * STRIP * kv_row_bytes(k_format(), head_dim);
    k_load(next[h], strip[h], place[h] % STRIP, 0);
  }
  for (uint g = 0; g < head_dim / k_group; g++) {
    CodeScale scale[PLACES];
    float part[VECTORS][PLACES];
#pragma clang loop unroll(full)
    for (uint h = 0; h < PLACES; h++) {
      if (h < places()) {
        scale[h] = k_scale(strip[h], place[h] % STRIP, g);
      }
#pragma clang loop unroll(full)
      for (uint v = 0; v < VECTORS; v++) {
        part[v][h] = 0.0f;
      }
    }
    for (uint b = g * k_group / 32; b < (g + 1) * k_group / 32; b++) {
      uint words[PLACES][8];
#pragma clang loop unroll(full)
      for (uint h = 0; h < PLACES && h < places(); h++) {
#pragma clang loop unroll(full)
        for (uint i = 0; i < 8; i++) {
          words[h][i] = next[h][i];
        }
        // Load the next codes in the meantime.
        k_load(next[h], strip[h], place[h] % STRIP, min(b + 1, head_dim / 32 - 1));
      }
#pragma clang loop unroll(full)
      for (uint q = 0; q < 8; q++) {
        float4 x[PLACES];
#pragma clang loop unroll(full)
        for (uint h = 0; h < PLACES; h++) {
          if (h < places()) {
            x[h] = code_floats(k_codes(words[h], k_bits, q), code_center(k_bits, k_zero));
          }
        }
        add_scores(part, queries, 8 * b + q, x);
      }
    }
#pragma clang loop unroll(full)
    for (uint v = 0; v < VECTORS; v++) {
      if (v < vectors) {
        const float sum = sums[v * (head_dim / k_group) + g];
#pragma clang loop unroll(full)
        for (uint h = 0; h < PLACES; h++) {
          if (h < places()) {
            score[v][h] = fma(scale[h].scale, part[v][h], fma(scale[h].bias, sum, score[v][h]));
          }
        }
      }
    }
  }
}

// The data of V that a lane loads for 32 positions: the codes of its dimension, four positions per
// word, and the scale of its position.
struct VCodes {
  uint words[CHUNK / 4];
  uint upper[CHUNK / 4];
  CodeScale scale;
};

inline VCodes v_load(
    device const uchar* rows, threadgroup const uint* table, uint bundle, uint lane) {
  const uint low = kv_low(v_bits);
  const ulong strip_bytes = STRIP * kv_row_bytes(v_format(), head_dim);
  VCodes c;
#pragma clang loop unroll(full)
  for (uint t = 0; t < CHUNK / STRIP; t++) {
    device const uchar* codes = rows + table[t] * strip_bytes +
        kv_param_bytes(v_format(), head_dim) + bundle * 2 * v_bits;
#pragma clang loop unroll(full)
    for (uint b = 0; b < STRIP / 4; b++) {
      device const uint* words = (device const uint*)(codes + b * 16 * v_bits);
      c.words[t * (STRIP / 4) + b] = words[v_word(low, lane)];
      c.upper[t * (STRIP / 4) + b] = low < v_bits ? words[4 * low + v_word(v_bits - low, lane)] : 0;
    }
  }
  c.scale = v_scale(rows + table[lane / STRIP] * strip_bytes, lane % STRIP, bundle / v_group);
  return c;
}

inline float4 v_code_quad(thread const VCodes& c, uint quad, uint lane) {
  const uint low = kv_low(v_bits);
  return code_floats(
      kv_codes(v_bits, c.words[quad] >> v_shift(low, lane),
          low < v_bits ? c.upper[quad] >> v_shift(v_bits - low, lane) : 0, v_order()),
      code_center(v_bits, v_zero));
}

// Returns dimension d of the values at four positions of the keys: those from place on of a strip.
inline float4 latent_values(device const uchar* rows, bool early, uint page_tokens, uint strip,
    uint place, uint d) {
  float4 x;
  if (!k_coded(early)) {
    const KVFormat f = early ? kv_start(k_format()) : k_format();
    const uint strips = page_tokens / STRIP;
    device const uchar* page = rows +
        ulong(strip / strips) * page_tokens * kv_row_bytes(f, head_dim);
    for (uint i = 0; i < 4; i++) {
      x[i] = kv_plain(f.dtype, page, d * page_tokens + strip % strips * STRIP + place + i);
    }
    return x;
  }
  rows += ulong(strip) * STRIP * kv_row_bytes(k_format(), head_dim);
  for (uint i = 0; i < 4; i++) {
    const CodeScale s = k_scale(rows, place + i, d / k_group);
    const float4 codes = code_floats(
        k_codes_at(rows + kv_param_bytes(k_format(), head_dim) + 4 * (place + i), k_bits, d / 4),
        code_center(k_bits, k_zero));
    x[i] = fma(codes[d % 4], s.scale, s.bias);
  }
  return x;
}

// The dimensions that a lane adds at a time. The weights of coded values are scaled for one group
// of dimensions.
inline uint wide() {
  return v_bits == 0 && value_dim == head_dim && value_dim > 32 * simdgroups ? WIDE : 1;
}

// Adds a strip of a lane's dimensions to each vector's sums. The weights of vectors are stride
// apart.
inline void add_values(thread float (&part)[WIDE][VECTORS], thread const float4 (&x)[WIDE][AHEAD],
    threadgroup const float* weights, uint stride) {
#pragma clang loop unroll(full)
  for (uint e = 0; e < AHEAD; e++) {
#pragma clang loop unroll(full)
    for (uint v = 0; v < VECTORS; v++) {
      if (v < vectors) {
        const float4 w = *(threadgroup const float4*)(weights + v * stride + 4 * e);
#pragma clang loop unroll(full)
        for (uint b = 0; b < WIDE; b++) {
          if (b < wide()) {
            part[b][v] = fma(w.w, x[b][e].w,
                fma(w.z, x[b][e].z, fma(w.y, x[b][e].y, fma(w.x, x[b][e].x, part[b][v]))));
          }
        }
      }
    }
  }
}

// The same for positions that the vector sees. `own` holds UNSEEN for all others.
inline void add_seen_values(thread float (&part)[WIDE][VECTORS],
    thread const float4 (&x)[WIDE][AHEAD], threadgroup const float* weights, uint stride,
    threadgroup const float* own) {
#pragma clang loop unroll(full)
  for (uint v = 0; v < VECTORS; v++) {
    if (v < vectors) {
#pragma clang loop unroll(full)
      for (uint n = 0; n < STRIP; n++) {
#pragma clang loop unroll(full)
        for (uint b = 0; b < WIDE; b++) {
          if (b < wide()) {
            part[b][v] = own[v * SEGMENT + n] == UNSEEN
                ? part[b][v]
                : fma(weights[v * stride + n], x[b][n / 4][n % 4], part[b][v]);
          }
        }
      }
    }
  }
}

kernel void attend(
    constant AttentionParams& p        [[buffer(0)]],
    device const float* q              [[buffer(1)]],   // [M, H*head_dim]
    device const uchar* k_pages        [[buffer(2)]],
    device const uchar* v_pages        [[buffer(3)]],   // none if values are part of the keys
    device const AttentionSpan* spans  [[buffer(4)]],
    device const float* sinks          [[buffer(5)]],   // [H], or none
    // [blocks, segments, kv_heads, vectors, value_dim + 2]
    device float* records              [[buffer(6)]],
    device float* out                  [[buffer(7)]],   // [M, H*value_dim]
    // queries [vectors, head_dim], weights [vectors, SEGMENT], then scaled, highest, sums, queries
    threadgroup float* shared          [[threadgroup(0)]],
    // segment, KV head, block
    uint3 place                        [[threadgroup_position_in_grid]],
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
  device float* record = records +
      ((ulong(span->record) + ulong(block) * uint(span->segments) + place.x) * p.kv_heads + head) *
          vectors * (value_dim + 2);
  // The strips of this segment, and of the previous one, which some threads may still read.
  threadgroup uint held[2 * STRIPS];
  threadgroup float* weights = shared + vectors * head_dim;
  // This simdgroup's part of [simdgroups, vectors, CHUNK].
  threadgroup float* scaled = weights + vectors * SEGMENT + sg * vectors * CHUNK;
  threadgroup float* highest = weights + vectors * (SEGMENT + simdgroups * CHUNK);  // [vectors]
  threadgroup float* sums = highest + vectors;                                      // [vectors]
  // [vectors, head_dim / k_group]: sums of a query over the dimensions of a group.
  threadgroup float* queries = sums + vectors;

  for (uint i = tid; i < vectors * head_dim; i += 32 * simdgroups) {
    const uint v = first + min(i / head_dim, count - 1);
    const uint row = uint(span->row) + v / p.group;
    shared[i] =
        q[ulong(row) * p.q_stride + (head * p.group + v % p.group) * head_dim + i % head_dim] *
        p.scale;
  }

  if (k_bits != 0) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = tid; i < vectors * head_dim / k_group; i += 32 * simdgroups) {
      threadgroup const float4* x = (threadgroup const float4*)(shared + i * k_group);
      float4 sum = 0.0f;
      for (uint d = 0; d < k_group / 4; d++) {
        sum += x[d];
      }
      queries[i] = (sum.x + sum.y) + (sum.z + sum.w);
    }
  }

  // The running totals over segments in order. They begin with the sink: a score with weight 1 and
  // no value. The totals of values are in out, and a thread reads only elements that it has
  // written.
  float top[VECTORS];
  float all[VECTORS];
#pragma clang loop unroll(full)
  for (uint v = 0; v < VECTORS; v++) {
    if (v < vectors) {
      const bool sink = p.has_sinks != 0;
      top[v] = sink ? sinks[head * p.group + (first + min(v, count - 1)) % p.group] : LOWEST;
      all[v] = sink ? 1.0f : 0.0f;
      for (uint d = sg * 32 + lane; !split && v < count && d < value_dim; d += simdgroups * 32) {
        out[output(span, p, head, first + v) + d] = 0.0f;
      }
    }
  }

  // The first segment that the block sees, apart from the sink tokens.
  const uint behind = seen_from(p.window, p.sink_tokens, first_pos) / SEGMENT;
  // 1 if the segment of the sink tokens is a separate one before it.
  const uint apart = p.sink_tokens > 0 && behind > 0 ? 1 : 0;
  uint from = 0;
  const uint last_to = seen_to(p, span, last_pos);
  uint to = apart + (last_to - 1) / SEGMENT + 1 - behind;
  if (split) {
    from = place.x;
    to = place.x + 1;
  }
  uint turn = 0;
  for (uint n = from; n < to; n++) {
    uint segment = n < apart ? 0 : behind + n - apart;
    if (split) {
      segment = span->segment > 0 && p.sink_tokens > 0 ? (n == 0 ? 0 : uint(span->segment) + n - 1)
                                                       : uint(span->segment) + n;
    }
    const uint start = segment * SEGMENT;
    const bool early = is_early(p, start);
    // The positions of the segment that the block sees.
    Seen any;
    any.from = max(start, seen_from(p.window, p.sink_tokens, first_pos));
    any.to = min(start + SEGMENT, last_to);
    any.sinks = segment == 0 ? min(p.sink_tokens, last_pos + 1) : 0;
    const bool something = any.from < any.to || any.sinks > 0;
    if (!something && !split) {
      continue;
    }
    device const uchar* k_rows = head_rows(k_pages, k_format(), p, early);
    device const uchar* v_rows = head_rows(v_pages, v_format(), p, early);
    turn = STRIPS - turn;
    threadgroup uint* table = held + turn;
    if (tid < STRIPS) {
      const uint j = start + tid * STRIP;
      table[tid] = j < last_to
          ? (uint(pages[j / p.page_tokens]) * p.kv_heads + head) * (p.page_tokens / STRIP) +
              j % p.page_tokens / STRIP
          : 0;
    }
    // Queries and table are written, and the previous weights are no longer in use.
    threadgroup_barrier(mem_flags::mem_threadgroup);

    if (something) {
      // Scores. A lane whose position no vector sees computes the score of another position, which
      // is not used.
      const uint other = any.from < any.to ? any.to - 1 : any.sinks - 1;
      float score[VECTORS][PLACES];
      uint place[PLACES];
#pragma clang loop unroll(full)
      for (uint h = 0; h < PLACES; h++) {
        const uint j = start + min((sg * places() + h) * 32 + lane, SEGMENT - 1);
        place[h] = (sees(any, j) ? j : other) - start;
#pragma clang loop unroll(full)
        for (uint v = 0; v < VECTORS; v++) {
          score[v][h] = 0.0f;
        }
      }
      if (k_coded(early)) {
        score_codes(score, shared, queries, k_rows, table, place);
      } else {
        score_numbers(score, shared, k_rows, early, table, place, p.page_tokens, start);
      }
#pragma clang loop unroll(full)
      for (uint v = 0; v < VECTORS; v++) {
        if (v < vectors) {
#pragma clang loop unroll(full)
          for (uint h = 0; h < PLACES; h++) {
            if (h < places()) {
              weights[v * SEGMENT + (sg * places() + h) * 32 + lane] = score[v][h];
            }
          }
        }
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // Weights of the positions that a vector sees.
    for (uint v = sg; v < vectors; v += simdgroups) {
      const uint pos = uint(span->pos) + (first + min(v, count - 1)) / p.group;
      Seen own;
      own.from = max(start, seen_from(p.window, p.sink_tokens, pos));
      own.to = something ? min(start + SEGMENT, seen_to(p, span, pos)) : 0;
      own.sinks = segment == 0 ? min(p.sink_tokens, pos + 1) : 0;
      float x[SEGMENT / 32];
      float most = LOWEST;
#pragma clang loop unroll(full)
      for (uint i = 0; i < SEGMENT / 32; i++) {
        x[i] = LOWEST;
        if (sees(own, start + i * 32 + lane)) {
          x[i] = capped(p, weights[v * SEGMENT + i * 32 + lane]);
        }
        most = max(most, x[i]);
      }
      most = simd_max(most);
      float sum = 0.0f;
#pragma clang loop unroll(full)
      for (uint i = 0; i < SEGMENT / 32; i++) {
        const bool seen = sees(own, start + i * 32 + lane);
        const float w = exp(x[i] - most);
        weights[v * SEGMENT + i * 32 + lane] = seen ? w : UNSEEN;
        sum += seen ? w : 0.0f;
      }
      sum = simd_sum(sum);
      if (lane == 0) {
        highest[v] = most;
        sums[v] = sum;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    // The factors for merging this segment with the totals.
    float old[VECTORS];
    float young[VECTORS];
#pragma clang loop unroll(full)
    for (uint v = 0; v < VECTORS; v++) {
      old[v] = 1.0f;
      young[v] = 0.0f;
      if (v < vectors && !split && sums[v] > 0.0f) {
        const float most = max(top[v], highest[v]);
        old[v] = exp(top[v] - most);
        young[v] = exp(highest[v] - most);
        top[v] = most;
        all[v] = merged(all[v], old[v], sums[v], young[v]);
      }
    }

    // Values. A strip that all vectors see completely needs no check of single positions.
    const uint since_last = seen_from(p.window, p.sink_tokens, last_pos);
    for (uint bundle = sg * 32; bundle < value_dim; bundle += simdgroups * 32 * wide()) {
      const uint d = bundle + lane;
      float part[WIDE][VECTORS];
      float biases[VECTORS];
#pragma clang loop unroll(full)
      for (uint v = 0; v < VECTORS; v++) {
        biases[v] = 0.0f;
#pragma clang loop unroll(full)
        for (uint b = 0; b < WIDE; b++) {
          part[b][v] = 0.0f;
        }
      }
      VCodes next;
      if (v_coded(early) && something) {
        next = v_load(v_rows, table, bundle, lane);
      }
      for (uint c = 0; c < SEGMENT; c += CHUNK) {
        VCodes codes;
        if (v_coded(early) && something) {
          codes = next;
          // Load the next codes in the meantime.
          next = v_load(v_rows, table + min(c + CHUNK, SEGMENT - CHUNK) / STRIP, bundle, lane);
        }
        const uint j = start + c;
        if (!something || ((j >= any.to || j + CHUNK <= any.from) && j >= any.sinks)) {
          continue;   // no vector sees any of it
        }
        if (v_coded(early)) {
          // The weights of the previous chunk are no longer in use.
          simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma clang loop unroll(full)
          for (uint v = 0; v < VECTORS; v++) {
            if (v < vectors) {
              const float w = weights[v * SEGMENT + c + lane];
              scaled[v * CHUNK + lane] = w * codes.scale.scale;
              biases[v] = w == UNSEEN ? biases[v] : fma(w, codes.scale.bias, biases[v]);
            }
          }
          simdgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (d >= value_dim) {
          continue;
        }
#pragma clang loop unroll(full)
        for (uint t = 0; t < CHUNK; t += STRIP) {
          const uint strip = j + t;
          const bool whole = strip + STRIP <= seen_to(p, span, first_pos) &&
              (strip >= since_last || strip + STRIP <= p.sink_tokens);
          if (!whole && (strip >= any.to || strip + STRIP <= any.from) && strip >= any.sinks) {
            continue;
          }
          float4 x[WIDE][AHEAD];
#pragma clang loop unroll(full)
          for (uint e = 0; e < AHEAD; e++) {
            if (value_dim != head_dim) {
              x[0][e] =
                  latent_values(k_rows, early, p.page_tokens, table[(c + t) / STRIP], 4 * e, d);
            } else if (v_coded(early)) {
              x[0][e] = v_code_quad(codes, t / 4 + e, lane);
            } else {
#pragma clang loop unroll(full)
              for (uint b = 0; b < WIDE; b++) {
                if (b < wide()) {
                  x[b][e] = v_numbers(v_rows, early,
                      ulong(table[(c + t) / STRIP]) * STRIP + 4 * e,
                      min(d + b * simdgroups * 32, value_dim - 1));
                }
              }
            }
          }
          threadgroup const float* own = weights + c + t;
          threadgroup const float* w = v_coded(early) ? scaled + t : own;
          const uint stride = v_coded(early) ? CHUNK : SEGMENT;
          if (whole) {
            add_values(part, x, w, stride);
          } else {
            add_seen_values(part, x, w, stride, own);
          }
        }
      }
      if (v_coded(early)) {
        simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma clang loop unroll(full)
        for (uint v = 0; v < VECTORS; v++) {
          if (v < vectors) {
            scaled[v * CHUNK + lane] = biases[v];
          }
        }
        for (uint v = 0; v < vectors; v++) {
          const float sum = simd_sum(scaled[v * CHUNK + lane]);
          if (lane == 0) {
            scaled[v * CHUNK] = sum;
          }
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
      }
#pragma clang loop unroll(full)
      for (uint v = 0; v < VECTORS; v++) {
        if (v < vectors) {
#pragma clang loop unroll(full)
          for (uint b = 0; b < WIDE; b++) {
            const uint at = d + b * simdgroups * 32;
            const float value = v_coded(early) ? part[b][v] + scaled[v * CHUNK] : part[b][v];
            if (b < wide() && at < value_dim && split) {
              record[v * (value_dim + 2) + at] = value;
            } else if (b < wide() && at < value_dim && v < count && sums[v] > 0.0f) {
              device float* o = out + output(span, p, head, first + v) + at;
              *o = merged(*o, old[v], value, young[v]);
            }
          }
        }
      }
    }
    if (split && tid < vectors) {
      record[tid * (value_dim + 2) + value_dim] = highest[tid];
      record[tid * (value_dim + 2) + value_dim + 1] = sums[tid];
    }
  }
#pragma clang loop unroll(full)
  for (uint v = 0; v < VECTORS; v++) {
    if (!split && v < vectors && v < count) {
      for (uint d = sg * 32 + lane; d < value_dim; d += simdgroups * 32) {
        device float* o = out + output(span, p, head, first + v) + d;
        *o = *o / all[v];
      }
    }
  }
}

// Merges the records of split spans in the order of their segments. A threadgroup has one vector,
// and a thread has every threads-th dimension.
kernel void attend_merge(
    constant AttentionParams& p        [[buffer(0)]],
    device const AttentionSpan* spans  [[buffer(1)]],
    device const float* sinks          [[buffer(2)]],
    device const float* records        [[buffer(3)]],
    device float* out                  [[buffer(4)]],
    // vector of the block, KV head, block
    uint3 place                        [[threadgroup_position_in_grid]],
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
  device float* o = out + ulong(uint(span->row) + vector / p.group) * p.out_stride + h * value_dim;
  const uint stride = p.kv_heads * vectors * (value_dim + 2);
  device const float* first = records +
      (ulong(span->record) + ulong(block) * uint(span->segments)) * stride +
      (place.y * vectors + place.x) * (value_dim + 2);
  for (uint d = tid; d < value_dim; d += threads) {
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
        most[e] = record[value_dim];
        sum[e] = n + e < span->segments ? record[value_dim + 1] : 0.0f;
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
