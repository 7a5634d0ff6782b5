// A token for each row of logits, a threadgroup to a row: the likeliest, or a draw among those that pass the filters. Keys and weights
// are integers, so that no result depends on the order of a sum or on the number of threads.
//
//   best     the smallest (key, id)
//   cut      the last token that the filters keep, digit by digit of (key, id): a histogram of the digit over the tokens that share those
//            before, with counts and masses, shows in which bin top-k or top-p ends
//   narrow   sums over the row, a simdgroup to a part of it; the part that the random number falls into, cut into parts again
#include <metal_stdlib>
using namespace metal;

struct ChooseParams {
  uint vocab;
  uint logits_stride;
  uint out_stride;
};

// What a row asks for: limits of choose.go.
struct Draw {
  float scale;  // log2(e) / temperature, 0: the likeliest
  float reach;
  uint top_k;
  uint top_p;   // of 1 << 24, 0: off
  uint random_low;
  uint random_high;
};

constant constexpr float LOG2E = 1.44269504f;
constant constexpr float UNIT = 16777216.0f;    // what float holds exactly
constant constexpr uint NONE = 0xffffffffu;
constant constexpr uint MASKED = 0xff800000u;  // the key of -Inf
constant constexpr uint BINS = 2048;
constant constexpr uint CHUNKS = 64;           // that the bins are summed in
constant constexpr uint LEVELS = 6;            // digits of 11, 11 and 10 bits of the key, then of the id

// Keys ascend where logits descend; what is no logit comes first.
inline uint key_of(float x) {
  const uint bits = as_type<uint>(x);
  if (bits == 0x7f800000u || (bits & 0x7fffffffu) > 0x7f800000u) {
    return 0u;
  }
  if (bits == 0x80000000u) {
    return 0x7fffffffu;  // -0 is 0
  }
  return (bits >> 31) != 0u ? bits : 0x7fffffffu - bits;
}

// 2^-(distance * scale) in units of 2^-40: weight of sampling.go.
inline ulong weight(float distance, float scale) {
  const float t = distance * scale;
  if (!(t < 41.0f)) {
    return 0;
  }
  const int n = int(t);
  const float f = t - float(n);
  float y = (-0.00100363046f * UNIT) * f + 0.00934423134f * UNIT;
  y = y * f - 0.0554085597f * UNIT;
  y = y * f + 0.240214691f * UNIT;
  y = y * f - 0.693146944f * UNIT;
  y = y * f + UNIT;
  return (ulong(uint(y)) << 16) >> n;
}

inline ulong simd_sum_long(ulong v) {
  for (ushort o = 16; o > 0; o >>= 1) {
    const uint low = simd_shuffle_xor(uint(v), o);
    const uint high = simd_shuffle_xor(uint(v >> 32), o);
    v += (ulong(high) << 32) | low;
  }
  return v;
}

// The high half of a product.
inline ulong high_product(ulong a, ulong b) {
  const ulong a0 = uint(a);
  const ulong a1 = a >> 32;
  const ulong b0 = uint(b);
  const ulong b1 = b >> 32;
  const ulong middle = a1 * b0 + ((a0 * b0) >> 32);
  return a1 * b1 + (middle >> 32) + ((uint(middle) + a0 * b1) >> 32);
}

kernel void choose(
    constant ChooseParams& p     [[buffer(0)]],
    device const float* logits   [[buffer(1)]],   // [M, vocab]
    device const Draw* draws     [[buffer(2)]],   // [M]
    device int* out              [[buffer(3)]],   // [M, 1]: a token, or -1: there is none, -2 - i: logit i is none
    uint row                     [[threadgroup_position_in_grid]],
    uint tid                     [[thread_index_in_threadgroup]],
    uint threads                 [[threads_per_threadgroup]],
    uint lane                    [[thread_index_in_simdgroup]],
    uint sg                      [[simdgroup_index_in_threadgroup]],
    uint simdgroups              [[simdgroups_per_threadgroup]]) {
  threadgroup uint least_key[32];
  threadgroup uint least_id[32];
  threadgroup ulong partial[32];
  threadgroup atomic_uint counts[BINS];
  threadgroup atomic_uint lows[BINS];
  threadgroup atomic_uint highs[BINS];
  threadgroup uint chunk_count[CHUNKS];
  threadgroup ulong chunk_mass[CHUNKS];
  threadgroup uint found[3];        // bin, tokens in it, tokens before it
  threadgroup ulong found_mass[1];  // before it

  logits += ulong(row) * p.logits_stride;
  device const Draw& d = draws[row];

  uint best = NONE;
  uint token = NONE;
  for (uint i = tid; i < p.vocab; i += threads) {
    const uint k = key_of(logits[i]);
    if (k < best) {
      best = k;
      token = i;
    }
  }
  uint first = simd_min(best);
  token = simd_min(best == first ? token : NONE);
  if (lane == 0) {
    least_key[sg] = first;
    least_id[sg] = token;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  best = lane < simdgroups ? least_key[lane] : NONE;
  first = simd_min(best);
  token = simd_min(lane < simdgroups && best == first ? least_id[lane] : NONE);

  if (first == 0u || first >= MASKED || d.scale == 0.0f) {  // the same in all threads
    if (tid == 0) {
      out[ulong(row) * p.out_stride] = first == 0u ? -2 - int(token) : first >= MASKED ? -1 : int(token);
    }
  } else {
    const float peak = logits[token];

    // The last token kept is the first, in order of (key, id), with which there are top_k or their mass reaches the limit. Tokens whose
    // (key, id) >> shift is at most `last` are kept.
    ulong limit = ~0ul;
    if (d.top_p != 0u) {
      ulong sum = 0;
      for (uint i = tid; i < p.vocab; i += threads) {
        sum += weight(peak - logits[i], LOG2E);
      }
      sum = simd_sum_long(sum);
      if (lane == 0) {
        partial[sg] = sum;
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      sum = simd_sum_long(lane < simdgroups ? partial[lane] : 0);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      limit = (sum >> 24) * d.top_p + (((sum & 0xfffffful) * d.top_p) >> 24);
    }
    ulong last = ~0ul;
    uint shift = 0;
    if (d.top_k < p.vocab || d.top_p != 0u) {
      uint before = 0;
      ulong mass = 0;
      ulong prefix = 0;
      uint above = 63;  // the digits before are (key, id) >> above
      bool more = true;
      for (uint level = 0; level < LEVELS && more; level++) {
        const uint bits = level % 3 == 2 ? 10 : 11;
        shift = level == 0 ? 53 : above - bits;
        for (uint b = tid; b < BINS; b += threads) {
          atomic_store_explicit(&counts[b], 0u, memory_order_relaxed);
          atomic_store_explicit(&lows[b], 0u, memory_order_relaxed);
          atomic_store_explicit(&highs[b], 0u, memory_order_relaxed);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint i = tid; i < p.vocab; i += threads) {
          const float x = logits[i];
          const ulong at = (ulong(key_of(x)) << 32) | i;
          if (peak - x <= d.reach && (level == 0 || (at >> above) == prefix)) {
            const uint b = uint(at >> shift) & ((1u << bits) - 1u);
            atomic_fetch_add_explicit(&counts[b], 1u, memory_order_relaxed);
            if (d.top_p != 0u) {
              const ulong w = weight(peak - x, LOG2E);
              const uint low = uint(w);
              const uint old = atomic_fetch_add_explicit(&lows[b], low, memory_order_relaxed);
              const uint high = uint(w >> 32) + (old + low < old ? 1u : 0u);
              if (high != 0u) {
                atomic_fetch_add_explicit(&highs[b], high, memory_order_relaxed);
              }
            }
          }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (tid < CHUNKS) {
          uint count = 0;
          ulong sum = 0;
          for (uint b = tid * (BINS / CHUNKS); b < (tid + 1) * (BINS / CHUNKS); b++) {
            count += atomic_load_explicit(&counts[b], memory_order_relaxed);
            sum += (ulong(atomic_load_explicit(&highs[b], memory_order_relaxed)) << 32) + atomic_load_explicit(&lows[b], memory_order_relaxed);
          }
          chunk_count[tid] = count;
          chunk_mass[tid] = sum;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (tid == 0) {
          uint n = before;
          ulong m = mass;
          uint chunk = 0;
          while (chunk < CHUNKS && n + chunk_count[chunk] < d.top_k && m + chunk_mass[chunk] < limit) {
            n += chunk_count[chunk];
            m += chunk_mass[chunk];
            chunk++;
          }
          found[0] = NONE;  // no end: everything within reach is kept
          for (uint b = chunk * (BINS / CHUNKS); chunk < CHUNKS && b < (chunk + 1) * (BINS / CHUNKS); b++) {
            const uint count = atomic_load_explicit(&counts[b], memory_order_relaxed);
            const ulong sum = (ulong(atomic_load_explicit(&highs[b], memory_order_relaxed)) << 32) + atomic_load_explicit(&lows[b], memory_order_relaxed);
            if (n + count >= d.top_k || m + sum >= limit) {
              found[0] = b;
              found[1] = count;
              break;
            }
            n += count;
            m += sum;
          }
          found[2] = n;
          found_mass[0] = m;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        more = found[0] != NONE && found[1] > 1u;
        if (found[0] != NONE) {
          prefix = (prefix << bits) | found[0];
          last = prefix;
          before = found[2];
          mass = found_mass[0];
          above = shift;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
      }
    }

    uint from = 0;
    uint to = p.vocab;
    ulong left = (ulong(d.random_high) << 32) | d.random_low;
    bool whole = true;
    while (whole || to - from > 1) {
      const uint part = (to - from + simdgroups - 1) / simdgroups;
      const uint begin = min(from + sg * part, to);
      const uint end = min(begin + part, to);
      ulong sum = 0;
      for (uint i = begin + lane; i < end; i += 32) {
        const float x = logits[i];
        const ulong at = (ulong(key_of(x)) << 32) | i;
        if (peak - x <= d.reach && (at >> shift) <= last) {
          sum += weight(peak - x, d.scale);
        }
      }
      sum = simd_sum_long(sum);
      if (lane == 0) {
        partial[sg] = sum;
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (whole) {
        ulong total = 0;
        for (uint s = 0; s < simdgroups; s++) {
          total += partial[s];
        }
        left = high_product(left, total);
        whole = false;
      }
      uint s = 0;
      while (s + 1 < simdgroups && left >= partial[s]) {
        left -= partial[s];
        s++;
      }
      from = min(from + s * part, to);
      to = min(from + part, to);
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (tid == 0) {
      out[ulong(row) * p.out_stride] = int(from);
    }
  }
}
