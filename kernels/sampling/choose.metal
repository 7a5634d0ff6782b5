// Chooses a token for each row of logits: the most likely one, or a sample from those that pass the
// filters. A row is split into parts with a threadgroup each, which write their results for the
// next dispatch. Keys and weights are integers, so the result does not depend on the order of sums,
// the number of threads or the number of parts.
//
//   choose_best    finds the smallest (key, id) of each part.
//   choose_count   runs three times, once per digit of the key, if some row has top-k or top-p. It
//                  makes a histogram of the digit over the tokens that share the previous digits,
//                  with counts and masses. Every threadgroup of the next dispatch finds in it the
//                  bin where top-k or top-p ends.
//   choose_sum     sums the weights of each part before the last key that is kept, and counts its
//                  tokens with that key. Of these, the ones with the lowest ids are kept.
//   likeliest      has a simdgroup per row. After choose_best and choose_sum, it finds the most
//                  likely token of the row and adds up its weights.
//   choose_pick    has one threadgroup per row. It finds the part that the random number falls into
//                  and splits it into pieces, one per simdgroup, until one token is left.
#include <metal_stdlib>
using namespace metal;

struct ChooseParams {
  uint vocab;
  uint logits_stride;
  uint out_stride;
  uint parts;         // parts per row, at most MOST_PARTS
  uint part_tokens;
  uint filtered;      // 1 if some row has top-k or top-p
  uint level;         // digit of choose_count
};

// The settings of a row: limits in sampling.go.
struct Draw {
  float scale;  // log2(e) / temperature, 0 for the most likely token
  float reach;
  uint top_k;
  uint top_p;   // in units of 1 / 2^24, 0 for off
  uint random_low;
  uint random_high;
};

// The results of a part.
struct Part {
  uint key;     // key of its most likely token
  uint id;
  ulong sum;    // weights of the tokens before the last key
  uint ties;    // tokens with the last key that the filters keep
  uint unused;
};

// Where the filters end, for the digits so far.
struct Cut {
  ulong mass;   // mass of the tokens before prefix
  ulong limit;  // top-p drops a token if the mass before it is at least this
  uint tokens;  // number of tokens before prefix
  uint prefix;  // first digits of the last key that is kept
  uint open;    // 1 if the filters keep all tokens
  uint unused;
};

constant constexpr float LOG2E = 1.44269504f;
constant constexpr float UNIT = 16777216.0f;    // 2^24: float holds integers up to it exactly
constant constexpr uint NONE = 0xffffffffu;
constant constexpr uint MASKED = 0xff800000u;  // the key of -Inf
constant constexpr uint BINS = 2048;           // bins of a digit, which has 11, 11 or 10 bits
constant constexpr uint LEVELS = 3;
constant constexpr uint CHUNK = 8;             // bins that are summed first
constant constexpr uint CHUNKS = BINS / CHUNK;
constant constexpr uint MOST_PARTS = 64;

// Maps a logit to a key. A larger logit has a smaller key, and +Inf and NaN have key 0.
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

// Returns the logit of a key.
inline float logit_of(uint key) {
  return as_type<float>((key >> 31) != 0u ? key : 0x7fffffffu - key);
}

// Returns 2^-(distance * scale) in units of 2^-40, as weight in sampling.go does.
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

// The high 64 bits of a product.
inline ulong high_product(ulong a, ulong b) {
  const ulong a0 = uint(a);
  const ulong a1 = a >> 32;
  const ulong b0 = uint(b);
  const ulong b1 = b >> 32;
  const ulong middle = a1 * b0 + ((a0 * b0) >> 32);
  return a1 * b1 + (middle >> 32) + ((uint(middle) + a0 * b1) >> 32);
}

inline ulong simd_shuffle_long(ulong v, ushort lane) {
  const uint low = simd_shuffle(uint(v), lane);
  const uint high = simd_shuffle(uint(v >> 32), lane);
  return (ulong(high) << 32) | low;
}

// Returns the smallest (key, id) of a row, the same in all threads.
inline uint2 best_of(device const Part* parts, uint count, uint lane) {
  uint key = NONE;
  uint id = NONE;
  for (uint i = lane; i < count; i += 32) {
    const uint k = parts[i].key;
    if (k < key) {
      key = k;
      id = parts[i].id;
    }
  }
  const uint first = simd_min(key);
  return uint2(first, simd_min(key == first ? id : NONE));
}

// Reports whether to sample a token: not at temperature 0, and not if all logits are masked or one
// is +Inf or NaN.
inline bool draws_token(uint key, float scale) {
  return key != 0u && key < MASKED && scale != 0.0f;
}

inline bool filters(device const Draw& d, uint vocab) { return d.top_k < vocab || d.top_p != 0u; }

inline uint shift_of(uint level) { return level == 0 ? 21 : level == 1 ? 10 : 0; }

// Adds to a 64-bit sum that is stored in two words.
inline void add_long(device atomic_uint* low, device atomic_uint* high, ulong v) {
  const uint old = atomic_fetch_add_explicit(low, uint(v), memory_order_relaxed);
  const uint carry = old + uint(v) < old ? 1u : 0u;
  if (uint(v >> 32) + carry != 0u) {
    atomic_fetch_add_explicit(high, uint(v >> 32) + carry, memory_order_relaxed);
  }
}

inline void add_long(threadgroup atomic_uint* low, threadgroup atomic_uint* high, ulong v) {
  const uint old = atomic_fetch_add_explicit(low, uint(v), memory_order_relaxed);
  const uint carry = old + uint(v) < old ? 1u : 0u;
  if (uint(v >> 32) + carry != 0u) {
    atomic_fetch_add_explicit(high, uint(v >> 32) + carry, memory_order_relaxed);
  }
}

// Tokens and mass of bin b of a histogram, which has the counts and then the masses' low and high
// words.
inline uint tokens_of(device atomic_uint* bins, uint b) {
  return atomic_load_explicit(&bins[b], memory_order_relaxed);
}

inline ulong mass_of(device atomic_uint* bins, uint b) {
  const uint low = atomic_load_explicit(&bins[BINS + b], memory_order_relaxed);
  return (ulong(atomic_load_explicit(&bins[2 * BINS + b], memory_order_relaxed)) << 32) + low;
}

// Returns the first lane at which the tokens that start at c reach top_k, or their mass reaches
// c.limit. c advances to the beginning of that lane. Returns NONE if there is no such lane.
inline uint first_end(uint tokens, ulong mass, thread Cut& c, uint top_k, uint lane) {
  uint n = tokens;
  ulong m = mass;
  for (ushort o = 1; o < 32; o <<= 1) {
    const ushort other = ushort(lane >= o ? lane - o : lane);
    const uint before = simd_shuffle(n, other);
    const ulong mass_before = simd_shuffle_long(m, other);
    if (lane >= o) {
      n += before;
      m += mass_before;
    }
  }
  const uint end = simd_min(c.tokens + n >= top_k || c.mass + m >= c.limit ? lane : NONE);
  const ushort from = ushort(min(end, 31u));
  const uint before = simd_shuffle(n - tokens, from);
  const ulong mass_before = simd_shuffle_long(m - mass, from);
  if (end != NONE) {
    c.tokens += before;
    c.mass += mass_before;
  }
  return end;
}

// Finds the cut in the histogram of a level. All threads must call it, and get the same result.
inline Cut next_cut(Cut c, device atomic_uint* bins, uint level, uint top_k, uint top_p,
    threadgroup uint* tokens, threadgroup ulong* masses, uint tid, uint threads, uint lane) {
  for (uint i = tid; i < CHUNKS; i += threads) {
    uint n = 0;
    ulong m = 0;
    for (uint b = CHUNK * i; b < CHUNK * (i + 1); b++) {
      n += tokens_of(bins, b);
      m += mass_of(bins, b);
    }
    tokens[i] = n;
    masses[i] = m;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint n = 0;
  ulong m = 0;
  for (uint i = lane * (CHUNKS / 32); i < (lane + 1) * (CHUNKS / 32); i++) {
    n += tokens[i];
    m += masses[i];
  }
  if (level == 0) {
    const ulong sum = simd_sum_long(m);
    c.limit = top_p == 0u ? ~0ul : (sum >> 24) * top_p + (((sum & 0xfffffful) * top_p) >> 24);
  }
  uint at = first_end(n, m, c, top_k, lane);
  if (at == NONE) {
    c.open = 1;
  } else {
    const bool chunk = lane < CHUNKS / 32;
    const uint i = at * (CHUNKS / 32) + lane;
    at = at * (CHUNKS / 32) +
        first_end(chunk ? tokens[i] : 0, chunk ? masses[i] : 0, c, top_k, lane);
    const bool bin = lane < CHUNK;
    const uint b = at * CHUNK + lane;
    at = at * CHUNK +
        first_end(bin ? tokens_of(bins, b) : 0, bin ? mass_of(bins, b) : 0, c, top_k, lane);
    c.prefix = (c.prefix << (level == 2 ? 10 : 11)) | at;
  }
  return c;
}

inline Cut no_cut() {
  Cut c;
  c.mass = 0;
  c.limit = ~0ul;
  c.tokens = 0;
  c.prefix = 0;
  c.open = 0;
  c.unused = 0;
  return c;
}

kernel void choose_best(
    constant ChooseParams& p     [[buffer(0)]],
    device const float* logits   [[buffer(1)]],   // [M, vocab]
    device const Draw* draws     [[buffer(2)]],   // [M]
    device Part* parts           [[buffer(3)]],   // [M, parts]
    // [M, LEVELS, 3, BINS], set to 0; none without filters
    device atomic_uint* bins     [[buffer(4)]],
    uint2 group                  [[threadgroup_position_in_grid]],   // row, part
    uint tid                     [[thread_index_in_threadgroup]],
    uint2 size                   [[threads_per_threadgroup]],
    uint lane                    [[thread_index_in_simdgroup]],
    uint sg                      [[simdgroup_index_in_threadgroup]],
    uint simdgroups              [[simdgroups_per_threadgroup]]) {
  threadgroup uint least_key[32];
  threadgroup uint least_id[32];
  const uint threads = size.x;
  if (p.filtered != 0 && filters(draws[group.x], p.vocab)) {
    bins += ulong(group.x) * (LEVELS * 3 * BINS);
    for (uint b = group.y * threads + tid; b < LEVELS * 3 * BINS; b += p.parts * threads) {
      atomic_store_explicit(&bins[b], 0u, memory_order_relaxed);
    }
  }
  logits += ulong(group.x) * p.logits_stride;
  const uint from = group.y * p.part_tokens;
  const uint to = min(from + p.part_tokens, p.vocab);
  uint key = NONE;
  uint id = NONE;
  for (uint i = from + tid; i < to; i += threads) {
    const uint k = key_of(logits[i]);
    if (k < key) {
      key = k;
      id = i;
    }
  }
  uint first = simd_min(key);
  id = simd_min(key == first ? id : NONE);
  if (lane == 0) {
    least_key[sg] = first;
    least_id[sg] = id;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  key = lane < simdgroups ? least_key[lane] : NONE;
  first = simd_min(key);
  id = simd_min(lane < simdgroups && key == first ? least_id[lane] : NONE);
  if (tid == 0) {
    device Part& part = parts[group.x * p.parts + group.y];
    part.key = first;
    part.id = id;
  }
}

kernel void choose_count(
    constant ChooseParams& p     [[buffer(0)]],
    device const float* logits   [[buffer(1)]],
    device const Draw* draws     [[buffer(2)]],
    device const Part* parts     [[buffer(3)]],
    device atomic_uint* bins     [[buffer(4)]],
    device Cut* cuts             [[buffer(5)]],   // [M, LEVELS]: read and written up to the level
    uint2 group                  [[threadgroup_position_in_grid]],   // row, part
    uint tid                     [[thread_index_in_threadgroup]],
    uint2 size                   [[threads_per_threadgroup]],
    uint lane                    [[thread_index_in_simdgroup]]) {
  threadgroup atomic_uint counts[BINS];
  threadgroup atomic_uint lows[BINS];
  threadgroup atomic_uint highs[BINS];
  threadgroup uint chunk_tokens[CHUNKS];
  threadgroup ulong chunk_masses[CHUNKS];
  const uint threads = size.x;
  device const Draw& d = draws[group.x];
  const uint2 best = best_of(parts + group.x * p.parts, p.parts, lane);
  if (draws_token(best.x, d.scale) && filters(d, p.vocab)) {  // the same in all threads
    bins += ulong(group.x) * (LEVELS * 3 * BINS);
    cuts += group.x * LEVELS;
    logits += ulong(group.x) * p.logits_stride;
    for (uint b = tid; b < BINS; b += threads) {
      atomic_store_explicit(&counts[b], 0u, memory_order_relaxed);
      atomic_store_explicit(&lows[b], 0u, memory_order_relaxed);
      atomic_store_explicit(&highs[b], 0u, memory_order_relaxed);
    }
    Cut c = no_cut();
    if (p.level > 0) {
      if (p.level > 1) {
        c = cuts[p.level - 2];
      }
      if (c.open == 0) {
        c = next_cut(c, bins + (p.level - 1) * (3 * BINS), p.level - 1, d.top_k, d.top_p,
            chunk_tokens, chunk_masses, tid, threads, lane);
      }
      if (group.y == 0 && tid == 0) {
        cuts[p.level - 1] = c;
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (c.open == 0) {
      const float peak = logits[best.y];
      const uint above = p.level == 0 ? 0 : shift_of(p.level - 1);
      const uint shift = shift_of(p.level);
      const uint from = group.y * p.part_tokens;
      const uint to = min(from + p.part_tokens, p.vocab);
      for (uint i = from + tid; i < to; i += threads) {
        const float x = logits[i];
        const uint key = key_of(x);
        if (p.level == 0 || (key >> above) == c.prefix) {
          const uint b = (key >> shift) & (p.level == 2 ? 1023u : 2047u);
          atomic_fetch_add_explicit(&counts[b], 1u, memory_order_relaxed);
          if (d.top_p != 0u) {
            add_long(&lows[b], &highs[b], weight(peak - x, LOG2E));
          }
        }
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      device atomic_uint* all = bins + p.level * (3 * BINS);
      for (uint b = tid; b < BINS; b += threads) {
        const uint n = atomic_load_explicit(&counts[b], memory_order_relaxed);
        if (n != 0u) {
          atomic_fetch_add_explicit(&all[b], n, memory_order_relaxed);
          if (d.top_p != 0u) {
            const uint low = atomic_load_explicit(&lows[b], memory_order_relaxed);
            add_long(&all[BINS + b], &all[2 * BINS + b],
                (ulong(atomic_load_explicit(&highs[b], memory_order_relaxed)) << 32) + low);
          }
        }
      }
    }
  }
}

kernel void choose_sum(
    constant ChooseParams& p     [[buffer(0)]],
    device const float* logits   [[buffer(1)]],
    device const Draw* draws     [[buffer(2)]],
    device Part* parts           [[buffer(3)]],
    device atomic_uint* bins     [[buffer(4)]],   // none without filters
    // writes the last of each row; none without filters
    device Cut* cuts             [[buffer(5)]],
    uint2 group                  [[threadgroup_position_in_grid]],   // row, part
    uint tid                     [[thread_index_in_threadgroup]],
    uint2 size                   [[threads_per_threadgroup]],
    uint lane                    [[thread_index_in_simdgroup]],
    uint sg                      [[simdgroup_index_in_threadgroup]],
    uint simdgroups              [[simdgroups_per_threadgroup]]) {
  threadgroup uint chunk_tokens[CHUNKS];
  threadgroup ulong chunk_masses[CHUNKS];
  threadgroup ulong sums[32];
  threadgroup uint ties[32];
  const uint threads = size.x;
  device const Draw& d = draws[group.x];
  parts += group.x * p.parts;
  const uint2 best = best_of(parts, p.parts, lane);
  if (draws_token(best.x, d.scale)) {
    logits += ulong(group.x) * p.logits_stride;
    uint last = NONE;
    if (p.filtered != 0 && filters(d, p.vocab)) {
      cuts += group.x * LEVELS;
      Cut c = cuts[LEVELS - 2];
      if (c.open == 0) {
        bins += (ulong(group.x) * LEVELS + LEVELS - 1) * (3 * BINS);
        c = next_cut(
            c, bins, LEVELS - 1, d.top_k, d.top_p, chunk_tokens, chunk_masses, tid, threads, lane);
        last = c.prefix;
      }
      if (group.y == 0 && tid == 0) {
        cuts[LEVELS - 1] = c;
      }
    }
    const float peak = logits[best.y];
    const uint from = group.y * p.part_tokens;
    const uint to = min(from + p.part_tokens, p.vocab);
    ulong sum = 0;
    uint tied = 0;
    for (uint i = from + tid; i < to; i += threads) {
      const float x = logits[i];
      const uint key = key_of(x);
      if (peak - x <= d.reach) {
        if (key < last) {
          sum += weight(peak - x, d.scale);
        } else if (key == last) {
          tied++;
        }
      }
    }
    sum = simd_sum_long(sum);
    tied = simd_sum(tied);
    if (lane == 0) {
      sums[sg] = sum;
      ties[sg] = tied;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    sum = simd_sum_long(lane < simdgroups ? sums[lane] : 0);
    tied = simd_sum(lane < simdgroups ? ties[lane] : 0);
    if (tid == 0) {
      parts[group.y].sum = sum;
      parts[group.y].ties = tied;
    }
  }
}

// Returns the piece into which the weight `left` falls. `kept` is the number of tied tokens that
// are kept. Both become relative to the beginning of the piece.
inline uint piece_of(threadgroup const ulong* sums, threadgroup const uint* ties, uint pieces,
    ulong tie_weight, thread ulong& left, thread uint& kept) {
  uint s = 0;
  for (; s + 1 < pieces; s++) {
    const uint tied = min(ties[s], kept);
    const ulong w = sums[s] + tied * tie_weight;
    if (left < w) {
      break;
    }
    left -= w;
    kept -= tied;
  }
  return s;
}

kernel void choose_pick(
    constant ChooseParams& p     [[buffer(0)]],
    device const float* logits   [[buffer(1)]],
    device const Draw* draws     [[buffer(2)]],
    device const Part* parts     [[buffer(3)]],
    device const Cut* cuts       [[buffer(4)]],   // none without filters
    // [M, 1]: a token, -1 if all logits are masked, or -2 - i if logit i is +Inf or NaN
    device int* out              [[buffer(5)]],
    uint row                     [[threadgroup_position_in_grid]],
    uint tid                     [[thread_index_in_threadgroup]],
    uint lane                    [[thread_index_in_simdgroup]],
    uint sg                      [[simdgroup_index_in_threadgroup]],
    uint simdgroups              [[simdgroups_per_threadgroup]]) {
  threadgroup ulong sums[MOST_PARTS];
  threadgroup uint ties[MOST_PARTS];
  device const Draw& d = draws[row];
  parts += row * p.parts;
  const uint2 best = best_of(parts, p.parts, lane);
  uint token = best.y;
  if (draws_token(best.x, d.scale)) {
    logits += ulong(row) * p.logits_stride;
    const float peak = logits[best.y];
    uint last = NONE;
    uint kept = 0;
    ulong tie_weight = 0;
    if (p.filtered != 0 && filters(d, p.vocab) && cuts[row * LEVELS + LEVELS - 1].open == 0) {
      const Cut c = cuts[row * LEVELS + LEVELS - 1];
      last = c.prefix;
      const float distance = peak - logit_of(last);
      const ulong w = weight(distance, LOG2E);
      tie_weight = weight(distance, d.scale);
      kept = d.top_k - c.tokens;
      if (d.top_p != 0u && w != 0) {
        kept = uint(min(ulong(kept), (c.limit - c.mass + w - 1) / w));
      }
    }
    for (uint i = tid; i < p.parts; i += 32 * simdgroups) {
      sums[i] = parts[i].sum;
      ties[i] = parts[i].ties;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    ulong total = 0;
    uint tied = 0;
    for (uint i = 0; i < p.parts; i++) {
      total += sums[i];
      tied += ties[i];
    }
    total += min(tied, kept) * tie_weight;
    ulong left = high_product((ulong(d.random_high) << 32) | d.random_low, total);
    uint length = p.part_tokens;
    uint from = length * piece_of(sums, ties, p.parts, tie_weight, left, kept);
    uint to = min(from + length, p.vocab);
    while (to - from > 1) {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      length = (to - from + simdgroups - 1) / simdgroups;
      const uint begin = min(from + sg * length, to);
      const uint end = min(begin + length, to);
      ulong sum = 0;
      tied = 0;
      for (uint i = begin + lane; i < end; i += 32) {
        const float x = logits[i];
        const uint key = key_of(x);
        if (peak - x <= d.reach) {
          if (key < last) {
            sum += weight(peak - x, d.scale);
          } else if (key == last) {
            tied++;
          }
        }
      }
      sum = simd_sum_long(sum);
      tied = simd_sum(tied);
      if (lane == 0) {
        sums[sg] = sum;
        ties[sg] = tied;
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      from = min(from + length * piece_of(sums, ties, simdgroups, tie_weight, left, kept), to);
      to = min(from + length, to);
    }
    token = from;
  }
  if (tid == 0) {
    out[ulong(row) * p.out_stride] =
        best.x == 0u ? -2 - int(token) : best.x >= MASKED ? -1 : int(token);
  }
}

// The most likely token of a row and the sum of all weights at temperature 1, which choose_sum has
// computed by parts. A simdgroup has a row.
kernel void likeliest(
    constant ChooseParams& p     [[buffer(0)]],
    device const Part* parts     [[buffer(1)]],   // [M, parts]
    // [M, 4]: the halves of the sum, the token or a fault as in choose_pick, and 0
    device int* out              [[buffer(2)]],
    uint row                     [[threadgroup_position_in_grid]],
    uint lane                    [[thread_index_in_simdgroup]]) {
  parts += row * p.parts;
  const uint2 best = best_of(parts, p.parts, lane);
  ulong sum = 0;
  if (draws_token(best.x, 1.0f)) {
    for (uint i = lane; i < p.parts; i += 32) {
      sum += parts[i].sum;
    }
  }
  sum = simd_sum_long(sum);
  if (lane == 0) {
    out += ulong(row) * p.out_stride;
    out[0] = int(uint(sum));
    out[1] = int(uint(sum >> 32));
    out[2] = best.x == 0u ? -2 - int(best.y) : best.x >= MASKED ? -1 : int(best.y);
    out[3] = 0;
  }
}
