#include "CMallocCount.h"
#include <errno.h>
#include <malloc.h>
#include <stddef.h>

// glibc's own names for what these functions replace: no dlsym, which would allocate itself.
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

// Initial-exec, so that touching it never allocates.
static __thread uint64_t count __attribute__((tls_model("initial-exec")));
static __thread int64_t held __attribute__((tls_model("initial-exec")));

uint64_t malloc_count(void) { return count; }
int64_t malloc_held(void) { return held; }

static void *noted(void *memory) {
    count++;
    if (memory) held += (int64_t)malloc_usable_size(memory);
    return memory;
}

void *malloc(size_t size) { return noted(__libc_malloc(size)); }
void *calloc(size_t number, size_t size) { return noted(__libc_calloc(number, size)); }
void *memalign(size_t alignment, size_t size) { return noted(__libc_memalign(alignment, size)); }
void *aligned_alloc(size_t alignment, size_t size) { return noted(__libc_memalign(alignment, size)); }

void *realloc(void *old, size_t size) {
    int64_t before = old ? (int64_t)malloc_usable_size(old) : 0;
    void *memory = __libc_realloc(old, size);
    if (memory || size == 0) held -= before;
    return noted(memory);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    *result = noted(__libc_memalign(alignment, size));
    return *result ? 0 : ENOMEM;
}

void free(void *memory) {
    if (memory) held -= (int64_t)malloc_usable_size(memory);
    __libc_free(memory);
}
