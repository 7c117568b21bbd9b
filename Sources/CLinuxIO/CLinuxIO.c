#define _GNU_SOURCE
#include "CLinuxIO.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

// Each structure of ours lies like the system's.
#define SAME_PLACE(ours, our_field, theirs, their_field) \
    _Static_assert(offsetof(struct ours, our_field) == offsetof(struct theirs, their_field), #our_field)
_Static_assert(sizeof(struct lio_buffer) == sizeof(struct iovec), "iovec size");
SAME_PLACE(lio_buffer, base, iovec, iov_base);
SAME_PLACE(lio_buffer, byte_count, iovec, iov_len);
_Static_assert(sizeof(struct lio_message) == sizeof(struct mmsghdr), "mmsghdr size");
SAME_PLACE(lio_message, name, mmsghdr, msg_hdr.msg_name);
SAME_PLACE(lio_message, name_byte_count, mmsghdr, msg_hdr.msg_namelen);
SAME_PLACE(lio_message, buffers, mmsghdr, msg_hdr.msg_iov);
SAME_PLACE(lio_message, buffer_count, mmsghdr, msg_hdr.msg_iovlen);
SAME_PLACE(lio_message, control, mmsghdr, msg_hdr.msg_control);
SAME_PLACE(lio_message, control_byte_count, mmsghdr, msg_hdr.msg_controllen);
SAME_PLACE(lio_message, flags, mmsghdr, msg_hdr.msg_flags);
SAME_PLACE(lio_message, byte_count, mmsghdr, msg_len);
_Static_assert(LIO_TRUNCATED == MSG_TRUNC, "truncation flag");
_Static_assert(sizeof(struct lio_name) >= sizeof(struct sockaddr_in6), "name room");
_Static_assert(
    sizeof(struct lio_control)
        >= CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(struct in_pktinfo))
            + CMSG_SPACE(sizeof(uint32_t)) + CMSG_SPACE(sizeof(uint16_t)),
    "control room");

static int result_of(int value) { return value < 0 ? -errno : value; }

static uint64_t read_u64(const uint8_t *bytes) {
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return be64toh(value);
}

static void write_u64(uint8_t *bytes, uint64_t value) {
    value = htobe64(value);
    memcpy(bytes, &value, sizeof value);
}

static uint64_t mapped_ipv4(uint32_t network_order) { return 0xFFFF00000000ull | be32toh(network_order); }

// MARK: Datagrams

int lio_receive(int fd, struct lio_message *messages, unsigned count) {
    return result_of(recvmmsg(fd, (struct mmsghdr *)messages, count, MSG_DONTWAIT, NULL));
}

int lio_send(int fd, struct lio_message *messages, unsigned count) {
    return result_of(sendmmsg(fd, (struct mmsghdr *)messages, count, MSG_DONTWAIT | MSG_NOSIGNAL));
}

static int read_name(const void *name, uint32_t byte_count, uint64_t *high, uint64_t *low, uint16_t *port) {
    const struct sockaddr *any = name;
    if (byte_count >= sizeof(struct sockaddr_in) && any->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = name;
        *high = 0;
        *low = mapped_ipv4(v4->sin_addr.s_addr);
        *port = be16toh(v4->sin_port);
        return 0;
    }
    if (byte_count >= sizeof(struct sockaddr_in6) && any->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = name;
        *high = read_u64(v6->sin6_addr.s6_addr);
        *low = read_u64(v6->sin6_addr.s6_addr + 8);
        *port = be16toh(v6->sin6_port);
        return 0;
    }
    return -EAFNOSUPPORT;
}

int lio_read_name(const struct lio_message *message, uint64_t *high, uint64_t *low, uint16_t *port) {
    return read_name(message->name, message->name_byte_count, high, low, port);
}

uint32_t lio_write_name(struct lio_name *name, int is_ipv4, uint64_t high, uint64_t low, uint16_t port) {
    if (is_ipv4) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)name;
        memset(v4, 0, sizeof *v4);
        v4->sin_family = AF_INET;
        v4->sin_port = htobe16(port);
        v4->sin_addr.s_addr = htobe32((uint32_t)low);
        return sizeof *v4;
    }
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)name;
    memset(v6, 0, sizeof *v6);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htobe16(port);
    write_u64(v6->sin6_addr.s6_addr, high);
    write_u64(v6->sin6_addr.s6_addr + 8, low);
    return sizeof *v6;
}

void lio_read_ancillary(struct lio_message *message, struct lio_ancillary *ancillary) {
    struct msghdr *header = &((struct mmsghdr *)message)->msg_hdr;
    ancillary->local_high = 0;
    ancillary->local_low = 0;
    ancillary->interface_index = 0;
    ancillary->receive_overflow_count = -1;
    for (struct cmsghdr *item = CMSG_FIRSTHDR(header); item != NULL; item = CMSG_NXTHDR(header, item)) {
        if (item->cmsg_level == SOL_SOCKET && item->cmsg_type == SO_RXQ_OVFL) {
            uint32_t count;
            memcpy(&count, CMSG_DATA(item), sizeof count);
            ancillary->receive_overflow_count = count;
        } else if (item->cmsg_level == IPPROTO_IP && item->cmsg_type == IP_PKTINFO) {
            // The "specific destination" is a unicast address of ours also when the datagram was sent to a
            // broadcast one.
            struct in_pktinfo info;
            memcpy(&info, CMSG_DATA(item), sizeof info);
            ancillary->local_low = mapped_ipv4(info.ipi_spec_dst.s_addr);
            ancillary->interface_index = info.ipi_ifindex;
        } else if (item->cmsg_level == IPPROTO_IPV6 && item->cmsg_type == IPV6_PKTINFO) {
            struct in6_pktinfo info;
            memcpy(&info, CMSG_DATA(item), sizeof info);
            if (info.ipi6_addr.s6_addr[0] == 0xFF) continue;
            ancillary->local_high = read_u64(info.ipi6_addr.s6_addr);
            ancillary->local_low = read_u64(info.ipi6_addr.s6_addr + 8);
            ancillary->interface_index = (int32_t)info.ipi6_ifindex;
        }
    }
}

static void put_control(
    struct lio_control *control, size_t *used, int level, int type, const void *value, size_t byte_count) {
    struct cmsghdr *item = (struct cmsghdr *)((uint8_t *)control + *used);
    item->cmsg_level = level;
    item->cmsg_type = type;
    item->cmsg_len = CMSG_LEN(byte_count);
    memcpy(CMSG_DATA(item), value, byte_count);
    *used += CMSG_SPACE(byte_count);
}

size_t lio_write_ancillary(
    struct lio_control *control, int is_ipv4, int with_source, uint64_t high, uint64_t low,
    int32_t interface_index, uint16_t segment_byte_count) {
    size_t used = 0;
    if (with_source && is_ipv4) {
        struct in_pktinfo info;
        memset(&info, 0, sizeof info);
        info.ipi_spec_dst.s_addr = htobe32((uint32_t)low);
        info.ipi_ifindex = interface_index;
        put_control(control, &used, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    } else if (with_source) {
        struct in6_pktinfo info;
        memset(&info, 0, sizeof info);
        write_u64(info.ipi6_addr.s6_addr, high);
        write_u64(info.ipi6_addr.s6_addr + 8, low);
        info.ipi6_ifindex = (unsigned)interface_index;
        put_control(control, &used, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
    }
    if (segment_byte_count != 0)
        put_control(control, &used, IPPROTO_UDP, UDP_SEGMENT, &segment_byte_count, sizeof segment_byte_count);
    return used;
}

static int set_option(int fd, int level, int name, int value) {
    return result_of(setsockopt(fd, level, name, &value, sizeof value));
}

int lio_udp_socket(int is_ipv4, int with_local_address) {
    int fd = socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);
    if (fd < 0) return -errno;
    int result = is_ipv4 ? 0 : set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (result == 0) result = set_option(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
    if (result == 0 && with_local_address)
        result = is_ipv4 ? set_option(fd, IPPROTO_IP, IP_PKTINFO, 1)
                         : set_option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
    if (result < 0) {
        close(fd);
        return result;
    }
    return fd;
}

int lio_stamp_arrivals(int fd) {
    int on = 1;
    return setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) < 0 ? -errno : 0;
}

int64_t lio_arrival_ns(const struct lio_message *message) {
    struct msghdr *header = (struct msghdr *)(uintptr_t)message;
    for (struct cmsghdr *control = CMSG_FIRSTHDR(header); control; control = CMSG_NXTHDR(header, control)) {
        if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_TIMESTAMPNS) continue;
        struct timespec time;
        memcpy(&time, CMSG_DATA(control), sizeof time);
        return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
    }
    return 0;
}

int lio_set_buffers(int fd, int receive_byte_count, int send_byte_count) {
    if (set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, receive_byte_count) < 0) {
        int result = set_option(fd, SOL_SOCKET, SO_RCVBUF, receive_byte_count);
        if (result < 0) return result;
    }
    if (set_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, send_byte_count) < 0)
        return set_option(fd, SOL_SOCKET, SO_SNDBUF, send_byte_count);
    return 0;
}

int lio_bind(int fd, int is_ipv4, uint64_t high, uint64_t low, uint16_t port) {
    struct lio_name name;
    uint32_t byte_count = lio_write_name(&name, is_ipv4, high, low, port);
    return result_of(bind(fd, (const struct sockaddr *)&name, byte_count));
}

int lio_buffers(int fd, int *receive_byte_count, int *send_byte_count) {
    socklen_t size = sizeof(int);
    if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, receive_byte_count, &size) < 0) return -errno;
    if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, send_byte_count, &size) < 0) return -errno;
    *receive_byte_count /= 2;
    *send_byte_count /= 2;
    return 0;
}

int lio_receive_queue(int fd, uint32_t *queued, uint32_t *limit) {
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t size = sizeof info;
    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &size) < 0) return -errno;
    *queued = info[SK_MEMINFO_RMEM_ALLOC];
    *limit = info[SK_MEMINFO_RCVBUF];
    return 0;
}

int lio_can_segment(void) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    int can = set_option(fd, IPPROTO_UDP, UDP_SEGMENT, 1200) == 0;
    close(fd);
    return can;
}

int lio_bound_port(int fd) {
    struct lio_name name;
    socklen_t byte_count = sizeof name;
    if (getsockname(fd, (struct sockaddr *)&name, &byte_count) < 0) return -errno;
    // The port lies at the same place in both families.
    return be16toh(((struct sockaddr_in *)&name)->sin_port);
}

// MARK: TCP

int lio_tcp_listen(
    int is_ipv4, uint64_t high, uint64_t low, uint16_t port, int unsent_byte_count, int silence_ms, int backlog) {
    int fd = socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0) return -errno;
    // A port with connections of a process that has ended is free; one that is listened on is not. Connections inherit
    // the rest.
    int result = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (result == 0 && !is_ipv4) result = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (result == 0) result = set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    if (result == 0) result = set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, unsent_byte_count);
    if (result == 0) result = set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, silence_ms);
    if (result == 0) result = lio_bind(fd, is_ipv4, high, low, port);
    if (result == 0) result = result_of(listen(fd, backlog));
    if (result < 0) {
        close(fd);
        return result;
    }
    return fd;
}

int lio_tcp_take(int fd, uint64_t *high, uint64_t *low, uint16_t *port) {
    struct lio_name name;
    socklen_t byte_count = sizeof name;
    int taken = accept4(fd, (struct sockaddr *)&name, &byte_count, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (taken < 0) return -errno;
    int result = read_name(&name, byte_count, high, low, port);
    if (result < 0) {
        close(taken);
        return result;
    }
    return taken;
}

int64_t lio_stream_send_buffers(int fd, struct lio_buffer *buffers, int count) {
    struct msghdr message = {.msg_iov = (struct iovec *)buffers, .msg_iovlen = (size_t)count};
    ssize_t result = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    return result < 0 ? -errno : result;
}

int64_t lio_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return -errno;
    return limit.rlim_max > INT32_MAX ? INT32_MAX : (int64_t)limit.rlim_max;
}

int64_t lio_raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return -errno;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0) return -errno;
    }
    return limit.rlim_cur > INT32_MAX ? INT32_MAX : (int64_t)limit.rlim_cur;
}

// MARK: Unix sockets

static int unix_name(struct sockaddr_un *name, const char *path) {
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    size_t length = strlen(path);
    if (length >= sizeof name->sun_path) return -ENAMETOOLONG;
    memcpy(name->sun_path, path, length);
    return 0;
}

int lio_unix_listen(const char *path, int backlog) {
    struct sockaddr_un name;
    int result = unix_name(&name, path);
    if (result < 0) return result;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    // The file that bind makes takes its mode from the socket's.
    if (fchmod(fd, 0600) < 0 || bind(fd, (const struct sockaddr *)&name, sizeof name) < 0
        || listen(fd, backlog) < 0) {
        result = -errno;
        close(fd);
        return result;
    }
    return fd;
}

int lio_unix_connect(const char *path) {
    struct sockaddr_un name;
    int result = unix_name(&name, path);
    if (result < 0) return result;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    if (connect(fd, (const struct sockaddr *)&name, sizeof name) < 0) {
        result = -errno;
        close(fd);
        return result;
    }
    return fd;
}

int lio_unix_accept(int fd) { return result_of(accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)); }

int lio_unix_peer(int fd, int32_t *process_id, uint32_t *user_id) {
    struct ucred peer;
    socklen_t byte_count = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &byte_count) < 0) return -errno;
    *process_id = peer.pid;
    *user_id = peer.uid;
    return 0;
}

int64_t lio_stream_send(int fd, const void *bytes, size_t byte_count) {
    ssize_t result = send(fd, bytes, byte_count, MSG_DONTWAIT | MSG_NOSIGNAL);
    return result < 0 ? -errno : result;
}

int64_t lio_stream_receive(int fd, void *bytes, size_t byte_count) {
    ssize_t result = recv(fd, bytes, byte_count, MSG_DONTWAIT);
    return result < 0 ? -errno : result;
}

// MARK: Waiting

static int epoll_change(int epoll, int operation, int fd, uint64_t token, uint32_t interest) {
    struct epoll_event event = {0};
    event.data.u64 = token;
    if (interest & LIO_READABLE) event.events |= EPOLLIN;
    if (interest & LIO_WRITABLE) event.events |= EPOLLOUT;
    return result_of(epoll_ctl(epoll, operation, fd, &event));
}

int lio_epoll_create(void) { return result_of(epoll_create1(EPOLL_CLOEXEC)); }

int lio_epoll_add(int epoll, int fd, uint64_t token, uint32_t interest) {
    return epoll_change(epoll, EPOLL_CTL_ADD, fd, token, interest);
}

int lio_epoll_modify(int epoll, int fd, uint64_t token, uint32_t interest) {
    return epoll_change(epoll, EPOLL_CTL_MOD, fd, token, interest);
}

int lio_epoll_remove(int epoll, int fd) { return epoll_change(epoll, EPOLL_CTL_DEL, fd, 0, 0); }

static int wait_for_events(int epoll, struct epoll_event *events, int capacity, int64_t timeout_ns) {
    if (timeout_ns < 0) return result_of(epoll_wait(epoll, events, capacity, -1));
    if (timeout_ns == 0) return result_of(epoll_wait(epoll, events, capacity, 0));
#ifdef SYS_epoll_pwait2
    struct timespec timeout = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
    int result = result_of((int)syscall(SYS_epoll_pwait2, epoll, events, capacity, &timeout, NULL, 0));
    if (result != -ENOSYS) return result;
#endif
    // Kernels before 5.11: milliseconds, rounded up, so that a deadline is never met early in a busy loop.
    int64_t timeout_ms = (timeout_ns + 999999) / 1000000;
    return result_of(epoll_wait(epoll, events, capacity, timeout_ms > 1000000 ? 1000000 : (int)timeout_ms));
}

int lio_epoll_wait(int epoll, struct lio_event *events, int capacity, int64_t timeout_ns) {
    struct epoll_event ready[64];
    if (capacity > 64) capacity = 64;
    int count = wait_for_events(epoll, ready, capacity, timeout_ns);
    for (int i = 0; i < count; i++) {
        events[i].token = ready[i].data.u64;
        events[i].reserved = 0;
        events[i].ready = 0;
        if (ready[i].events & EPOLLIN) events[i].ready |= LIO_READABLE;
        if (ready[i].events & EPOLLOUT) events[i].ready |= LIO_WRITABLE;
        if (ready[i].events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) events[i].ready |= LIO_HUNG_UP;
    }
    return count;
}

int lio_eventfd(void) { return result_of(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }

int lio_eventfd_signal(int fd) {
    uint64_t one = 1;
    if (write(fd, &one, sizeof one) < 0) return errno == EAGAIN ? 0 : -errno;
    return 0;
}

int64_t lio_eventfd_take(int fd) {
    uint64_t count = 0;
    if (read(fd, &count, sizeof count) < 0) return errno == EAGAIN ? 0 : -errno;
    return count > INT64_MAX ? INT64_MAX : (int64_t)count;
}

// MARK: Processes, threads, clocks

int lio_signalfd(const int32_t *signals, int count) {
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < count; i++)
        if (sigaddset(&set, signals[i]) < 0) return -errno;
    int result = pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (result != 0) return -result;
    return result_of(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}

int lio_signalfd_take(int fd) {
    struct signalfd_siginfo info;
    ssize_t result = read(fd, &info, sizeof info);
    if (result < 0) return errno == EAGAIN ? 0 : -errno;
    return result == sizeof info ? (int)info.ssi_signo : -EIO;
}

int lio_pidfd_open(int32_t process_id) {
    int fd = (int)syscall(SYS_pidfd_open, process_id, 0);
    return result_of(fd);
}

int lio_reap(int32_t process_id, int32_t *status) {
    int raw = 0;
    pid_t result = waitpid(process_id, &raw, WNOHANG);
    if (result < 0) return -errno;
    *status = raw;
    return result == 0 ? 0 : 1;
}

int lio_spawn_session(const char *path, char *const *arguments, char *const *environment, int output_fd) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int result = posix_spawn_file_actions_init(&actions);
    if (result != 0) return -result;
    result = posix_spawnattr_init(&attributes);
    if (result != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return -result;
    }
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    pid_t process_id = 0;
    result = posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (result == 0) result = posix_spawnattr_setsigmask(&attributes, &none);
    if (result == 0) result = posix_spawnattr_setsigdefault(&attributes, &all);
    if (result == 0) result = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (result == 0) result = posix_spawn_file_actions_adddup2(&actions, output_fd, 1);
    if (result == 0) result = posix_spawn_file_actions_adddup2(&actions, output_fd, 2);
    if (result == 0) result = posix_spawn(&process_id, path, &actions, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return result != 0 ? -result : process_id;
}

char *const *lio_environment(void) { return environ; }

void lio_set_thread_name(const char *name) {
    char kept[16];
    snprintf(kept, sizeof kept, "%s", name);
    pthread_setname_np(pthread_self(), kept);
}

int lio_set_thread_nice(int nice) {
    return setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), nice) == 0 ? 0 : -errno;
}

int lio_thread_nice(void) {
    return getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
}

int lio_set_thread_cpu(int cpu) {
    if (cpu < 0 || cpu >= CPU_SETSIZE) return -EINVAL;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return -pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

int lio_forbid_dumps(void) {
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) < 0) return -errno;
    return result_of(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
}

int lio_close_on_exec_from(unsigned first) {
    // CLOSE_RANGE_CLOEXEC, Linux 5.11.
    return result_of((int)syscall(SYS_close_range, first, ~0U, 4U));
}

int lio_memory_file(const char *name) { return result_of(memfd_create(name, MFD_CLOEXEC)); }

int lio_lock_file(int fd) { return result_of(flock(fd, LOCK_EX | LOCK_NB)); }

static int64_t read_clock(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int lio_clock_is_synchronised(void) {
    struct timex state = {.modes = 0};
    int result = adjtimex(&state);
    if (result < 0) return -errno;
    return result != TIME_ERROR && !(state.status & STA_UNSYNC);
}

int64_t lio_filesystem_type(const char *path) {
    struct statfs system;
    if (statfs(path, &system) < 0) return -errno;
    return (int64_t)(uint32_t)system.f_type;
}

int64_t lio_boottime_ns(void) { return read_clock(CLOCK_BOOTTIME); }

int64_t lio_resident_bytes(void) {
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0) return -errno;
    char text[128];
    ssize_t count = read(file, text, sizeof text - 1);
    int error = errno;
    close(file);
    if (count <= 0) return count < 0 ? -error : -ENODATA;
    text[count] = 0;
    long long total, resident, shared;
    if (sscanf(text, "%lld %lld %lld", &total, &resident, &shared) != 3) return -EINVAL;
    return (resident - shared) * sysconf(_SC_PAGESIZE);
}

int64_t lio_process_cpu_ns(void) { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }

int64_t lio_open_file_limit(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (int64_t)limit.rlim_cur : -errno;
}

int64_t lio_thread_cpu_ns(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }
