// The types of kernel arguments, for the entry point through which a device calls a kernel.
#pragma once

namespace msl {
// The value of a position attribute. It converts to each type that Metal allows.
struct id {
    uint x, y, z;
    MSL_FN operator uint() const { return x; }
    MSL_FN operator ushort() const { return (ushort)x; }
    MSL_FN operator uint2() const { return (uint2)(x, y); }
    MSL_FN operator uint3() const { return (uint3)(x, y, z); }
    MSL_FN operator ushort2() const { return (ushort2)((ushort)x, (ushort)y); }
    MSL_FN operator ushort3() const { return (ushort3)((ushort)x, (ushort)y, (ushort)z); }
};

// The type of parameter I of function type F.
template <class F, int I> struct parameter;
template <class R, class A, class... Rest> struct parameter<R(A, Rest...), 0> {
    using type = A;
};
template <class R, class A, class... Rest, int I>
struct parameter<R(A, Rest...), I> : parameter<R(Rest...), I - 1> {};
} // namespace msl
