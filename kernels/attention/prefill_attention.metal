// Attention of prompt rows over paged keys and values, on simdgroup matrices in float32. Tiles are
// 64 positions from a multiple of 64. A vector (a query row of a head) processes the tiles that it
// sees in order, by online softmax. Each segment of 2,048 positions starts new sums, and segments
// are merged in order as in paged_attention.metal. So several threadgroups can share the segments
// of a short prompt after a long context, with the same bits.
//
// Grid: a threadgroup of four simdgroups computes 32 vectors of one KV head. For a tile:
//   - Scores [32, 64]: queries and keys go through threadgroup memory, 32 dimensions at a time. A
//     simdgroup has 16 vectors by 32 positions.
//   - Weights: four threads of a simdgroup share a vector, with 16 positions each.
//   - Values: 32 positions by 64 dimensions at a time. A simdgroup keeps the sums of 16 vectors by
//     half of all dimensions in registers. When a vector's highest score grows, its sums are
//     multiplied with a diagonal matrix.
// Positions that a vector does not see have weight 0, and a matrix product adds 0 times their
// value. That does not change the bits if the value is finite. So values that are not finite or
// beyond WILD are replaced by 0, and a vector that sees such a value or score becomes NaN.
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
#include "common/attention.h"
using namespace metal;

constant constexpr uint ROWS = 32;
constant constexpr uint TILE = 64;
constant constexpr uint SEGMENT = 2048;
constant constexpr uint SLICE = 32;          // dimensions of queries and keys, positions of values
// stride of rows of SLICE floats, to avoid bank conflicts
constant constexpr uint KEY_PITCH = 36;
constant constexpr uint PITCH = 68;          // stride of rows of 64 floats
constant constexpr uint MATRICES = 16;       // 8-column matrices of sums of a simdgroup: D <= 256
constant constexpr float WILD = 1.0e30f;

inline bool tame(float x) { return x <= WILD && x >= -WILD; }  // false for NaN

kernel void attend_prefill(
    constant AttentionParams& p        [[buffer(0)]],
    device const float* q              [[buffer(1)]],   // [M, H*head_dim]
    device const uchar* k_pages        [[buffer(2)]],
    device const uchar* v_pages        [[buffer(3)]],
    device const AttentionSpan* spans  [[buffer(4)]],
    device const float* sinks          [[buffer(5)]],   // [H], or none
    // [blocks, segments, kv_heads, ROWS, head_dim + 2]
    device float* records              [[buffer(6)]],
    device float* out                  [[buffer(7)]],   // [M, H*head_dim]
    // segment, KV head, block
    uint3 place                        [[threadgroup_position_in_grid]],
    uint tid                           [[thread_index_in_threadgroup]],
    uint lane                          [[thread_index_in_simdgroup]],
    uint sg                            [[simdgroup_index_in_threadgroup]]) {
  // A slice of queries and keys, of values, or of sums.
  threadgroup float staged[(ROWS + TILE) * KEY_PITCH];
  threadgroup float scores[ROWS * PITCH];                // then weights
  threadgroup float factors[ROWS * 8];                   // diagonal matrices
  threadgroup uint grown[4];                             // per 8 vectors: whether a factor is not 1
  threadgroup uint wild[4];                              // per simdgroup: a bit per wild position
  threadgroup float* keys = staged + ROWS * KEY_PITCH;

  uint s = 0;
  while (s + 1 < p.spans && int(place.z) >= spans[s + 1].block) {
    s++;
  }
  device const AttentionSpan* span = spans + s;
  device const int* pages = (device const int*)(spans + p.spans) + span->pages;
  const bool split = span->segments != 0;
  if (place.x >= (split ? uint(span->segments) : 1)) {
    return;
  }
  const uint head = place.y;
  const uint block = place.z - uint(span->block);
  const uint first = block * ROWS;
  const uint count = min(ROWS, uint(span->rows) * p.group - first);
  const uint first_pos = uint(span->pos) + first / p.group;
  const uint last_pos = uint(span->pos) + (first + count - 1) / p.group;

  // The vector that this thread loads and weighs, together with three others of its simdgroup, and
  // the vector's totals.
  const uint row = tid / 4;
  const uint part = tid % 4;
  const bool live = row < count;
  const uint vector = first + min(row, count - 1);
  const uint h = head * p.group + vector % p.group;
  const uint pos = uint(span->pos) + vector / p.group;
  device const float* own_q = q + ulong(uint(span->row) + vector / p.group) * p.q_stride +
      h * head_dim;
  device float* own_out = out + ulong(uint(span->row) + vector / p.group) * p.out_stride +
      h * head_dim;
  float top = p.has_sinks != 0 ? sinks[h] : LOWEST;   // of all segments so far
  float all = p.has_sinks != 0 ? 1.0f : 0.0f;
  bool begun = false;                                 // own_out holds the sum of earlier segments

  // The rows and columns of matrices that this simdgroup computes.
  const uint sub_row = sg / 2 * 16;
  const uint sub_col = sg % 2 * 32;

  // The first segment that the block sees, apart from the sink tokens.
  const uint behind = seen_from(p.window, p.sink_tokens, first_pos) / SEGMENT;
  // 1 if the segment of the sink tokens is a separate one before it.
  const uint apart = p.sink_tokens > 0 && behind > 0 ? 1 : 0;
  const uint last_to = seen_to(p, span, last_pos);
  const uint end = split ? place.x + 1 : apart + (last_to - 1) / SEGMENT + 1 - behind;
  for (uint n = split ? place.x : 0; n < end; n++) {
    uint segment = n < apart ? 0 : behind + n - apart;
    if (split) {
      segment = span->segment > 0 && p.sink_tokens > 0 ? (n == 0 ? 0 : uint(span->segment) + n - 1)
                                                       : uint(span->segment) + n;
    }
    float most = LOWEST;
    float sum = 0.0f;
    bool lost = false;   // the vector saw a wild value or score
    simdgroup_float8x8 o[2][MATRICES];
#pragma clang loop unroll(full)
    for (uint i = 0; i < 2; i++) {
#pragma clang loop unroll(full)
      for (uint j = 0; j < MATRICES; j++) {
        o[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
      }
    }

    // The tiles that any vector sees, and before them tile 0 if it has only sink tokens to see.
    const uint from = max(segment * SEGMENT, seen_from(p.window, p.sink_tokens, first_pos)) / TILE;
    const uint to = (min(segment * SEGMENT + SEGMENT, last_to) + TILE - 1) / TILE;
    const uint extra = segment == 0 && p.sink_tokens > 0 && from > 0 ? 1 : 0;
    for (uint tile = 0; tile < extra + (to > from ? to - from : 0); tile++) {
      const uint t = tile < extra ? 0 : from + tile - extra;
      const uint start = t * TILE;
      const bool early = is_early(p, start);
      Seen any;
      any.from = max(start, seen_from(p.window, p.sink_tokens, first_pos));
      any.to = min(start + TILE, last_to);
      any.sinks = t == 0 ? min(p.sink_tokens, last_pos + 1) : 0;

      // Scores. Positions that no vector sees are not read.
      const uint k_pos = start + tid % TILE;
      const bool k_seen = sees(any, k_pos);
      device const uchar* k_page = k_pages;
      if (k_seen) {
        k_page = head_page(k_pages, k_format(), p, early, pages[k_pos / p.page_tokens], head);
      }
      simdgroup_float8x8 score[2][4];
#pragma clang loop unroll(full)
      for (uint i = 0; i < 2; i++) {
#pragma clang loop unroll(full)
        for (uint j = 0; j < 4; j++) {
          score[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        }
      }
      for (uint dim = 0; dim < head_dim; dim += SLICE) {
#pragma clang loop unroll(full)
        for (uint i = 0; i < 2; i++) {
          const uint d = part * 8 + 4 * i;
          float4 x = float4(0.0f);
          if (live && dim + d < head_dim) {
            x = float4(own_q[dim + d], own_q[dim + d + 1], own_q[dim + d + 2], own_q[dim + d + 3]) *
                p.scale;
          }
          *(threadgroup float4*)(staged + row * KEY_PITCH + d) = x;
        }
#pragma clang loop unroll(full)
        for (uint i = 0; i < 4; i++) {
          const uint d = tid / TILE * 16 + 4 * i;
          float4 x = float4(0.0f);
          if (k_seen && dim + d < head_dim) {
            x = k_values(k_page, early, p.page_tokens, k_pos % p.page_tokens, (dim + d) / 4);
          }
          *(threadgroup float4*)(keys + tid % TILE * KEY_PITCH + d) = x;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint d = 0; d < SLICE; d += 8) {
          if (dim + d < head_dim) {
            simdgroup_float8x8 a[2];
            simdgroup_float8x8 b[4];
#pragma clang loop unroll(full)
            for (uint i = 0; i < 2; i++) {
              simdgroup_load(a[i], staged + (sub_row + 8 * i) * KEY_PITCH + d, KEY_PITCH);
            }
#pragma clang loop unroll(full)
            for (uint j = 0; j < 4; j++) {
              simdgroup_load(
                  b[j], keys + (sub_col + 8 * j) * KEY_PITCH + d, KEY_PITCH, ulong2(0, 0), true);
            }
#pragma clang loop unroll(full)
            for (uint i = 0; i < 2; i++) {
#pragma clang loop unroll(full)
              for (uint j = 0; j < 4; j++) {
                simdgroup_multiply_accumulate(score[i][j], a[i], b[j], score[i][j]);
              }
            }
          }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
      }
#pragma clang loop unroll(full)
      for (uint i = 0; i < 2; i++) {
#pragma clang loop unroll(full)
        for (uint j = 0; j < 4; j++) {
          simdgroup_store(score[i][j], scores + (sub_row + 8 * i) * PITCH + sub_col + 8 * j, PITCH);
        }
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);

      // Weights of the positions that the vector sees.
      Seen own;
      own.from = max(start, seen_from(p.window, p.sink_tokens, pos));
      own.to = live ? min(start + TILE, seen_to(p, span, pos)) : 0;
      own.sinks = live && t == 0 ? min(p.sink_tokens, pos + 1) : 0;
      threadgroup float* line = scores + row * PITCH + part * 16;
      float x[16];
      float highest = LOWEST;
      for (uint i = 0; i < 16; i++) {
        x[i] = LOWEST;
        if (sees(own, start + part * 16 + i)) {
          const float y = capped(p, line[i]);
          x[i] = tame(y) ? y : LOWEST;
          lost = lost || !tame(y);
        }
        highest = max(highest, x[i]);
      }
      highest = max(highest, simd_shuffle_xor(highest, 1));
      highest = max(highest, simd_shuffle_xor(highest, 2));
      highest = max(highest, most);
      const float factor = exp(most - highest);
      most = highest;
      float weight = 0.0f;
      for (uint i = 0; i < 16; i++) {
        const float w = x[i] > LOWEST ? exp(x[i] - most) : 0.0f;
        line[i] = w;
        weight += w;
      }
      weight += simd_shuffle_xor(weight, 1);
      weight += simd_shuffle_xor(weight, 2);
      sum = fma(sum, factor, weight);
      factors[row * 8 + part * 2] = row % 8 == part * 2 ? factor : 0.0f;
      factors[row * 8 + part * 2 + 1] = row % 8 == part * 2 + 1 ? factor : 0.0f;
      const bool grows = simd_any(factor != 1.0f);
      if (lane == 0) {
        grown[sg] = grows ? 1 : 0;
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);

#pragma clang loop unroll(full)
      for (uint i = 0; i < 2; i++) {
        if (grown[sub_row / 8 + i] != 0) {
          simdgroup_float8x8 a;
          simdgroup_load(a, factors + (sub_row + 8 * i) * 8, 8);
#pragma clang loop unroll(full)
          for (uint j = 0; j < MATRICES; j++) {
            if (j / 4 * 64 + sub_col + j % 4 * 8 < head_dim) {
              simdgroup_multiply(o[i][j], a, o[i][j]);
            }
          }
        }
      }

      // Values. Each thread loads one dimension of 16 positions of a slice.
      uint met = 0;
      for (uint half_tile = 0; half_tile < 2; half_tile++) {
#pragma clang loop unroll(full)
        for (uint dims = 0; dims < MATRICES / 4; dims++) {
          const uint dim = dims * 64;
          if (dim < head_dim) {
            const uint d = dim + tid % 64;
#pragma clang loop unroll(full)
            for (uint i = 0; i < 4; i++) {
              const uint at = tid / 64 * 16 + 4 * i;
              const uint j = start + half_tile * SLICE + at;
              bool seen[4];
#pragma clang loop unroll(full)
              for (uint e = 0; e < 4; e++) {
                seen[e] = sees(any, j + e);
              }
              float4 v = float4(0.0f);
              if (d < head_dim && (seen[0] || seen[1] || seen[2] || seen[3])) {
                v = v_values(
                    head_page(v_pages, v_format(), p, early, pages[j / p.page_tokens], head), early,
                    j % p.page_tokens, d);
              }
#pragma clang loop unroll(full)
              for (uint e = 0; e < 4; e++) {
                const bool good = seen[e] && tame(v[e]);
                met |= seen[e] && !good ? 1u << (half_tile * 16 + 4 * i + e) : 0;
                staged[(at + e) * PITCH + tid % 64] = good ? v[e] : 0.0f;
              }
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            for (uint k = 0; k < SLICE; k += 8) {
              simdgroup_float8x8 a[2];
#pragma clang loop unroll(full)
              for (uint i = 0; i < 2; i++) {
                simdgroup_load(
                    a[i], scores + (sub_row + 8 * i) * PITCH + half_tile * SLICE + k, PITCH);
              }
#pragma clang loop unroll(full)
              for (uint j = 0; j < 4; j++) {
                if (dim + sub_col + 8 * j < head_dim) {
                  simdgroup_float8x8 b;
                  simdgroup_load(b, staged + k * PITCH + sub_col + 8 * j, PITCH);
#pragma clang loop unroll(full)
                  for (uint i = 0; i < 2; i++) {
                    simdgroup_multiply_accumulate(o[i][4 * dims + j], a[i], b, o[i][4 * dims + j]);
                  }
                }
              }
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
          }
        }
      }
      met = simd_or(met);
      if (lane == 0) {
        wild[sg] = met;
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      const uint low = wild[0] | wild[1];    // the first 16 positions of each slice
      const uint high = wild[2] | wild[3];
      if ((low | high) != 0) {
        for (uint i = 0; i < TILE; i++) {
          const uint bits = i / 16 % 2 == 0 ? low : high;
          lost = lost || (((bits >> (i / SLICE * 16 + i % 16)) & 1) != 0 && sees(own, start + i));
        }
      }
    }

    // Write the segment as a record, or merge it with the totals.
    uint gone = lost ? 1 : 0;
    gone |= simd_shuffle_xor(gone, 1);
    gone |= simd_shuffle_xor(gone, 2);
    if (gone != 0) {
      most = NAN;
      sum = 1.0f;
    }
    const float higher = max(top, most);
    const float a = exp(top - higher);
    const float b = exp(most - higher);
    const bool joins = sum > 0.0f;
    if (joins) {
      top = higher;
      all = merged(all, a, sum, b);
    }
    device float* record = records +
        ((ulong(span->record) + ulong(block) * uint(span->segments) + place.x) * p.kv_heads * ROWS +
            head * ROWS + row) *
            (head_dim + 2);
    if (split && live && part == 0) {
      record[head_dim] = most;
      record[head_dim + 1] = sum;
    }
#pragma clang loop unroll(full)
    for (uint dims = 0; dims < MATRICES / 4; dims++) {
      const uint dim = dims * 64;
      if (dim < head_dim) {
#pragma clang loop unroll(full)
        for (uint i = 0; i < 2; i++) {
#pragma clang loop unroll(full)
          for (uint j = 0; j < 4; j++) {
            simdgroup_store(
                o[i][4 * dims + j], staged + (sub_row + 8 * i) * PITCH + sub_col + 8 * j, PITCH);
          }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint i = 0; i < 16; i++) {
          const uint d = dim + part * 16 + i;
          if (live && d < head_dim) {
            const float y = staged[row * PITCH + part * 16 + i];
            if (split) {
              record[d] = y;
            } else {
              float total = begun ? own_out[d] : 0.0f;
              if (joins) {
                total = merged(total, a, y, b);
              }
              own_out[d] = n + 1 == end ? total / all : total;
            }
          }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
      }
    }
    begun = true;
  }
}
