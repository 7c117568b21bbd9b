// Counts heap allocations of the calling thread, by taking malloc's place in the test program. For tests only.
#pragma once
#include <stdint.h>

/// Allocations that this thread made since it started: malloc, calloc, realloc, aligned ones.
uint64_t malloc_count(void);
/// Bytes that this thread allocated less those that it freed, as malloc rounds them.
int64_t malloc_held(void);
