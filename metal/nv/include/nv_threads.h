// Metal's thread functions on an NVIDIA GPU: barriers, shuffles within a warp (the simdgroup),
// atomics, function constants, threadgroup variables. Included after msl_types.h and before
// msl_math.h, for which it defines the plain math functions that kernels use.
//
// Source: NVIDIA, "Parallel Thread Execution ISA"
// (https://docs.nvidia.com/cuda/parallel-thread-execution/).
#pragma once

// Any buffer may be bound in Metal's constant address space, so here it is read-only global memory.
#undef constant
#define constant const __global

// The host compiles a kernel once for each set of function constants. Their bits are MSL_VALUE_0,
// MSL_VALUE_1, ...
namespace msl {
template <class T> constexpr T constant_value(uint bits) { return __builtin_bit_cast(T, bits); }
template <> constexpr bool constant_value<bool>(uint bits) { return bits != 0; }
} // namespace msl
#define MSL_FUNCTION_CONSTANT(type, name, index)             \
    static MSL_FN constexpr type msl_constant_##name() {     \
        return msl::constant_value<type>(MSL_VALUE_##index); \
    }

// A threadgroup variable is declared in a function that returns its address. noinline keeps a
// single copy of the function: a second copy would declare a second variable.
namespace msl {
template <uint ID, uint BYTES> __attribute__((noinline, const)) ulong threadgroup_variable() {
    ulong address;
    __asm__("{\n\t.shared .align 16 .b8 msl_variable_%1[%2];\n\tmov.u64 %0, msl_variable_%1;\n\t}"
            : "=l"(address)
            : "n"(ID), "n"(BYTES));
    return address;
}
} // namespace msl
#define MSL_THREADGROUP(id, name, dims, ...)  \
    typedef __VA_ARGS__ msl_type_##name dims; \
    __local msl_type_##name &name =           \
        *(__local msl_type_##name *)msl::threadgroup_variable<id, sizeof(msl_type_##name)>()

// Threadgroup arguments follow each other in the launch's dynamic shared memory.
__asm__(".extern .shared .align 16 .b8 msl_arguments[];");
MSL_FN ulong msl_threadgroup_argument(uint offset) {
    ulong address;
    __asm__("mov.u64 %0, msl_arguments;" : "=l"(address));
    return address + offset;
}

MSL_FN float msl_exp2_approx(float x) {
    float r;
    __asm__("ex2.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}
MSL_FN float exp2f(float x) { return msl_exp2_approx(x); }
// e^x = 2^n e^r with x = n ln 2 + r. Relative error 2e-7.
MSL_FN float expf(float x) {
    const float n = __builtin_rintf(x * 1.44269504f);
    // subtracts n ln 2 in two parts
    const float r = __builtin_fmaf(-n, 1.42860677e-6f, __builtin_fmaf(-n, 0.693145752f, x));
    // two factors, as 2^n may overflow or underflow
    const float half_n = __builtin_rintf(n * 0.5f);
    const float e =
        msl_exp2_approx(r * 1.44269504f) * msl_exp2_approx(half_n) * msl_exp2_approx(n - half_n);
    return x > 89.0f ? __builtin_inff() : x < -104.0f ? 0.0f : e;
}
// Not implemented, since no kernel calls these functions. The host rejects a kernel that does.
extern "C" {
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

#define MSL_PLACE 0
MSL_FN uint msl_lane() { return __nvvm_read_ptx_sreg_laneid(); }

namespace metal {
MSL_FN void threadgroup_barrier(mem_flags) { __syncthreads(); }
MSL_FN void simdgroup_barrier(mem_flags) { __nvvm_bar_warp_sync(~0u); }

// Shuffles move 32-bit words. All 32 lanes take part: the host launches only whole simdgroups.
#define MSL_SHUFFLE_WORDS(NAME, BUILTIN, CLAMP)                                               \
    template <class T> MSL_FN T NAME(T x, uint by) {                                          \
        if constexpr (sizeof(T) == 2) {                                                       \
            return __builtin_bit_cast(                                                        \
                T, (ushort)BUILTIN(~0u, (int)__builtin_bit_cast(ushort, x), (int)by, CLAMP)); \
        } else if constexpr (sizeof(T) == 4) {                                                \
            return __builtin_bit_cast(                                                        \
                T, BUILTIN(~0u, __builtin_bit_cast(int, x), (int)by, CLAMP));                 \
        } else {                                                                              \
            struct words {                                                                    \
                int w[sizeof(T) / 4];                                                         \
            } v = __builtin_bit_cast(words, x);                                               \
            for (uint i = 0; i < sizeof(T) / 4; i++)                                          \
                v.w[i] = BUILTIN(~0u, v.w[i], (int)by, CLAMP);                                \
            return __builtin_bit_cast(T, v);                                                  \
        }                                                                                     \
    }
MSL_SHUFFLE_WORDS(msl_butterfly, __nvvm_shfl_sync_bfly_i32, 31)
MSL_SHUFFLE_WORDS(msl_from_lane, __nvvm_shfl_sync_idx_i32, 31)
MSL_SHUFFLE_WORDS(msl_down, __nvvm_shfl_sync_down_i32, 31)
MSL_SHUFFLE_WORDS(msl_up, __nvvm_shfl_sync_up_i32, 0)

// Reductions are butterflies, in the same order as on the simulated device.
#define MSL_REDUCE(NAME, T, EXPRESSION)      \
    MSL_FN T NAME(T a, uint = MSL_PLACE) {   \
        for (uint d = 1; d < 32; d <<= 1) {  \
            const T b = msl_butterfly(a, d); \
            a = (EXPRESSION);                \
        }                                    \
        return a;                            \
    }
#define MSL_PREFIX(NAME, T, UPTO)            \
    MSL_FN T NAME(T x, uint = MSL_PLACE) {   \
        T r = (T)0;                          \
        for (uint i = 0; i < 32; i++) {      \
            const T v = msl_from_lane(x, i); \
            if (i < (UPTO)) r += v;          \
        }                                    \
        return r;                            \
    }

#define MSL_SHUFFLES(T)                                                      \
    MSL_FN T simd_broadcast(T x, ushort l) { return msl_from_lane(x, l); }   \
    MSL_FN T simd_shuffle(T x, ushort l) { return msl_from_lane(x, l); }     \
    MSL_FN T simd_shuffle_xor(T x, ushort m) { return msl_butterfly(x, m); } \
    MSL_FN T simd_shuffle_down(T x, ushort d) { return msl_down(x, d); }     \
    MSL_FN T simd_shuffle_up(T x, ushort d) { return msl_up(x, d); }         \
    MSL_FN T simd_broadcast_first(T x) { return msl_from_lane(x, 0); }       \
    MSL_FN T quad_shuffle_xor(T x, ushort m) { return msl_butterfly(x, m & 3); }

#define MSL_ATOMIC(T, SPACE, NAME, INSTRUCTION)                                                 \
    MSL_FN T NAME(SPACE atomic_##T *p, T v, memory_order) {                                     \
        T old;                                                                                  \
        __asm__ volatile(INSTRUCTION " %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory"); \
        return old;                                                                             \
    }
#define MSL_ATOMICS(SPACE, STATE)                                                              \
    MSL_ATOMIC(uint, SPACE, atomic_fetch_add_explicit, "atom." STATE ".add.u32")               \
    MSL_ATOMIC(int, SPACE, atomic_fetch_add_explicit, "atom." STATE ".add.s32")                \
    MSL_ATOMIC(uint, SPACE, atomic_fetch_max_explicit, "atom." STATE ".max.u32")               \
    MSL_ATOMIC(uint, SPACE, atomic_fetch_min_explicit, "atom." STATE ".min.u32")               \
    MSL_ATOMIC(uint, SPACE, atomic_fetch_or_explicit, "atom." STATE ".or.b32")                 \
    MSL_ATOMIC(uint, SPACE, atomic_exchange_explicit, "atom." STATE ".exch.b32")               \
    MSL_FN uint atomic_load_explicit(SPACE atomic_uint *p, memory_order) {                     \
        uint v;                                                                                \
        __asm__ volatile("ld.volatile." STATE ".u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); \
        return v;                                                                              \
    }                                                                                          \
    MSL_FN void atomic_store_explicit(SPACE atomic_uint *p, uint v, memory_order) {            \
        __asm__ volatile("st.volatile." STATE ".u32 [%0], %1;" : : "l"(p), "r"(v) : "memory"); \
    }
MSL_ATOMICS(device, "global")
MSL_ATOMICS(threadgroup, "shared")
} // namespace metal
