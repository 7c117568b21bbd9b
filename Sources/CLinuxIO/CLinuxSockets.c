#define _GNU_SOURCE
#include "CLinuxSockets.h"
#include <errno.h>
#include <fcntl.h>

static int result(int value) { return value < 0 ? -errno : value; }

int lio_tcp_socket(int family) { return result(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

int lio_tcp_accept(int listener, struct sockaddr_storage *peer, socklen_t *peer_byte_count) {
    return result(accept4(listener, (struct sockaddr *)peer, peer_byte_count, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

int lio_spare_descriptor(void) { return result(open("/dev/null", O_RDONLY | O_CLOEXEC)); }
