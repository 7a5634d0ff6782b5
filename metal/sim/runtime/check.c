// The checker. Checking builds are compiled with clang's -fsanitize=thread. For each load and store
// that another thread could see, clang inserts a call of one of the functions below. They replace
// the sanitizer's runtime.
#include "msl.h"

// ordered returns whether two accesses are ordered by a barrier, or need no order.
static int ordered(const struct touch *before, const struct touch *now) {
    if (!before->thread || before->thread == now->thread) return 1;
    uint32_t a = before->thread - 1, b = now->thread - 1;
    if (a / MAX_THREADS != b / MAX_THREADS) return 0; // threadgroups of one dispatch have no order
    if (before->epoch != now->epoch) return 1;
    // ordered by simdgroup_barrier
    return a % MAX_THREADS / SIMD == b % MAX_THREADS / SIMD && before->sg_epoch != now->sg_epoch;
}

// shadow checks one access against the shadow cells of its bytes and records it there. It reports
// the first fault of an access.
static void shadow(
    struct cell *c, uint32_t size, int write, int atomic, int group_memory, uint64_t address,
    void *pc) {
    struct worker *w = worker;
    struct touch now = {
        w->group * MAX_THREADS + w->current->index + 1,
        (uint16_t)(group_memory ? w->threadgroup_epoch : w->device_epoch),
        w->simdgroup[w->current->simdgroup].epoch & 0x7fff,
        atomic != 0,
    };
    for (uint32_t i = 0; i < size; i++, c++) {
        if (group_memory && !write && !c->writer.thread) {
            msl_report(UNINITIALISED, 1, address + i, size, pc);
            return;
        }
        if (!(atomic && c->writer.atomic) && !ordered(&c->writer, &now)) {
            msl_report(
                write ? RACE_WRITE_WRITE : RACE_READ_AFTER_WRITE, group_memory, address + i,
                c->writer.thread - 1, pc);
            c->writer = now; // reports one race once, not for every pair of threads
            return;
        }
        if (write) {
            for (int k = 0; k < 2; k++) {
                struct touch *r = &c->readers[k];
                if ((atomic && r->atomic) || ordered(r, &now)) continue;
                msl_report(RACE_WRITE_AFTER_READ, group_memory, address + i, r->thread - 1, pc);
                r->thread = 0;
                return;
            }
            c->writer = now;
        } else if (c->readers[0].thread == now.thread || ordered(&c->readers[0], &now)) {
            c->readers[0] = now;
        } else {
            // two readers of one epoch suffice: a writer differs from one of them
            c->readers[1] = now;
        }
    }
}

static void threadgroup_access(uint32_t offset, uint32_t size, int write, int atomic, void *pc) {
    struct worker *w = worker;
    for (uint32_t i = 0; i < w->variables; i++) {
        struct variable *v = &w->variable[i];
        if (offset >= v->offset && offset + size <= v->offset + v->bytes) {
            shadow(w->arena_cells + offset, size, write, atomic, 1, offset - v->offset, pc);
            return;
        }
    }
    msl_report(OUT_OF_BOUNDS_THREADGROUP, 1, offset, size, pc);
}

void msl_access(uint64_t address, uint32_t size, int write, int atomic, void *pc) {
    struct worker *w = worker;
    if (!w || !w->current) return;
    struct dispatch *d = w->dispatch;
    if (address - (uint64_t)w->stacks < (uint64_t)MAX_THREADS * STACK) return;
    if (address - (uint64_t)w->arena < ARENA) {
        threadgroup_access((uint32_t)(address - (uint64_t)w->arena), size, write, atomic, pc);
        return;
    }
    for (uint32_t i = 0; i < d->regions; i++) {
        struct region *r = &d->region[i];
        if (address < r->from || address + size > r->to) continue;
        for (uint32_t k = 0; k < size; k++) r->touched[address - r->from + k] |= write ? 2 : 1;
        if (w->region_cells[i])
            shadow(w->region_cells[i] + (address - r->from), size, write, atomic, 0, address, pc);
        else if (write)
            msl_report(READ_ONLY, 0, address, size, pc);
        return;
    }
    // a fiber's context or an exchange
    if (address - (uint64_t)w < sizeof *w) return;
    // constants in the library's image
    if (address >= d->image_from && address < d->image_to && !write) return;
    msl_report(write ? OUT_OF_BOUNDS_WRITE : OUT_OF_BOUNDS_READ, 0, address, size, pc);
    // continuing would access memory of the process
    msl_abandon();
}

#define ACCESSES(n)                                                                       \
    EXPORT void __tsan_read##n(uint64_t a) { msl_access(a, n, 0, 0, CALLER); }            \
    EXPORT void __tsan_write##n(uint64_t a) { msl_access(a, n, 1, 0, CALLER); }           \
    EXPORT void __tsan_unaligned_read##n(uint64_t a) { msl_access(a, n, 0, 0, CALLER); }  \
    EXPORT void __tsan_unaligned_write##n(uint64_t a) { msl_access(a, n, 1, 0, CALLER); } \
    EXPORT void __tsan_read_write##n(uint64_t a) {                                        \
        msl_access(a, n, 0, 0, CALLER), msl_access(a, n, 1, 0, CALLER);                   \
    }                                                                                     \
    EXPORT void __tsan_unaligned_read_write##n(uint64_t a) {                              \
        msl_access(a, n, 0, 0, CALLER), msl_access(a, n, 1, 0, CALLER);                   \
    }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
EXPORT void __tsan_init(void) {}
EXPORT void __tsan_func_entry(void *pc) { (void)pc; }
EXPORT void __tsan_func_exit(void) {}
EXPORT void *__tsan_memcpy(void *to, const void *from, uint64_t n) {
    msl_access((uint64_t)from, (uint32_t)n, 0, 0, CALLER);
    msl_access((uint64_t)to, (uint32_t)n, 1, 0, CALLER);
    return memcpy(to, from, n);
}
EXPORT void *__tsan_memmove(void *to, const void *from, uint64_t n) {
    msl_access((uint64_t)from, (uint32_t)n, 0, 0, CALLER);
    msl_access((uint64_t)to, (uint32_t)n, 1, 0, CALLER);
    return memmove(to, from, n);
}
EXPORT void *__tsan_memset(void *to, int c, uint64_t n) {
    msl_access((uint64_t)to, (uint32_t)n, 1, 0, CALLER);
    return memset(to, c, n);
}
