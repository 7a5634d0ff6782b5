// What MLX's Metal kernels for packing need to run on a CPU as C++: metal.py puts their text after
// this one and compiles both. A kernel runs for 32 threads, one after another. An exchange between
// threads ends the run of each until all have reached it. Then all run again, up to the next one.
#include <immintrin.h>
#include <cmath>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define device
#define constant
#define thread
struct uint2 { unsigned x, y; };
typedef unsigned uint;
typedef unsigned short ushort;

struct float16_t {
    uint16_t bits;
    float16_t() {}
    explicit float16_t(float x) : bits(_cvtss_sh(x, 0)) {}
    operator float() const { return _cvtsh_ss(bits); }
    float16_t &operator*=(double x) { return *this = float16_t(float(*this) * float(x)); }
    float16_t operator*(double x) const { return float16_t(float(*this) * float(x)); }
    float16_t operator-() const { return float16_t(-float(*this)); }
};
typedef float16_t half;
struct bfloat16_t {
    uint16_t bits;
    bfloat16_t() {}
    explicit bfloat16_t(float x) {
        uint32_t b;
        memcpy(&b, &x, 4);
        bits = (b & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : (b + 0x7fff + (b >> 16 & 1)) >> 16;
    }
    operator float() const {
        uint32_t b = uint32_t(bits) << 16;
        float x;
        memcpy(&x, &b, 4);
        return x;
    }
};
template <typename To, typename From> To as_type(From x) {
    static_assert(sizeof(To) == sizeof(From), "");
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}

namespace metal {
template <bool B, typename T, typename F> struct conditional { typedef T type; };
template <typename T, typename F> struct conditional<false, T, F> { typedef F type; };
template <bool B, typename T, typename F>
using conditional_t = typename conditional<B, T, F>::type;
static inline bool isnan(float x) { return x != x; }
static inline bool isfinite(float x) { return x - x == 0; }
static inline bool signbit(float x) { return as_type<uint32_t>(x) >> 31; }
static inline float abs(float x) { return fabsf(x); }
static inline float log2(float x) { return log2f(x); }
static inline float round(float x) { return roundf(x); }
} // namespace metal
using std::abs;
using std::round;
static inline float min(float x, float y) { return fminf(x, y); }
static inline float max(float x, float y) { return fmaxf(x, y); }
template <typename T> struct Limits { static constexpr float max = INFINITY; };

static struct {
    int lane, at, known;
    float values[64][32], result[64];
    jmp_buf out;
} group;
enum { LEAST, MOST, SHUFFLE };

static float exchange(int kind, float x, int from) {
    const int k = group.at++;
    if (k < group.known)
        return kind == SHUFFLE ? group.values[k][(group.lane + from) % 32] : group.result[k];
    group.values[k][group.lane] = x;
    if (group.lane == 31 && kind != SHUFFLE) {
        float y = group.values[k][0];
        for (int i = 1; i < 32; i++)
            y = kind == LEAST ? fminf(y, group.values[k][i]) : fmaxf(y, group.values[k][i]);
        group.result[k] = y;
    }
    longjmp(group.out, 1);
}
static float simd_min(float x) { return exchange(LEAST, x, 0); }
static float simd_max(float x) { return exchange(MOST, x, 0); }
static uint8_t simd_shuffle_down(uint8_t x, int by) { return (uint8_t)exchange(SHUFFLE, x, by); }

// Runs a kernel for 32 threads.
template <typename F> static void run(F kernel) {
    for (group.known = 0;; group.known++) {
        volatile int ended = 0;
        for (group.lane = 0; group.lane < 32; group.lane++) {
            group.at = 0;
            if (setjmp(group.out)) continue;
            kernel(group.lane);
            ended++;
        }
        if (ended) return;
    }
}
