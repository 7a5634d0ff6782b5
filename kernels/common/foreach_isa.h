// Compiles a C file once per instruction set.
//
// A kernel file has two halves:
//
//     #ifdef ISA                        // compiled once per instruction set, after simd.h
//     static void KERNEL(rms_norm)(...) { ... }
//     #else                             // compiled once; includes this file
//     #define KERNEL_SOURCE "rms_norm.c"
//     #include "foreach_isa.h"
//     void headroom_rms_norm(int isa, ...) { DISPATCH(isa, rms_norm, (...)); }
//     #endif
//
// KERNEL(name) appends the suffix of the instruction set to name. Fused multiply-adds are written
// explicitly, and the compiler may not create others: -std=c11 in the package's #cgo CFLAGS forbids
// it to GCC, and the pragma below to clang. So every instruction set gives the same bits, unless a
// kernel documents a difference.
#pragma once
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <math.h>

// Values of headroom/kernels/cpu.ISA.
#define ISA_AVX2 2
#define ISA_AVX512 3
#define ISA_VNNI 4
#define ISA_AMX 5
#define ISA_NEON 6

#define CAT2(a, b) a##_##b
#define CAT(a, b) CAT2(a, b)
#define KERNEL(name) CAT(name, ISA_SUFFIX)

#if defined(__x86_64__)

#include <immintrin.h>

#define ISA ISA_AVX2
#define ISA_SUFFIX avx2
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,bmi,bmi2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi,bmi2")
#endif
#include "simd.h"
#include KERNEL_SOURCE
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef ISA
#undef ISA_SUFFIX

#define ISA ISA_AVX512
#define ISA_SUFFIX avx512
#ifdef __clang__
#pragma clang attribute push( \
    __attribute__((target("avx2,fma,f16c,bmi,bmi2,avx512f,avx512bw,avx512dq,avx512vl"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi,bmi2,avx512f,avx512bw,avx512dq,avx512vl")
#endif
#include "simd.h"
#include KERNEL_SOURCE
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef ISA
#undef ISA_SUFFIX

#ifdef KERNEL_USES_VNNI // the kernel uses integer dot products or byte permutes
#define ISA ISA_VNNI
#define ISA_SUFFIX vnni
#ifdef __clang__
#pragma clang attribute push( \
    __attribute__((target( \
        "avx2,fma,f16c,bmi,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target( \
    "avx2,fma,f16c,bmi,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi")
#endif
#include "simd.h"
#include KERNEL_SOURCE
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef ISA
#undef ISA_SUFFIX
#ifdef KERNEL_USES_AMX // the VNNI half also defines name_amx
#define CASE_VNNI(name, args) \
    case ISA_VNNI: CAT(name, vnni) args; break; \
    case ISA_AMX: CAT(name, amx) args; break;
#else
#define CASE_VNNI(name, args) \
    case ISA_VNNI: \
    case ISA_AMX: CAT(name, vnni) args; break;
#endif
#else
#define CASE_VNNI(name, args) \
    case ISA_VNNI: \
    case ISA_AMX: CAT(name, avx512) args; break;
#endif

#define DISPATCH(isa, name, args) \
    switch (isa) { \
    case ISA_AVX2: CAT(name, avx2) args; break; \
    case ISA_AVX512: \
        CAT(name, avx512) args; \
        break; \
        CASE_VNNI(name, args) \
    }

#elif defined(__aarch64__)

#include <arm_neon.h>
#define ISA ISA_NEON
#define ISA_SUFFIX neon
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("dotprod,fp16"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("arch=armv8.2-a+dotprod+fp16")
#endif
#include "simd.h"
#include KERNEL_SOURCE
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef ISA
#undef ISA_SUFFIX
#define DISPATCH(isa, name, args) CAT(name, neon) args

#else
#error "no SIMD kernels for this processor: build with CGO_ENABLED=0 for the plain Go ones"
#endif
