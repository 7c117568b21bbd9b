#define _GNU_SOURCE
#include "CLimit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "CMediaCrypto.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#define BATCH 64
#define SLOT_BYTES 1536
#define TAG_BYTES 16

struct salt {
    uint64_t high;
    uint32_t low;
};

// One participant: what arrives from it, and where that goes.
struct flow {
    uint64_t address; // IPv4 << 16 | port; 0: free
    uint32_t to;
    uint32_t ssrc;
    struct sockaddr_in name;
    mc_gcm_key *receive, *send;
    struct salt receive_salt, send_salt;
    uint64_t last_index; // of what it sent; rollover counter included
    uint16_t number_offset;
    uint32_t time_offset;
    uint8_t payload_type;
};

struct limit {
    int fd, level;
    uint16_t port;
    unsigned count, capacity;
    uint32_t table_mask;
    uint32_t *table; // flow number + 1, open addressing
    struct flow *flows;
    uint8_t *input, *output; // BATCH slots each
    struct mmsghdr received[BATCH], sent[BATCH];
    struct iovec received_parts[BATCH], sent_parts[BATCH];
    struct sockaddr_in names[BATCH];
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(uint16_t))];
    } controls[BATCH];
};

static inline uint32_t read32(const uint8_t *bytes) {
    uint32_t value;
    memcpy(&value, bytes, 4);
    return ntohl(value);
}
static inline uint16_t read16(const uint8_t *bytes) { return (uint16_t)(bytes[0] << 8 | bytes[1]); }
static inline void write32(uint8_t *bytes, uint32_t value) {
    value = htonl(value);
    memcpy(bytes, &value, 4);
}
static inline void write16(uint8_t *bytes, uint16_t value) {
    bytes[0] = (uint8_t)(value >> 8);
    bytes[1] = (uint8_t)value;
}

static inline uint32_t slot_of(const limit *loop, uint64_t address) {
    return (uint32_t)((address * 0x9E3779B97F4A7C15ULL) >> 32) & loop->table_mask;
}

static inline struct flow *find(limit *loop, const struct sockaddr_in *name) {
    uint64_t address = (uint64_t)name->sin_addr.s_addr << 16 | name->sin_port;
    for (uint32_t slot = slot_of(loop, address); loop->table[slot]; slot = (slot + 1) & loop->table_mask) {
        struct flow *flow = &loop->flows[loop->table[slot] - 1];
        if (flow->address == address) return flow;
    }
    return NULL;
}

limit *limit_create(int level, unsigned capacity) {
    limit *loop = calloc(1, sizeof *loop);
    if (!loop) return NULL;
    loop->level = level;
    loop->capacity = capacity;
    uint32_t slots = 64;
    while (slots < capacity * 2) slots *= 2;
    loop->table_mask = slots - 1;
    loop->table = calloc(slots, sizeof *loop->table);
    loop->flows = calloc(capacity, sizeof *loop->flows);
    loop->input = aligned_alloc(64, BATCH * SLOT_BYTES);
    loop->output = aligned_alloc(64, BATCH * SLOT_BYTES);
    loop->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (!loop->table || !loop->flows || !loop->input || !loop->output || loop->fd < 0) {
        limit_destroy(loop);
        return NULL;
    }
    int size = 4 << 20;
    if (setsockopt(loop->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0)
        setsockopt(loop->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    if (setsockopt(loop->fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) < 0)
        setsockopt(loop->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    if (bind(loop->fd, (struct sockaddr *)&name, length) < 0
        || getsockname(loop->fd, (struct sockaddr *)&name, &length) < 0) {
        limit_destroy(loop);
        return NULL;
    }
    loop->port = ntohs(name.sin_port);
    for (int i = 0; i < BATCH; i++) {
        loop->received_parts[i] = (struct iovec){loop->input + i * SLOT_BYTES, SLOT_BYTES};
        loop->received[i].msg_hdr.msg_name = &loop->names[i];
        loop->received[i].msg_hdr.msg_iov = &loop->received_parts[i];
        loop->received[i].msg_hdr.msg_iovlen = 1;
        struct cmsghdr *control = &loop->controls[i].header;
        control->cmsg_level = SOL_UDP;
        control->cmsg_type = UDP_SEGMENT;
        control->cmsg_len = CMSG_LEN(sizeof(uint16_t));
    }
    return loop;
}

void limit_destroy(limit *loop) {
    if (!loop) return;
    if (loop->fd >= 0) close(loop->fd);
    for (unsigned i = 0; loop->flows && i < loop->count; i++) {
        mc_gcm_destroy(loop->flows[i].receive);
        mc_gcm_destroy(loop->flows[i].send);
    }
    free(loop->table);
    free(loop->flows);
    free(loop->input);
    free(loop->output);
    free(loop);
}

uint16_t limit_port(const limit *loop) { return loop->port; }

static mc_gcm_key *derive(const uint8_t *key, const uint8_t *salt, struct salt *out) {
    uint8_t cipher_key[16], session_salt[12];
    mc_srtp_kdf(key, salt, 12, 0, cipher_key, sizeof cipher_key);
    mc_srtp_kdf(key, salt, 12, 2, session_salt, sizeof session_salt);
    out->high = (uint64_t)read32(session_salt) << 32 | read32(session_salt + 4);
    out->low = read32(session_salt + 8);
    mc_gcm_key *expanded = mc_gcm_create(MC_BACKEND_NONE, cipher_key);
    if (!expanded) abort();
    return expanded;
}

unsigned limit_add(
    limit *loop, uint16_t port, const uint8_t *receive_key, const uint8_t *receive_salt, const uint8_t *send_key,
    const uint8_t *send_salt) {
    if (loop->count == loop->capacity) abort();
    unsigned number = loop->count++;
    struct flow *flow = &loop->flows[number];
    flow->name = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    flow->address = (uint64_t)flow->name.sin_addr.s_addr << 16 | flow->name.sin_port;
    flow->receive = derive(receive_key, receive_salt, &flow->receive_salt);
    flow->send = derive(send_key, send_salt, &flow->send_salt);
    flow->to = number;
    uint32_t slot = slot_of(loop, flow->address);
    while (loop->table[slot]) slot = (slot + 1) & loop->table_mask;
    loop->table[slot] = number + 1;
    return number;
}

void limit_connect(limit *loop, unsigned from, unsigned to, uint32_t ssrc, uint8_t payload_type) {
    struct flow *flow = &loop->flows[from];
    flow->to = to;
    flow->ssrc = ssrc;
    flow->payload_type = payload_type;
    flow->number_offset = 1024;
    flow->time_offset = 0x12345678;
}

// Header of `count` bytes with CSRCs and extension, 0 when it does not fit.
static inline size_t header_bytes(const uint8_t *packet, size_t count) {
    if (count < 12 + TAG_BYTES || packet[0] >> 6 != 2) return 0;
    size_t header = 12 + 4 * (packet[0] & 15u);
    if (packet[0] & 0x10) {
        if (count < header + 4) return 0;
        header += 4 + 4u * read16(packet + header + 2);
    }
    return count < header + TAG_BYTES ? 0 : header;
}

// Opens one packet, and writes and seals what goes out. Returns its size, 0 when it is dropped.
static inline size_t forward(limit *loop, struct flow *flow, uint8_t *packet, size_t count, uint8_t *out) {
    size_t header = header_bytes(packet, count);
    if (!header) return 0;
    size_t payload = count - header - TAG_BYTES;
    uint16_t number = read16(packet + 2);
    uint64_t index = flow->last_index + (uint64_t)(int64_t)(int16_t)(number - (uint16_t)flow->last_index);
    if (loop->level != LIMIT_IO) {
        uint64_t high = flow->receive_salt.high ^ ((uint64_t)read32(packet + 8) << 16 | index >> 32);
        uint32_t low = flow->receive_salt.low ^ (uint32_t)index;
        if (mc_gcm_open(
                flow->receive, high, low, packet, header, packet + header, payload, packet + header,
                packet + header + payload)
            != 0)
            return 0;
    }
    if (index > flow->last_index) flow->last_index = index;
    memcpy(out, packet, header);
    out[1] = (uint8_t)((packet[1] & 0x80) | flow->payload_type);
    uint64_t out_index = index + flow->number_offset;
    write16(out + 2, (uint16_t)out_index);
    write32(out + 4, read32(packet + 4) + flow->time_offset);
    write32(out + 8, flow->ssrc);
    if (loop->level == LIMIT_IO) {
        memcpy(out + header, packet + header, payload + TAG_BYTES);
    } else {
        struct flow *to = &loop->flows[flow->to];
        mc_gcm_seal(
            to->send, to->send_salt.high ^ ((uint64_t)flow->ssrc << 16 | out_index >> 32),
            to->send_salt.low ^ (uint32_t)out_index, out, header, packet + header, payload, out + header,
            out + header + payload);
    }
    return header + payload + TAG_BYTES;
}

// Adds `size` bytes at `out` for `name` to the messages, or to the last one when it may be one of its
// segments.
static inline unsigned append(
    limit *loop, unsigned messages, unsigned parts, struct sockaddr_in *name, uint8_t *out, size_t size) {
    loop->sent_parts[parts] = (struct iovec){out, size};
    if (loop->level == LIMIT_SEGMENTED && messages) {
        struct msghdr *last = &loop->sent[messages - 1].msg_hdr;
        size_t first = last->msg_iov[0].iov_len, newest = last->msg_iov[last->msg_iovlen - 1].iov_len;
        if (last->msg_name == name && newest == first && size <= first) {
            last->msg_iovlen++;
            last->msg_control = &loop->controls[messages - 1];
            last->msg_controllen = sizeof loop->controls[0];
            uint16_t segment = (uint16_t)first;
            memcpy(CMSG_DATA(&loop->controls[messages - 1].header), &segment, sizeof segment);
            return messages;
        }
    }
    loop->sent[messages].msg_hdr = (struct msghdr){
        .msg_name = name, .msg_namelen = sizeof *name, .msg_iov = &loop->sent_parts[parts], .msg_iovlen = 1};
    return messages + 1;
}

unsigned limit_step(limit *loop) {
    for (int i = 0; i < BATCH; i++) loop->received[i].msg_hdr.msg_namelen = sizeof loop->names[i];
    int received = recvmmsg(loop->fd, loop->received, BATCH, MSG_DONTWAIT, NULL);
    unsigned messages = 0, packets = 0;
    for (int i = 0; i < received; i++) {
        struct flow *flow = find(loop, &loop->names[i]);
        if (!flow) continue;
        uint8_t *out = loop->output + packets * SLOT_BYTES;
        size_t size = forward(loop, flow, loop->input + i * SLOT_BYTES, loop->received[i].msg_len, out);
        if (!size) continue;
        messages = append(loop, messages, packets, &loop->flows[flow->to].name, out, size);
        packets++;
    }
    unsigned done = 0;
    while (done < messages) {
        int result = sendmmsg(loop->fd, loop->sent + done, messages - done, MSG_DONTWAIT);
        if (result <= 0) break;
        done += (unsigned)result;
    }
    unsigned sent = 0;
    for (unsigned i = 0; i < done; i++) sent += (unsigned)loop->sent[i].msg_hdr.msg_iovlen;
    return sent;
}
