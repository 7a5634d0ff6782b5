// Lists the rows of a mixture of experts by expert for prefill.metal, in one threadgroup. A thread
// serves experts tid, tid + threads, ... and reads all ids through threadgroup memory, so it needs
// no atomics and lists are in order. Expert E collects invalid ids.
//
// The buffer `lists` holds the indices of all rows of the output, ordered by expert [rows]. After
// them it holds the expert, first place and count of each tile of at most 32 rows [tiles, 3]. The
// count is 0 for tiles after the last.
#include <metal_stdlib>
using namespace metal;

constant constexpr uint TILE = 32;
constant constexpr uint CHUNK = 1024;   // ids in threadgroup memory
constant constexpr uint MOST = 2048;    // experts, including E

struct ExpertsSortParams {
  uint rows;
  uint experts;
  uint choices;
  uint ids_stride;
  uint tiles;
};

kernel void experts_sort(
    constant ExpertsSortParams& p [[buffer(0)]],
    device const int* ids         [[buffer(1)]],   // [rows / choices, choices]
    device int* lists             [[buffer(2)]],
    uint tid                      [[thread_index_in_threadgroup]],
    uint threads                  [[threads_per_threadgroup]]) {
  threadgroup ushort chunk[CHUNK];
  // The number of rows of each expert; later the next place in its list.
  threadgroup uint starts[MOST];
  const uint bins = p.experts + 1;
  for (uint e = tid; e < bins; e += threads) {
    starts[e] = 0;
  }
  for (uint pass = 0; pass < 2; pass++) {         // counting, then placing
    for (uint from = 0; from < p.rows; from += CHUNK) {
      const uint n = min(CHUNK, p.rows - from);
      for (uint i = tid; i < n; i += threads) {
        const uint r = from + i;
        const int id = ids[r / p.choices * p.ids_stride + r % p.choices];
        chunk[i] = ushort(id < 0 || uint(id) >= p.experts ? p.experts : uint(id));
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
      for (uint e = tid; e < bins; e += threads) {
        uint at = starts[e];
        for (uint i = 0; i < n; i++) {
          if (uint(chunk[i]) == e) {
            if (pass == 1) {
              lists[at] = int(from + i);
            }
            at++;
          }
        }
        starts[e] = at;
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (pass == 0) {
      if (tid == 0) {
        device int* entry = lists + p.rows;
        uint at = 0;
        uint tile = 0;
        for (uint e = 0; e < bins; e++) {
          const uint count = starts[e];
          starts[e] = at;
          for (uint done = 0; done < count; done += TILE) {
            entry[3 * tile] = int(e);
            entry[3 * tile + 1] = int(at + done);
            entry[3 * tile + 2] = int(min(TILE, count - done));
            tile++;
          }
          at += count;
        }
        for (; tile < p.tiles; tile++) {
          entry[3 * tile] = 0;
          entry[3 * tile + 1] = 0;
          entry[3 * tile + 2] = 0;
        }
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
  }
}
