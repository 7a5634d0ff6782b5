// How the runtime calls a kernel: an entry per kernel, `msl_entry_NAME(context)`, that fetches the
// arguments by their types, and a table `msl_layout_NAME` with size and alignment of what each
// argument points to.
#pragma once

namespace msl {
struct id {
    uint x, y, z;
    MSL_FN operator uint() const { return x; }
    MSL_FN operator ushort() const { return (ushort)x; }
    MSL_FN operator uint2() const { return (uint2)(x, y); }
    MSL_FN operator uint3() const { return (uint3)(x, y, z); }
    MSL_FN operator ushort2() const { return (ushort2)((ushort)x, (ushort)y); }
    MSL_FN operator ushort3() const { return (ushort3)((ushort)x, (ushort)y, (ushort)z); }
};
struct context {  // as struct context in runtime/msl.h
    __private const ulong *buffers;
    __private const ulong *threadgroups;
    id thread_position_in_grid, thread_position_in_threadgroup, threadgroup_position_in_grid, threads_per_threadgroup, threadgroups_per_grid,
        threads_per_grid, thread_index_in_threadgroup, simdgroup_index_in_threadgroup, thread_index_in_simdgroup, simdgroups_per_threadgroup,
        threads_per_simdgroup, dispatch_threads_per_threadgroup;
};

// the type of parameter I of function type F
template <class F, int I> struct parameter;
template <class R, class A, class... Rest> struct parameter<R(A, Rest...), 0> { using type = A; };
template <class R, class A, class... Rest, int I> struct parameter<R(A, Rest...), I> : parameter<R(Rest...), I - 1> {};

// what a buffer or threadgroup argument points to, and the argument made of an address
template <class T> struct memory;
#define MSL_MEMORY(SPACE)                                                                     \
    template <class T> struct memory<SPACE T *> {                                             \
        static constexpr uint size = sizeof(T), align = alignof(T);                           \
        static MSL_FN SPACE T *at(ulong address) { return (SPACE T *)address; }               \
    };                                                                                        \
    template <class T> struct memory<SPACE T &> {                                             \
        static constexpr uint size = sizeof(T), align = alignof(T);                           \
        static MSL_FN SPACE T &at(ulong address) { return *(SPACE T *)address; }              \
    };
MSL_MEMORY(__global) MSL_MEMORY(__constant) MSL_MEMORY(__local)
}  // namespace msl
#define MSL_EXPORT extern "C" __attribute__((visibility("default")))
#define MSL_MEMORY_OF(F, I) msl::memory<typename msl::parameter<F, I>::type>
