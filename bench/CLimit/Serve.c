#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "CLimit.h"

// The limit as a process: waits as the relay's worker does, and does nothing else.

static volatile sig_atomic_t stopped;

void limit_stop(void) { stopped = 1; }

static int64_t clock_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

// The relay's GatherPolicy, number for number: what it measures in windows of 100 ms, and what follows.
struct gather {
    int mode, is_gathering;
    int64_t window_start, window_cpu;
    int64_t packets, wakes;
};

static void note(struct gather *gather, unsigned packets) {
    if (gather->mode != LIMIT_GATHER_AUTO) return;
    gather->packets += packets;
    gather->wakes++;
    int64_t now = clock_ns(CLOCK_BOOTTIME), elapsed = now - gather->window_start;
    if (elapsed < 100000000) return;
    int64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    int64_t busy_percent = (cpu - gather->window_cpu) * 100 / elapsed;
    if (gather->is_gathering)
        gather->is_gathering = gather->packets >= gather->wakes * 3 / 2 && gather->packets < gather->wakes * 32
                               && busy_percent >= 15;
    else
        gather->is_gathering = gather->packets < gather->wakes * 4 && busy_percent > 40;
    gather->window_start = now;
    gather->window_cpu = cpu;
    gather->packets = gather->wakes = 0;
}

void limit_serve(limit *loop, int mode) {
    int poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (poller < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, limit_descriptor(loop), &event) < 0) return;
    struct gather gather = {
        .mode = mode, .is_gathering = mode == LIMIT_GATHER_ON, .window_start = clock_ns(CLOCK_BOOTTIME),
        .window_cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID)};
    while (!stopped) {
        if (epoll_wait(poller, &event, 1, 1000) <= 0) continue;
        if (gather.is_gathering) nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        unsigned packets = 0, taken = 64;
        for (int batch = 0; batch < 4 && taken == 64; batch++) {
            limit_step(loop, &taken);
            packets += taken;
        }
        note(&gather, packets);
    }
    close(poller);
}

int limit_pin_thread(int32_t thread, int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu >= 0)
        CPU_SET((size_t)cpu, &set);
    else
        for (size_t i = 0; i < CPU_SETSIZE; i++) CPU_SET(i, &set);
    return sched_setaffinity(thread, sizeof set, &set) < 0 ? -errno : 0;
}

int limit_set_real_time(int32_t thread, int is_real_time) {
    struct sched_param parameter = {.sched_priority = is_real_time ? 1 : 0};
    return sched_setscheduler(thread, is_real_time ? SCHED_FIFO : SCHED_OTHER, &parameter) < 0 ? -errno : 0;
}
