// How much of the heap is in use, which Swift's view of glibc leaves out. For the load program only.
#pragma once
#include <stdint.h>

/// Bytes that the process has allocated and not freed, over all arenas and mapped blocks.
uint64_t heap_byte_count(void);
