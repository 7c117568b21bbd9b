// Linux calls that Swift cannot import: batched datagram I/O with ancillary data, epoll with nanoseconds,
// process and thread controls. No state, no policy, no allocation. Everything that can fail returns -errno
// instead of setting errno.
//
// No feature macro is defined here (it would clash with other C modules): structures of the kernel's ABI are
// declared anew, and CLinuxIO.c asserts that they are laid out like the system's.
#pragma once
#include <stddef.h>
#include <stdint.h>

// MARK: Datagrams

/// `struct iovec`.
struct lio_buffer {
    void *base;
    size_t byte_count;
};

/// `struct mmsghdr`.
struct lio_message {
    void *name;
    uint32_t name_byte_count;
    struct lio_buffer *buffers;
    size_t buffer_count;
    void *control;
    size_t control_byte_count;
    /// Of a received datagram: LIO_TRUNCATED when it was longer than its buffer.
    int32_t flags;
    int32_t reserved0;
    /// Bytes received or sent; set by the kernel.
    uint32_t byte_count;
    uint32_t reserved1;
};

/// `MSG_TRUNC`.
#define LIO_TRUNCATED 0x20

/// Room for a `struct sockaddr_in` or `sockaddr_in6`.
struct lio_name {
    uint64_t words[4];
};

/// Room for every control message that is read or written here.
struct lio_control {
    uint64_t words[16];
};

/// What the control messages of a received datagram said.
struct lio_ancillary {
    /// The local address it came to: IPv6 in two big-endian halves, IPv4 mapped. Both 0 when it was not told.
    uint64_t local_high;
    uint64_t local_low;
    int32_t interface_index;
    /// The socket's count of datagrams that the kernel dropped for want of buffer space (wraps); -1 when not
    /// told.
    int64_t receive_overflow_count;
};

/// recvmmsg without waiting. Returns the count of datagrams, or -errno (-EAGAIN: none queued).
int lio_receive(int fd, struct lio_message *messages, unsigned count);
/// sendmmsg without waiting. Returns the count of messages taken (at least 1), or -errno for the first of
/// them.
int lio_send(int fd, struct lio_message *messages, unsigned count);
/// Reads a source address. Returns 0, or -EAFNOSUPPORT for another family than IPv4 or IPv6.
int lio_read_name(const struct lio_message *message, uint64_t *high, uint64_t *low, uint16_t *port);
/// Writes a socket address and returns its byte count: IPv4 when `is_ipv4`, else IPv6.
uint32_t lio_write_name(struct lio_name *name, int is_ipv4, uint64_t high, uint64_t low, uint16_t port);
/// Walks the control messages of a received datagram.
void lio_read_ancillary(struct lio_message *message, struct lio_ancillary *ancillary);
/// Writes the control messages of a datagram to send into `control` and returns their byte count (0: none).
/// `with_source`: send from (high, low), through `interface_index` unless 0. `segment_byte_count`:
/// UDP_SEGMENT unless 0.
size_t lio_write_ancillary(
    struct lio_control *control, int is_ipv4, int with_source, uint64_t high, uint64_t low,
    int32_t interface_index, uint16_t segment_byte_count);

/// A non-blocking, close-on-exec UDP socket (IPv6 only, where not `is_ipv4`) that tells its receive overflow,
/// and the local address of each datagram when `with_local_address`. Returns the descriptor or -errno.
int lio_udp_socket(int is_ipv4, int with_local_address);
/// Lets the kernel note when each datagram of a socket arrives. Returns 0 or -errno.
int lio_stamp_arrivals(int fd);
/// CLOCK_REALTIME at which a received datagram arrived, nanoseconds; 0 when it was not noted.
int64_t lio_arrival_ns(const struct lio_message *message);
/// Asks for kernel buffers of this size, over the system's limit where permitted. Returns 0 or -errno.
int lio_set_buffers(int fd, int receive_byte_count, int send_byte_count);
int lio_bind(int fd, int is_ipv4, uint64_t high, uint64_t low, uint16_t port);
/// The buffers that a socket got, as asked for (the kernel keeps twice as much). Returns 0 or -errno.
int lio_buffers(int fd, int *receive_byte_count, int *send_byte_count);
/// What waits to be read from a socket, as the kernel reckons it against its limit, bytes. Returns 0 or -errno.
int lio_receive_queue(int fd, uint32_t *queued, uint32_t *limit);
/// Whether the kernel cuts one long datagram into several (UDP_SEGMENT, Linux 4.18): 1, 0 or -errno.
int lio_can_segment(void);
/// The port that a socket is bound to, or -errno.
int lio_bound_port(int fd);

// MARK: TCP

/// A non-blocking, close-on-exec TCP socket (IPv6 only, where not `is_ipv4`) that is bound and listens. Its connections send
/// without delay, hold at most about `unsent_byte_count` bytes that have not left yet, and end when what was sent is not
/// acknowledged for `silence_ms`. Returns the descriptor or -errno.
int lio_tcp_listen(
    int is_ipv4, uint64_t high, uint64_t low, uint16_t port, int unsent_byte_count, int silence_ms, int backlog);
/// The next connection, non-blocking and close-on-exec, with its peer's address (-EAGAIN: none waits).
int lio_tcp_take(int fd, uint64_t *high, uint64_t *low, uint16_t *port);
/// Sends the buffers in order, without waiting and without SIGPIPE. Returns a byte count or -errno.
int64_t lio_stream_send_buffers(int fd, struct lio_buffer *buffers, int count);
/// How many descriptors the process may have at most, after raising its own limit. Returns that or -errno.
int64_t lio_descriptor_limit(void);
/// Lets the process have as many descriptors as it may. Returns how many those are, or -errno.
int64_t lio_raise_descriptor_limit(void);

// MARK: Unix sockets

/// Non-blocking, close-on-exec stream sockets. Return a descriptor or -errno; -ENAMETOOLONG: the path exceeds
/// 107 bytes. The listener's file is made with mode 0600.
int lio_unix_listen(const char *path, int backlog);
int lio_unix_connect(const char *path);
int lio_unix_accept(int fd);
/// Process and user at the other end of a Unix socket. Returns 0 or -errno.
int lio_unix_peer(int fd, int32_t *process_id, uint32_t *user_id);
/// send without waiting and without SIGPIPE; recv without waiting. Return a byte count or -errno (0 from
/// recv: closed).
int64_t lio_stream_send(int fd, const void *bytes, size_t byte_count);
int64_t lio_stream_receive(int fd, void *bytes, size_t byte_count);

// MARK: Waiting

enum { LIO_READABLE = 1, LIO_WRITABLE = 2, LIO_HUNG_UP = 4 };

struct lio_event {
    uint64_t token;
    uint32_t ready;
    uint32_t reserved;
};

int lio_epoll_create(void);
/// `interest`: LIO_READABLE | LIO_WRITABLE, level-triggered. Return 0 or -errno.
int lio_epoll_add(int epoll, int fd, uint64_t token, uint32_t interest);
int lio_epoll_modify(int epoll, int fd, uint64_t token, uint32_t interest);
int lio_epoll_remove(int epoll, int fd);
/// Waits for at most `timeout_ns` (negative: for ever). `capacity` ≤ 64. Returns the count of events, or
/// -errno.
int lio_epoll_wait(int epoll, struct lio_event *events, int capacity, int64_t timeout_ns);
int lio_eventfd(void);
/// Adds 1; a counter that is full is as good. Returns 0 or -errno.
int lio_eventfd_signal(int fd);
/// Takes the count (0 when none). Returns it, or -errno.
int64_t lio_eventfd_take(int fd);

// MARK: Processes, threads, clocks

/// Blocks the signals in the calling thread (and the threads it will start) and returns a descriptor that
/// tells them.
int lio_signalfd(const int32_t *signals, int count);
/// The next signal number, 0 when none is pending, or -errno.
int lio_signalfd_take(int fd);
int lio_pidfd_open(int32_t process_id);
/// Reaps a child without waiting. Returns 1 with its wait status, 0 while it runs, or -errno (-ECHILD: not a
/// child).
int lio_reap(int32_t process_id, int32_t *status);
/// Starts `path` in a session of its own with all signals at their defaults, standard input from /dev/null,
/// standard output and error to `output_fd`. Returns the process id, or -errno.
int lio_spawn_session(const char *path, char *const *arguments, char *const *environment, int output_fd);
/// The process's environment, null-terminated. Valid as long as nobody changes it.
char *const *lio_environment(void);
/// Names the calling thread; 15 bytes are kept.
void lio_set_thread_name(const char *name);
/// The calling thread yields to others: `nice` 1 … 19, setpriority(2). Returns 0 or -errno.
int lio_set_thread_nice(int nice);
/// -20 … 19.
int lio_thread_nice(void);
/// Pins the calling thread to a CPU. Returns 0 or -errno.
int lio_set_thread_cpu(int cpu);
/// No core dumps and no ptrace by others: memory holds keys. Returns 0 or -errno.
int lio_forbid_dumps(void);
/// Every descriptor from `first` on is closed by the next execve. Returns 0 or -errno.
int lio_close_on_exec_from(unsigned first);
/// An anonymous file in memory, close-on-exec. Returns the descriptor or -errno.
int lio_memory_file(const char *name);
/// An exclusive lock on an open file, without waiting. Returns 0 or -errno (-EWOULDBLOCK: somebody has it).
int lio_lock_file(int fd);
/// Whether the wall clock follows a better one, as adjtimex(2) tells: 1, 0 or -errno.
int lio_clock_is_synchronised(void);
/// The number that statfs(2) gives the file system's kind of a path, or -errno.
int64_t lio_filesystem_type(const char *path);
/// CLOCK_BOOTTIME in nanoseconds.
int64_t lio_boottime_ns(void);
/// Resident memory that is the process's own, in bytes, or -errno.
int64_t lio_resident_bytes(void);
/// CPU time of the calling thread, and of the whole process, in nanoseconds.
int64_t lio_thread_cpu_ns(void);
int64_t lio_process_cpu_ns(void);
/// How many files the process may have open now, or -errno.
int64_t lio_open_file_limit(void);
#include "CLinuxSockets.h"
