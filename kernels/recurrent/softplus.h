// softplus, of which both recurrences make their decay. Included once per instruction set, after
// state.h.

// log(1 + u) for u in [0, 1]: 2 atanh(z) with z = u / (2 + u) <= 1/3, nine terms of its series (the
// next is under 1e-10).
SIMD f32x16 KERNEL(log1p_unit)(f32x16 u) {
    f32x16 z = v_div(u, v_add(v_set1(2.0f), u)), z2 = v_mul(z, z);
    f32x16 p = v_set1(1.0f / 17);
    p = v_fma(p, z2, v_set1(1.0f / 15));
    p = v_fma(p, z2, v_set1(1.0f / 13));
    p = v_fma(p, z2, v_set1(1.0f / 11));
    p = v_fma(p, z2, v_set1(1.0f / 9));
    p = v_fma(p, z2, v_set1(1.0f / 7));
    p = v_fma(p, z2, v_set1(1.0f / 5));
    p = v_fma(p, z2, v_set1(1.0f / 3));
    z = v_add(z, z);
    return v_fma(v_mul(p, z2), z, z);
}

// log(1 + e^x) without overflow.
SIMD f32x16 KERNEL(softplus)(f32x16 x) {
    f32x16 zero = v_zero();
    return v_add(v_max(x, zero), KERNEL(log1p_unit)(v_exp(v_min(x, v_sub(zero, x)))));
}
