// Dispatches: workers run threadgroups until none is left.
#include "msl.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
static struct worker *free_workers[16];
static int free_count;

static void *map(size_t bytes) {
    void *p = mmap(
        NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort();
    return p;
}

// take_worker returns a worker. Workers are kept between dispatches because their stacks are large.
static struct worker *take_worker(void) {
    pthread_mutex_lock(&free_lock);
    struct worker *w = free_count ? free_workers[--free_count] : NULL;
    pthread_mutex_unlock(&free_lock);
    if (w) return w;
    w = map(sizeof *w);
    w->stacks = map((size_t)MAX_THREADS * STACK);
    // a stack overflow faults at once
    for (int i = 0; i < MAX_THREADS; i++) mprotect(w->stacks + (size_t)i * STACK, GUARD, PROT_NONE);
    w->arena_cells = map(ARENA * sizeof(struct cell));
    return w;
}

static void return_worker(struct worker *w) {
    pthread_mutex_lock(&free_lock);
    if (free_count < (int)(sizeof free_workers / sizeof *free_workers)) {
        free_workers[free_count++] = w;
        w = NULL;
    }
    pthread_mutex_unlock(&free_lock);
    if (!w) return;
    munmap(w->stacks, (size_t)MAX_THREADS * STACK);
    munmap(w->arena_cells, ARENA * sizeof(struct cell));
    munmap(w, sizeof *w);
}

// order_threads sets the order in which threads run. In checking mode each threadgroup has its own
// order, which depends only on the seed.
static void order_threads(struct worker *w, struct dispatch *d, uint32_t group) {
    for (uint32_t i = 0; i < w->n; i++) w->order[i] = i;
    if (d->flags & SHUFFLE_THREADS) {
        uint64_t r = ((uint64_t)d->seed << 32 | group) * 0x9E3779B97F4A7C15u + 1;
        for (uint32_t i = w->n - 1; i > 0; i--) {
            r = r * 6364136223846793005u + 1442695040888963407u;
            uint32_t j = (uint32_t)(r >> 33) % (i + 1), t = w->order[i];
            w->order[i] = w->order[j];
            w->order[j] = t;
        }
    }
    for (uint32_t i = 0; i < w->n; i++) w->position[w->order[i]] = i;
}

static void set_up_thread(struct worker *w, struct dispatch *d, uint32_t i, struct id group) {
    struct fiber *f = &w->fiber[i];
    const uint32_t *s = d->threads, *g = d->groups;
    struct id in = {i % s[0], i / s[0] % s[1], i / s[0] / s[1]};
    f->state = RUNNABLE;
    f->simdgroup = i / SIMD, f->lane = i % SIMD, f->index = i, f->parity = 0, f->place = 0,
    f->pc = NULL;
    f->context = (struct context){
        d->buffer,
        w->threadgroup,
        .in_grid = {group.x * s[0] + in.x, group.y * s[1] + in.y, group.z * s[2] + in.z},
        .in_group = in,
        .group = group,
        .group_size = {s[0], s[1], s[2]},
        .groups = {g[0], g[1], g[2]},
        .grid = {g[0] * s[0], g[1] * s[1], g[2] * s[2]},
        .index = {i, 0, 0},
        .simdgroup = {f->simdgroup, 0, 0},
        .lane = {f->lane, 0, 0},
        .simdgroups = {w->simdgroups, 0, 0},
        .simd_size = {SIMD, 0, 0},
        .dispatch_size = {s[0], s[1], s[2]},
    };
}

static void run_threadgroup(struct worker *w, struct dispatch *d, uint32_t group) {
    struct id at = {
        group % d->groups[0], group / d->groups[0] % d->groups[1],
        group / d->groups[0] / d->groups[1]};
    w->n = w->live = d->threads[0] * d->threads[1] * d->threads[2];
    w->simdgroups = (w->n + SIMD - 1) / SIMD;
    w->arrived = 0, w->group = group, w->threadgroup_epoch = w->device_epoch = 1,
    w->variables = w->used = w->bytes = 0;
    for (uint32_t i = 0; i < BUFFERS; i++)
        w->threadgroup[i] =
            d->threadgroup_bytes[i] ? msl_place_variable(1000 + i, d->threadgroup_bytes[i]) : 0;
    for (uint32_t i = 0; i < w->simdgroups; i++) {
        struct simdgroup *s = &w->simdgroup[i];
        s->n = s->live = w->n - i * SIMD < SIMD ? w->n - i * SIMD : SIMD;
        s->mask = s->n == SIMD ? ~0u : (1u << s->n) - 1;
        s->arrived = 0, s->epoch = 1;
    }
    order_threads(w, d, group);
    for (uint32_t i = 0; i < w->n; i++) set_up_thread(w, d, i, at);
    msl_start(w);
    for (uint32_t used = d->used_bytes; w->bytes > used;)
        if (__atomic_compare_exchange_n(
                &d->used_bytes, &used, w->bytes, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            break;
}

static void *work(void *argument) {
    struct dispatch *d = argument;
    struct worker *w = take_worker();
    uint32_t groups = d->groups[0] * d->groups[1] * d->groups[2];
    worker = w;
    w->dispatch = d;
    w->current = NULL;
    for (uint32_t i = 0; i < d->regions; i++)
        w->region_cells[i] = d->region[i].writable
                                 ? map((d->region[i].to - d->region[i].from) * sizeof(struct cell))
                                 : NULL;
    while (!__atomic_load_n(&d->stop, __ATOMIC_RELAXED)) {
        uint32_t g = __atomic_fetch_add(&d->next, 1, __ATOMIC_RELAXED);
        if (g >= groups) break;
        run_threadgroup(w, d, g);
    }
    for (uint32_t i = 0; i < d->regions; i++)
        if (w->region_cells[i])
            munmap(w->region_cells[i], (d->region[i].to - d->region[i].from) * sizeof(struct cell));
    worker = NULL;
    return_worker(w);
    return NULL;
}

// msl_dispatch runs d and returns the number of faults. It blocks the signals that Go sends its
// threads: their handlers do not work on a fiber's stack.
EXPORT int64_t msl_dispatch(struct dispatch *d) {
    pthread_t helper[16];
    uint32_t helpers = 0;
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV), sigdelset(&all, SIGBUS), sigdelset(&all, SIGILL),
        sigdelset(&all, SIGFPE), sigdelset(&all, SIGABRT);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (helpers + 1 < d->workers && helpers < 16 &&
           !pthread_create(&helper[helpers], NULL, work, d))
        helpers++;
    work(d);
    for (uint32_t i = 0; i < helpers; i++) pthread_join(helper[i], NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return d->faults;
}
