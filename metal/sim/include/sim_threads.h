// Metal's thread functions on the simulated device: barriers, simdgroup collectives, atomics,
// function constants, threadgroup variables. runtime/ implements them. Every collective passes its
// place in the source, by which the runtime detects threads that meet at different calls.
// noduplicate keeps the optimizer from copying a call: copies would have the same place.
#pragma once

#define MSL_PLACE ((uint)(__builtin_LINE() * 256 + (__builtin_COLUMN() & 255)))
#define MSL_COLLECTIVE __attribute__((convergent, noduplicate))

extern "C" {
// An exchange between the active lanes of a simdgroup: each fills its slot and sees all slots. The
// first lane to continue computes the common result.
struct msl_exchange {
    uint mask;
    uint done;
    ulong pad;
    char result[256];
    char slot[32][32];
};
MSL_COLLECTIVE __private msl_exchange *msl_meet(__private const void *in, uint size, uint place);
MSL_COLLECTIVE void msl_barrier(uint flags, uint place);
MSL_COLLECTIVE void msl_simd_barrier(uint flags, uint place);
ulong msl_threadgroup_variable(uint id, uint size);
__attribute__((const)) ulong msl_function_constant(uint index);
__attribute__((const)) uint msl_lane();
void msl_fail(uint kind, ulong a, ulong b);
uint msl_atomic(uint op, ulong address, uint value, uint expected);

float expf(float);
float exp2f(float);
float logf(float);
float log2f(float);
float log10f(float);
float sinf(float);
float cosf(float);
float tanf(float);
float tanhf(float);
float sinhf(float);
float coshf(float);
float asinf(float);
float acosf(float);
float atanf(float);
float atan2f(float, float);
float powf(float, float);
float fmodf(float, float);
}
// Kinds of faults, as in runtime/msl.h.
#define MSL_FAULT_MATRIX_INACTIVE 7
#define MSL_FAULT_MATRIX_ADDRESS 8
#define MSL_FAULT_SHUFFLE 9

#define MSL_FUNCTION_CONSTANT(type, name, index)   \
    static MSL_FN type msl_constant_##name() {     \
        ulong bits = msl_function_constant(index); \
        return *(__private type *)&bits;           \
    }
#define MSL_THREADGROUP(id, name, dims, ...)  \
    typedef __VA_ARGS__ msl_type_##name dims; \
    __local msl_type_##name &name =           \
        *(__local msl_type_##name *)msl_threadgroup_variable(id, sizeof(msl_type_##name))

namespace metal {
MSL_FN void threadgroup_barrier(mem_flags f, uint place = MSL_PLACE) {
    msl_barrier((uint)f, place);
}
MSL_FN void simdgroup_barrier(mem_flags f, uint place = MSL_PLACE) {
    msl_simd_barrier((uint)f, place);
}

template <class T> MSL_FN __private msl_exchange *msl_bring(T x, uint place) {
    return msl_meet((__private const void *)&x, sizeof(T), place);
}
template <class T> MSL_FN T msl_take(__private msl_exchange *e, uint lane) {
    if (lane > 31 || !((e->mask >> (lane & 31)) & 1)) msl_fail(MSL_FAULT_SHUFFLE, lane, 0);
    return *(__private const T *)e->slot[lane & 31];
}

// Reductions are butterflies: lane 0 with 1, 2 with 3, then pairs of pairs. The hardware's order
// may differ.
#define MSL_REDUCE(NAME, T, EXPRESSION)                  \
    MSL_FN T NAME(T x, uint place = MSL_PLACE) {         \
        __private msl_exchange *e = msl_bring(x, place); \
        if (!e->done) {                                  \
            T v[32];                                     \
            bool has[32];                                \
            for (uint i = 0; i < 32; i++) {              \
                has[i] = (e->mask >> i) & 1;             \
                v[i] = *(__private const T *)e->slot[i]; \
            }                                            \
            for (uint d = 1; d < 32; d <<= 1)            \
                for (uint i = 0; i < 32; i += 2 * d) {   \
                    if (!has[i + d]) continue;           \
                    if (!has[i]) {                       \
                        v[i] = v[i + d];                 \
                        has[i] = true;                   \
                        continue;                        \
                    }                                    \
                    T a = v[i], b = v[i + d];            \
                    v[i] = (EXPRESSION);                 \
                }                                        \
            *(__private T *)e->result = v[0];            \
            e->done = 1;                                 \
        }                                                \
        return *(__private T *)e->result;                \
    }
#define MSL_PREFIX(NAME, T, UPTO)                           \
    MSL_FN T NAME(T x, uint place = MSL_PLACE) {            \
        __private msl_exchange *e = msl_bring(x, place);    \
        T r = (T)0;                                         \
        for (uint i = 0; i < (UPTO); i++)                   \
            if ((e->mask >> i) & 1) r += msl_take<T>(e, i); \
        return r;                                           \
    }

#define MSL_SHUFFLES(T)                                                 \
    MSL_FN T simd_broadcast(T x, ushort l, uint place = MSL_PLACE) {    \
        return msl_take<T>(msl_bring(x, place), l);                     \
    }                                                                   \
    MSL_FN T simd_shuffle(T x, ushort l, uint place = MSL_PLACE) {      \
        return msl_take<T>(msl_bring(x, place), l);                     \
    }                                                                   \
    MSL_FN T simd_shuffle_xor(T x, ushort m, uint place = MSL_PLACE) {  \
        return msl_take<T>(msl_bring(x, place), msl_lane() ^ m);        \
    }                                                                   \
    MSL_FN T simd_shuffle_down(T x, ushort d, uint place = MSL_PLACE) { \
        uint l = msl_lane() + d;                                        \
        __private msl_exchange *e = msl_bring(x, place);                \
        return msl_take<T>(e, l < 32 ? l : msl_lane());                 \
    }                                                                   \
    MSL_FN T simd_shuffle_up(T x, ushort d, uint place = MSL_PLACE) {   \
        uint l = msl_lane();                                            \
        __private msl_exchange *e = msl_bring(x, place);                \
        return msl_take<T>(e, l >= d ? l - d : l);                      \
    }                                                                   \
    MSL_FN T simd_broadcast_first(T x, uint place = MSL_PLACE) {        \
        __private msl_exchange *e = msl_bring(x, place);                \
        return msl_take<T>(e, __builtin_ctz(e->mask));                  \
    }                                                                   \
    MSL_FN T quad_shuffle_xor(T x, ushort m, uint place = MSL_PLACE) {  \
        return msl_take<T>(msl_bring(x, place), msl_lane() ^ (m & 3));  \
    }

#define MSL_ATOMICS(SPACE)                                                              \
    MSL_FN uint atomic_fetch_add_explicit(SPACE atomic_uint *p, uint v, memory_order) { \
        return msl_atomic(0, (ulong)p, v, 0);                                           \
    }                                                                                   \
    MSL_FN int atomic_fetch_add_explicit(SPACE atomic_int *p, int v, memory_order) {    \
        return (int)msl_atomic(0, (ulong)p, (uint)v, 0);                                \
    }                                                                                   \
    MSL_FN uint atomic_fetch_max_explicit(SPACE atomic_uint *p, uint v, memory_order) { \
        return msl_atomic(1, (ulong)p, v, 0);                                           \
    }                                                                                   \
    MSL_FN uint atomic_load_explicit(SPACE atomic_uint *p, memory_order) {              \
        return msl_atomic(2, (ulong)p, 0, 0);                                           \
    }                                                                                   \
    MSL_FN void atomic_store_explicit(SPACE atomic_uint *p, uint v, memory_order) {     \
        msl_atomic(3, (ulong)p, v, 0);                                                  \
    }                                                                                   \
    MSL_FN uint atomic_exchange_explicit(SPACE atomic_uint *p, uint v, memory_order) {  \
        return msl_atomic(4, (ulong)p, v, 0);                                           \
    }                                                                                   \
    MSL_FN uint atomic_fetch_min_explicit(SPACE atomic_uint *p, uint v, memory_order) { \
        return msl_atomic(5, (ulong)p, v, 0);                                           \
    }                                                                                   \
    MSL_FN uint atomic_fetch_or_explicit(SPACE atomic_uint *p, uint v, memory_order) {  \
        return msl_atomic(6, (ulong)p, v, 0);                                           \
    }                                                                                   \
    MSL_FN bool atomic_compare_exchange_weak_explicit(                                  \
        SPACE atomic_uint *p, __private uint *e, uint v, memory_order, memory_order) {  \
        uint old = msl_atomic(7, (ulong)p, v, *e);                                      \
        bool same = old == *e;                                                          \
        *e = old;                                                                       \
        return same;                                                                    \
    }
MSL_ATOMICS(device)
MSL_ATOMICS(threadgroup)
} // namespace metal
