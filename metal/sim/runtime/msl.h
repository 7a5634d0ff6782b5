// The runtime of compiled kernels. Threads are fibers. Each worker, an OS thread, runs one
// threadgroup at a time.
//
//   dispatch.c  workers, threadgroups, the call from Go
//   fibers.c    switching, barriers, simdgroup exchanges, threadgroup variables
//   check.c     shadow memory: bounds, races, uninitialised reads; called by the loads and stores
//               of checking builds
//   image.c     linked into each library of kernels; returns that library's address range
//
// struct dispatch is laid out as in runtime.go, struct context as in include/sim_entry.h.
#pragma once
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

enum {
    BUFFERS = 31,
    MAX_THREADS = 1024,
    SIMD = 32,
    STACK = 64 * 1024,
    GUARD = 4096,
    ARENA = 256 * 1024,
    RED_ZONE = 1024,
    LIMIT = 32 * 1024,
    VARIABLES = 96,
    FAULTS = 16
};

// Kinds of faults, as in faults.go. include/sim_threads.h repeats 7 to 9.
enum {
    DEADLOCK = 1,
    BARRIER_AFTER_RETURN = 2,
    BARRIER_DIVERGED = 3,
    SIMD_DIVERGED = 4,
    THREADGROUP_MEMORY = 5,
    MATRIX_INACTIVE = 7,
    MATRIX_ADDRESS = 8,
    SHUFFLE = 9,
    RACE_WRITE_WRITE = 10,
    RACE_READ_AFTER_WRITE = 11,
    RACE_WRITE_AFTER_READ = 12,
    UNINITIALISED = 13,
    OUT_OF_BOUNDS_READ = 14,
    OUT_OF_BOUNDS_WRITE = 15,
    OUT_OF_BOUNDS_THREADGROUP = 16,
    READ_ONLY = 17
};
enum { CHECK = 1, SHUFFLE_THREADS = 2 }; // flags of a dispatch

struct fault {
    uint32_t kind, group, thread, threadgroup_memory;
    uint64_t a, b, pc;
};
struct id {
    uint32_t x, y, z;
};
struct context {
    const uint64_t *buffers, *threadgroups;
    struct id in_grid, in_group, group, group_size, groups, grid, index, simdgroup, lane,
        simdgroups, simd_size, dispatch_size;
};

// Memory that a kernel may access. Overlapping bindings are one region. touched has a byte for each
// byte of the region: bit 0 is set if it was read, bit 1 if it was written.
struct region {
    uint64_t from, to;
    uint8_t *touched;
    uint64_t writable;
};
struct dispatch {
    void (*entry)(struct context *);
    uint64_t buffer[BUFFERS];
    uint32_t threadgroup_bytes[BUFFERS], regions;
    uint32_t groups[3], threads[3];
    uint32_t flags, seed, workers, stop;
    const uint64_t *constants;
    uint64_t image_from, image_to;
    struct region region[BUFFERS];
    uint32_t next, used_bytes; // next threadgroup to run; largest threadgroup memory used
    uint32_t faults, padding;
    struct fault fault[FAULTS];
};

struct exchange {
    uint32_t mask, done;
    uint64_t padding;
    char result[256];
    char slot[SIMD][32];
};
struct simdgroup {
    uint32_t live, arrived, n, epoch, mask;
    struct exchange exchange[2];
};
enum state { DONE, RUNNABLE, AT_SIMD, AT_BARRIER };
struct fiber {
    void *sp;
    enum state state;
    uint32_t simdgroup, lane, index, parity, place;
    void *pc;
    struct context context;
};
// The last access to a byte of threadgroup or device memory. Threads are numbered from 1 over the
// whole dispatch; 0 means none. epoch is the current epoch of the byte's kind of memory, which ends
// with a threadgroup_barrier that orders that memory. sg_epoch ends with a simdgroup_barrier.
// Atomic accesses do not conflict with each other. Epochs wrap around after 2^16 barriers and are
// compared only for equality. Two accesses exactly 2^16 barriers apart therefore look unordered.
struct touch {
    uint32_t thread;
    uint16_t epoch;
    uint16_t sg_epoch : 15, atomic : 1;
};
struct cell {
    struct touch writer, readers[2];
};
struct variable {
    uint32_t id, offset, bytes;
};

struct worker {
    struct fiber *current;
    void *main_sp;
    uint32_t n, live, arrived, simdgroups, group, threadgroup_epoch, device_epoch;
    struct fiber fiber[MAX_THREADS];
    struct simdgroup simdgroup[MAX_THREADS / SIMD];
    uint32_t order[MAX_THREADS], position[MAX_THREADS];
    char *stacks;
    uint32_t used, bytes, variables;
    struct variable variable[VARIABLES];
    struct cell *arena_cells, *region_cells[BUFFERS];
    struct dispatch *dispatch;
    uint64_t threadgroup[BUFFERS];
    char arena[ARENA] __attribute__((aligned(64)));
};
extern __thread struct worker *worker __attribute__((tls_model("initial-exec")));

void msl_switch(void **save, void *to); // fibers.c
// runs the threadgroup that has been prepared
void msl_start(struct worker *w);
// address of a threadgroup variable
uint64_t msl_place_variable(uint32_t id, uint32_t bytes);
void msl_report(uint32_t kind, uint32_t threadgroup_memory, uint64_t a, uint64_t b, void *pc);
// ends the dispatch from a fiber
_Noreturn void msl_abandon(void);
void msl_access(uint64_t address, uint32_t size, int write, int atomic, void *pc); // check.c
