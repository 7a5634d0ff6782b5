// The entry point through which the runtime calls a kernel. Each kernel has a function
// `msl_entry_NAME(context)`, which calls the kernel with its arguments, and a table
// `msl_layout_NAME` with the size and alignment of each argument's element type.
#pragma once

namespace msl {
// context has the layout of struct context in runtime/msl.h.
struct context {
    __private const ulong *buffers;
    __private const ulong *threadgroups;
    id thread_position_in_grid, thread_position_in_threadgroup, threadgroup_position_in_grid,
        threads_per_threadgroup, threadgroups_per_grid, threads_per_grid,
        thread_index_in_threadgroup, simdgroup_index_in_threadgroup, thread_index_in_simdgroup,
        simdgroups_per_threadgroup, threads_per_simdgroup, dispatch_threads_per_threadgroup;
};

// The size and alignment of a buffer or threadgroup argument's element type. at makes the argument
// from an address.
template <class T> struct memory;
#define MSL_MEMORY(SPACE)                                                        \
    template <class T> struct memory<SPACE T *> {                                \
        static constexpr uint size = sizeof(T), align = alignof(T);              \
        static MSL_FN SPACE T *at(ulong address) { return (SPACE T *)address; }  \
    };                                                                           \
    template <class T> struct memory<SPACE T &> {                                \
        static constexpr uint size = sizeof(T), align = alignof(T);              \
        static MSL_FN SPACE T &at(ulong address) { return *(SPACE T *)address; } \
    };
MSL_MEMORY(__global)
MSL_MEMORY(__constant)
MSL_MEMORY(__local)
} // namespace msl
#define MSL_EXPORT extern "C" __attribute__((visibility("default")))
#define MSL_MEMORY_OF(F, I) msl::memory<typename msl::parameter<F, I>::type>
