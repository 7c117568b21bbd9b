#define _GNU_SOURCE
#include "CLimit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "CMediaCrypto.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#define BATCH 64
#define SLOT_BYTES 1536
#define TAG_BYTES 16
// Room for a batch of packets that all go to the seven others of a room, and one packet more.
#define OUTPUTS 512
// Messages in a call of sendmmsg, and segments in a message, as the relay has them.
#define MESSAGES 64
#define SEGMENTS 16
#define STREAMS 2

struct salt {
    uint64_t high;
    uint32_t low;
};

// Where a stream goes.
struct edge {
    uint32_t to;
    uint32_t ssrc;
    uint8_t payload_type;
};

// What a participant sends under one SSRC.
struct stream {
    uint32_t ssrc;
    uint32_t edge_count, edge_capacity;
    uint64_t last_index; // rollover counter included
    struct edge *edges;
};

// One participant.
struct flow {
    uint64_t address; // IPv4 << 16 | port; 0: free
    struct sockaddr_in name;
    mc_gcm_key *receive, *send;
    struct salt receive_salt, send_salt;
    struct stream streams[STREAMS];
    unsigned stream_count;
    // The last message to it in this batch, and in which batch that was.
    uint32_t message;
    uint64_t batch;
};

// What is added to a packet's number and time.
static const uint16_t number_offset = 1024;
static const uint32_t time_offset = 0x12345678;

struct limit {
    int fd, level;
    uint16_t port;
    unsigned count, capacity;
    uint32_t table_mask;
    uint32_t *table; // flow number + 1, open addressing
    struct flow *flows;
    uint64_t batch;
    uint8_t *input, *output; // BATCH and OUTPUTS slots
    struct mmsghdr received[BATCH], sent[OUTPUTS];
    struct iovec received_parts[BATCH], sent_parts[OUTPUTS][SEGMENTS];
    struct sockaddr_in names[BATCH];
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(uint16_t))];
    } controls[OUTPUTS];
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
    loop->batch = 1;
    uint32_t slots = 64;
    while (slots < capacity * 2) slots *= 2;
    loop->table_mask = slots - 1;
    loop->table = calloc(slots, sizeof *loop->table);
    loop->flows = calloc(capacity, sizeof *loop->flows);
    loop->input = aligned_alloc(64, BATCH * SLOT_BYTES);
    loop->output = aligned_alloc(64, OUTPUTS * SLOT_BYTES);
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
    }
    for (int i = 0; i < OUTPUTS; i++) {
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
        for (unsigned k = 0; k < STREAMS; k++) free(loop->flows[i].streams[k].edges);
    }
    free(loop->table);
    free(loop->flows);
    free(loop->input);
    free(loop->output);
    free(loop);
}

uint16_t limit_port(const limit *loop) { return loop->port; }
int limit_descriptor(const limit *loop) { return loop->fd; }

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
    limit *loop, uint32_t ipv4, uint16_t port, const uint8_t *receive_key, const uint8_t *receive_salt,
    const uint8_t *send_key, const uint8_t *send_salt) {
    if (loop->count == loop->capacity) abort();
    unsigned number = loop->count++;
    struct flow *flow = &loop->flows[number];
    flow->name =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ipv4)};
    flow->address = (uint64_t)flow->name.sin_addr.s_addr << 16 | flow->name.sin_port;
    flow->receive = derive(receive_key, receive_salt, &flow->receive_salt);
    flow->send = derive(send_key, send_salt, &flow->send_salt);
    uint32_t slot = slot_of(loop, flow->address);
    while (loop->table[slot]) slot = (slot + 1) & loop->table_mask;
    loop->table[slot] = number + 1;
    return number;
}

static inline struct stream *stream_of(struct flow *flow, uint32_t ssrc) {
    for (unsigned i = 0; i < flow->stream_count; i++)
        if (flow->streams[i].ssrc == ssrc) return &flow->streams[i];
    return NULL;
}

void limit_connect(
    limit *loop, unsigned from, uint32_t from_ssrc, unsigned to, uint32_t to_ssrc, uint8_t payload_type) {
    if (from >= loop->count || to >= loop->count) abort();
    struct flow *flow = &loop->flows[from];
    struct stream *stream = stream_of(flow, from_ssrc);
    if (!stream) {
        if (flow->stream_count == STREAMS) abort();
        stream = &flow->streams[flow->stream_count++];
        stream->ssrc = from_ssrc;
    }
    if (stream->edge_count == stream->edge_capacity) {
        stream->edge_capacity = stream->edge_capacity ? stream->edge_capacity * 2 : 1;
        stream->edges = realloc(stream->edges, stream->edge_capacity * sizeof *stream->edges);
        if (!stream->edges) abort();
    }
    stream->edges[stream->edge_count++] = (struct edge){to, to_ssrc, payload_type};
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

// Opens a packet in place. Returns its payload's size, -1 when it is dropped.
static inline ssize_t open_packet(
    limit *loop, struct flow *flow, struct stream *stream, uint8_t *packet, size_t count, size_t header,
    uint64_t *index) {
    size_t payload = count - header - TAG_BYTES;
    uint16_t number = read16(packet + 2);
    *index = stream->last_index + (uint64_t)(int64_t)(int16_t)(number - (uint16_t)stream->last_index);
    if (loop->level != LIMIT_IO) {
        uint64_t high = flow->receive_salt.high ^ ((uint64_t)stream->ssrc << 16 | *index >> 32);
        uint32_t low = flow->receive_salt.low ^ (uint32_t)*index;
        if (mc_gcm_open(
                flow->receive, high, low, packet, header, packet + header, payload, packet + header,
                packet + header + payload)
            != 0)
            return -1;
    }
    if (*index > stream->last_index) stream->last_index = *index;
    return (ssize_t)payload;
}

// Writes and seals what goes along one edge.
static inline size_t write_packet(
    limit *loop, const struct edge *edge, const uint8_t *packet, size_t header, size_t payload, uint64_t index,
    uint8_t *out) {
    memcpy(out, packet, header);
    out[1] = (uint8_t)((packet[1] & 0x80) | edge->payload_type);
    uint64_t out_index = index + number_offset;
    write16(out + 2, (uint16_t)out_index);
    write32(out + 4, read32(packet + 4) + time_offset);
    write32(out + 8, edge->ssrc);
    if (loop->level == LIMIT_IO) {
        memcpy(out + header, packet + header, payload + TAG_BYTES);
    } else {
        struct flow *to = &loop->flows[edge->to];
        mc_gcm_seal(
            to->send, to->send_salt.high ^ ((uint64_t)edge->ssrc << 16 | out_index >> 32),
            to->send_salt.low ^ (uint32_t)out_index, out, header, packet + header, payload, out + header,
            out + header + payload);
    }
    return header + payload + TAG_BYTES;
}

// Adds `size` bytes at `out` for `to` to the messages, or to the last one for it when they may be one of its segments:
// each receiver's order is kept.
static inline unsigned append(limit *loop, unsigned messages, struct flow *to, uint8_t *out, size_t size) {
    if (loop->level == LIMIT_SEGMENTED && to->batch == loop->batch) {
        struct msghdr *last = &loop->sent[to->message].msg_hdr;
        size_t parts = last->msg_iovlen;
        size_t first = last->msg_iov[0].iov_len, newest = last->msg_iov[parts - 1].iov_len;
        if (parts < SEGMENTS && newest == first && size <= first) {
            last->msg_iov[last->msg_iovlen++] = (struct iovec){out, size};
            last->msg_control = &loop->controls[to->message];
            last->msg_controllen = sizeof loop->controls[0];
            uint16_t segment = (uint16_t)first;
            memcpy(CMSG_DATA(&loop->controls[to->message].header), &segment, sizeof segment);
            return messages;
        }
    }
    to->batch = loop->batch;
    to->message = messages;
    loop->sent_parts[messages][0] = (struct iovec){out, size};
    loop->sent[messages].msg_hdr = (struct msghdr){
        .msg_name = &to->name, .msg_namelen = sizeof to->name, .msg_iov = loop->sent_parts[messages],
        .msg_iovlen = 1};
    return messages + 1;
}

// Sends what was made. Returns how many packets left.
static unsigned flush(limit *loop, unsigned messages) {
    unsigned done = 0, sent = 0;
    while (done < messages) {
        unsigned some = messages - done < MESSAGES ? messages - done : MESSAGES;
        int result = sendmmsg(loop->fd, loop->sent + done, some, MSG_DONTWAIT);
        if (result <= 0) break;
        done += (unsigned)result;
    }
    for (unsigned i = 0; i < done; i++) sent += (unsigned)loop->sent[i].msg_hdr.msg_iovlen;
    loop->batch++;
    return sent;
}

unsigned limit_step(limit *loop, unsigned *taken) {
    for (int i = 0; i < BATCH; i++) loop->received[i].msg_hdr.msg_namelen = sizeof loop->names[i];
    int received = recvmmsg(loop->fd, loop->received, BATCH, MSG_DONTWAIT, NULL);
    unsigned messages = 0, packets = 0, sent = 0;
    for (int i = 0; i < received; i++) {
        uint8_t *packet = loop->input + i * SLOT_BYTES;
        size_t count = loop->received[i].msg_len;
        size_t header = header_bytes(packet, count);
        struct flow *flow = header ? find(loop, &loop->names[i]) : NULL;
        struct stream *stream = flow ? stream_of(flow, read32(packet + 8)) : NULL;
        if (!stream) continue;
        uint64_t index;
        ssize_t payload = open_packet(loop, flow, stream, packet, count, header, &index);
        if (payload < 0) continue;
        if (packets + stream->edge_count > OUTPUTS) {
            sent += flush(loop, messages);
            messages = packets = 0;
        }
        for (unsigned k = 0; k < stream->edge_count && packets < OUTPUTS; k++) {
            uint8_t *out = loop->output + packets++ * SLOT_BYTES;
            size_t size =
                write_packet(loop, &stream->edges[k], packet, header, (size_t)payload, index, out);
            messages = append(loop, messages, &loop->flows[stream->edges[k].to], out, size);
        }
    }
    if (messages) sent += flush(loop, messages);
    if (taken) *taken = received > 0 ? (unsigned)received : 0;
    return sent;
}
