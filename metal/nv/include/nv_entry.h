// How a launch calls a kernel: one entry, with an address for each buffer, and the places of the
// threadgroup arguments.
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
#define MSL_REGISTER(NAME) \
    msl::id { __nvvm_read_ptx_sreg_##NAME##_x(), __nvvm_read_ptx_sreg_##NAME##_y(), __nvvm_read_ptx_sreg_##NAME##_z() }
MSL_FN id thread_position_in_threadgroup() { return MSL_REGISTER(tid); }
MSL_FN id threadgroup_position_in_grid() { return MSL_REGISTER(ctaid); }
MSL_FN id threads_per_threadgroup() { return MSL_REGISTER(ntid); }
MSL_FN id dispatch_threads_per_threadgroup() { return MSL_REGISTER(ntid); }
MSL_FN id threadgroups_per_grid() { return MSL_REGISTER(nctaid); }
MSL_FN id threads_per_grid() {
    const id n = threads_per_threadgroup(), g = threadgroups_per_grid();
    return id{n.x * g.x, n.y * g.y, n.z * g.z};
}
MSL_FN id thread_position_in_grid() {
    const id n = threads_per_threadgroup(), g = threadgroup_position_in_grid(), t = thread_position_in_threadgroup();
    return id{g.x * n.x + t.x, g.y * n.y + t.y, g.z * n.z + t.z};
}
MSL_FN id thread_index_in_threadgroup() {
    const id n = threads_per_threadgroup(), t = thread_position_in_threadgroup();
    return id{t.x + n.x * (t.y + n.y * t.z), 0, 0};
}
MSL_FN id simdgroup_index_in_threadgroup() { return id{thread_index_in_threadgroup().x / 32, 0, 0}; }
MSL_FN id thread_index_in_simdgroup() { return id{msl_lane(), 0, 0}; }
MSL_FN id simdgroups_per_threadgroup() {
    const id n = threads_per_threadgroup();
    return id{n.x * n.y * n.z / 32, 0, 0};
}
MSL_FN id threads_per_simdgroup() { return id{32, 0, 0}; }

// The type of parameter I of function type F, and what it points to.
template <class F, int I> struct parameter;
template <class R, class A, class... Rest> struct parameter<R(A, Rest...), 0> { using type = A; };
template <class R, class A, class... Rest, int I> struct parameter<R(A, Rest...), I> : parameter<R(Rest...), I - 1> {};
template <class T> struct memory;
template <class T> struct memory<__global T *> { using pointer = __global T *; };
template <class T> struct memory<__global T &> { using pointer = __global T *; };
template <class T> struct memory<__local T *> { using pointer = __local T *; };
}  // namespace msl
#define MSL_POINTER(F, I) typename msl::memory<typename msl::parameter<F, I>::type>::pointer
