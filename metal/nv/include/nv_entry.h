// The parts of a kernel's entry point: position attributes, read from the GPU's registers, and the
// pointer types of the arguments.
#pragma once

namespace msl {
#define MSL_REGISTER(NAME)                                                    \
    msl::id {                                                                 \
        __nvvm_read_ptx_sreg_##NAME##_x(), __nvvm_read_ptx_sreg_##NAME##_y(), \
            __nvvm_read_ptx_sreg_##NAME##_z()                                 \
    }
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
    const id n = threads_per_threadgroup(), g = threadgroup_position_in_grid(),
             t = thread_position_in_threadgroup();
    return id{g.x * n.x + t.x, g.y * n.y + t.y, g.z * n.z + t.z};
}
MSL_FN id thread_index_in_threadgroup() {
    const id n = threads_per_threadgroup(), t = thread_position_in_threadgroup();
    return id{t.x + n.x * (t.y + n.y * t.z), 0, 0};
}
MSL_FN id simdgroup_index_in_threadgroup() {
    return id{thread_index_in_threadgroup().x / 32, 0, 0};
}
MSL_FN id thread_index_in_simdgroup() { return id{msl_lane(), 0, 0}; }
MSL_FN id simdgroups_per_threadgroup() {
    const id n = threads_per_threadgroup();
    return id{n.x * n.y * n.z / 32, 0, 0};
}
MSL_FN id threads_per_simdgroup() { return id{32, 0, 0}; }

// The pointer type of a buffer or threadgroup argument.
template <class T> struct memory;
template <class T> struct memory<__global T *> {
    using pointer = __global T *;
};
template <class T> struct memory<__global T &> {
    using pointer = __global T *;
};
template <class T> struct memory<__local T *> {
    using pointer = __local T *;
};
} // namespace msl
#define MSL_POINTER(F, I) typename msl::memory<typename msl::parameter<F, I>::type>::pointer
