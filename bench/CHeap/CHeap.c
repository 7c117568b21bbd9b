#include "CHeap.h"
#include <malloc.h>

uint64_t heap_byte_count(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}
