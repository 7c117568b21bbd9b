// TCP for the HTTP server, and the epoll calls themselves, which the Glibc overlay of Swift leaves out: the server
// needs EPOLLRDHUP. No state, no policy. Everything declared here returns -errno instead of setting errno.
#pragma once
#include <netinet/in.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/// A non-blocking, close-on-exec TCP socket of a family (AF_INET, AF_INET6).
int lio_tcp_socket(int family);
/// The next connection, non-blocking and close-on-exec (-EAGAIN: none waits).
int lio_tcp_accept(int listener, struct sockaddr_storage *peer, socklen_t *peer_byte_count);
/// A descriptor of /dev/null, held so that one connection more can be accepted and refused when no other is left.
int lio_spare_descriptor(void);
