// msl_image returns the addresses of the library that this file is linked into. The checker lets
// kernels read constants there.
#include <stdint.h>
extern char __ehdr_start[] __attribute__((visibility("hidden"))),
    _end[] __attribute__((visibility("hidden")));
__attribute__((visibility("default"))) void msl_image(uint64_t range[2]) {
    range[0] = (uint64_t)__ehdr_start;
    range[1] = (uint64_t)_end;
}
