// Fibers. Each thread of a threadgroup has a stack and runs until it waits.
#include "msl.h"

__thread struct worker *worker __attribute__((tls_model("initial-exec")));

// msl_switch saves the callee-saved registers and the stack pointer, and restores those of another
// fiber (System V x86-64).
__asm__(".text\n.globl msl_switch\n.hidden msl_switch\n.type msl_switch,@function\n"
        "msl_switch:\n push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        " mov %rsp,(%rdi)\n mov %rsi,%rsp\n"
        " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n"
        ".size msl_switch,.-msl_switch\n");

void msl_report(uint32_t kind, uint32_t threadgroup_memory, uint64_t a, uint64_t b, void *pc) {
    struct dispatch *d = worker->dispatch;
    uint32_t i = __atomic_fetch_add(&d->faults, 1, __ATOMIC_RELAXED);
    if (i < FAULTS) {
        struct fiber *f = worker->current;
        d->fault[i] = (struct fault){kind, worker->group, f ? f->index : 0, threadgroup_memory, a,
                                     b,    (uint64_t)pc};
    }
}

_Noreturn void msl_abandon(void) {
    __atomic_store_n(&worker->dispatch->stop, 1, __ATOMIC_RELAXED);
    msl_switch(&worker->current->sp, worker->main_sp);
    abort(); // an abandoned fiber is never resumed
}

// schedule switches from the current fiber, which waits or has finished, to the next runnable one.
// If there is none, the threadgroup has finished or is in a deadlock.
static void schedule(void) {
    struct worker *w = worker;
    struct fiber *self = w->current;
    for (uint32_t i = 0, at = w->position[self->index]; i < w->n; i++) {
        if (++at == w->n) at = 0;
        struct fiber *f = &w->fiber[w->order[at]];
        if (f->state != RUNNABLE) continue;
        if (f != self) {
            w->current = f;
            msl_switch(&self->sp, f->sp);
        }
        return;
    }
    if (w->live) {
        msl_report(DEADLOCK, 0, self->place, self->state, self->pc);
        msl_abandon();
    }
    msl_switch(&self->sp, w->main_sp);
}

static void release_threadgroup(struct worker *w, uint32_t place, void *pc) {
    if (w->live != w->n) msl_report(BARRIER_AFTER_RETURN, 0, w->n - w->live, 0, pc);
    for (uint32_t i = 0, said = 0; i < w->n; i++) {
        struct fiber *f = &w->fiber[i];
        if (f->state != AT_BARRIER) continue;
        if (f->place != place && place && !said++)
            msl_report(BARRIER_DIVERGED, 0, f->place, (uint64_t)f->pc, pc);
        f->state = RUNNABLE;
    }
    w->arrived = 0;
}

static void release_simdgroup(struct worker *w, uint32_t index, uint32_t parity) {
    struct simdgroup *s = &w->simdgroup[index];
    struct fiber *first = NULL;
    s->exchange[parity].mask = s->mask;
    s->exchange[parity].done = 0;
    s->arrived = 0;
    for (uint32_t l = 0; l < s->n; l++) {
        struct fiber *f = &w->fiber[index * SIMD + l];
        if (f->state != AT_SIMD && !(f == w->current && f->state == RUNNABLE)) continue;
        if (!first) first = f;
        if (f->place != first->place) {
            msl_report(SIMD_DIVERGED, 0, f->place, (uint64_t)f->pc, first->pc);
            first = f; // reports each pair of neighbours once, not each lane
        }
        f->state = RUNNABLE;
    }
}

// finish ends the current fiber, whose kernel has returned. Other fibers may be waiting only for
// it.
static _Noreturn void finish(void) {
    struct worker *w = worker;
    struct fiber *self = w->current;
    struct simdgroup *s = &w->simdgroup[self->simdgroup];
    self->state = DONE;
    w->live--;
    s->live--;
    s->mask &= ~(1u << self->lane);
    if (s->live && s->arrived == s->live)
        for (uint32_t l = 0; l < s->n; l++) {
            struct fiber *f = &w->fiber[self->simdgroup * SIMD + l];
            if (f->state == AT_SIMD) {
                release_simdgroup(w, self->simdgroup, f->parity);
                break;
            }
        }
    if (w->live && w->arrived == w->live) release_threadgroup(w, 0, NULL);
    schedule();
    abort();
}

static void begin(void) {
    worker->dispatch->entry(&worker->current->context);
    finish();
}

void msl_start(struct worker *w) {
    for (uint32_t i = 0; i < w->n; i++) {
        uint64_t *sp = (uint64_t *)(w->stacks + (size_t)(i + 1) * STACK - 64); // aligned to 64
        *--sp = 0;
        *--sp = (uint64_t)begin;
        sp -= 6; // the registers that msl_switch pops
        memset(sp, 0, 6 * sizeof *sp);
        w->fiber[i].sp = sp;
    }
    w->current = &w->fiber[w->order[0]];
    msl_switch(&w->main_sp, w->current->sp);
    w->current = NULL;
}

// Kernels call the functions below, through include/sim_threads.h.

static struct exchange *meet(const void *in, uint32_t size, uint32_t place, void *pc) {
    struct worker *w = worker;
    struct fiber *self = w->current;
    struct simdgroup *s = &w->simdgroup[self->simdgroup];
    uint32_t parity = self->parity;
    struct exchange *e = &s->exchange[parity];
    if (size > sizeof e->slot[0]) abort();
    memcpy(e->slot[self->lane], in, size);
    self->place = place;
    self->pc = pc;
    if (++s->arrived == s->live) {
        release_simdgroup(w, self->simdgroup, parity);
    } else {
        self->state = AT_SIMD;
        schedule();
    }
    self->parity = parity ^ 1;
    return e;
}

EXPORT struct exchange *msl_meet(const void *in, uint32_t size, uint32_t place) {
    return meet(in, size, place, CALLER);
}

EXPORT void msl_simd_barrier(uint32_t flags, uint32_t place) {
    struct exchange *e = meet("", 1, place, CALLER);
    if (e->done) return;
    e->done = 1;
    if (flags) worker->simdgroup[worker->current->simdgroup].epoch++;
}

EXPORT void msl_barrier(uint32_t flags, uint32_t place) {
    struct worker *w = worker;
    struct fiber *self = w->current;
    self->place = place;
    self->pc = CALLER;
    if (++w->arrived == w->live) {
        release_threadgroup(w, place, CALLER);
        w->threadgroup_epoch += flags >> 1 & 1;
        w->device_epoch += flags & 1;
    } else {
        self->state = AT_BARRIER;
        schedule();
    }
}

uint64_t msl_place_variable(uint32_t id, uint32_t bytes) {
    struct worker *w = worker;
    for (uint32_t i = 0; i < w->variables; i++)
        if (w->variable[i].id == id) return (uint64_t)(w->arena + w->variable[i].offset);
    int check = w->dispatch->flags & CHECK;
    uint32_t offset = ((w->used + 15) & ~15u) + (check ? RED_ZONE : 0);
    w->bytes += (bytes + 15) & ~15u;
    if (w->bytes > LIMIT) msl_report(THREADGROUP_MEMORY, 1, w->bytes, LIMIT, NULL);
    if (w->bytes > LIMIT || w->variables == VARIABLES ||
        (uint64_t)offset + bytes + RED_ZONE > ARENA)
        return 0;
    w->variable[w->variables++] = (struct variable){id, offset, bytes};
    w->used = offset + bytes;
    if (check) { // unwritten memory holds NaNs
        memset(w->arena + offset, 0xFF, bytes);
        memset(w->arena_cells + offset, 0, bytes * sizeof(struct cell));
    }
    return (uint64_t)(w->arena + offset);
}

EXPORT uint64_t msl_threadgroup_variable(uint32_t id, uint32_t bytes) {
    uint64_t address = msl_place_variable(id, bytes);
    if (!address) msl_abandon();
    return address;
}

EXPORT uint64_t msl_function_constant(uint32_t index) { return worker->dispatch->constants[index]; }
EXPORT uint32_t msl_lane(void) { return worker->current->lane; }
EXPORT void msl_fail(uint32_t kind, uint64_t a, uint64_t b) { msl_report(kind, 0, a, b, CALLER); }

EXPORT uint32_t msl_atomic(uint32_t op, uint64_t address, uint32_t v, uint32_t expected) {
    uint32_t *p = (uint32_t *)address, old;
    if (worker->dispatch->flags & CHECK) {
        if (op != 3) msl_access(address, 4, 0, 1, CALLER);
        if (op != 2) msl_access(address, 4, 1, 1, CALLER);
    }
    switch (op) {
    case 0: return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
    case 2: return __atomic_load_n(p, __ATOMIC_RELAXED);
    case 3: __atomic_store_n(p, v, __ATOMIC_RELAXED); return 0;
    case 4: return __atomic_exchange_n(p, v, __ATOMIC_RELAXED);
    case 6: return __atomic_fetch_or(p, v, __ATOMIC_RELAXED);
    case 7:
        old = expected;
        __atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        return old;
    }
    old = __atomic_load_n(p, __ATOMIC_RELAXED); // 1: max, 5: min
    while ((op == 1 ? old < v : old > v) &&
           !__atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return old;
}

// float32 to bfloat16, rounded to nearest even. clang calls it on CPUs without such an instruction.
EXPORT __bf16 __truncsfbf2(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    uint32_t r =
        (u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
    uint16_t h = (uint16_t)r;
    __bf16 b;
    memcpy(&b, &h, 2);
    return b;
}
