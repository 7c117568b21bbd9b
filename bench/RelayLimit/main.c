// `RelayLimit TABLE [auto|on|off]`: the limit as a process, for the load program. Reads participants and their keys from
// a file, prints its port, and forwards until SIGTERM.
//
// Lines of the table: `participants N`, then N times `add IPV4 PORT KEY SALT KEY SALT` (numbers and bytes in hexadecimal,
// keys first of what it sends with), then `connect FROM SSRC TO SSRC PAYLOADTYPE`.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "CLimit.h"

static int read_bytes(const char *text, uint8_t *bytes, size_t count) {
    if (strlen(text) != 2 * count) return 0;
    for (size_t i = 0; i < count; i++) {
        unsigned byte;
        if (sscanf(text + 2 * i, "%2x", &byte) != 1) return 0;
        bytes[i] = (uint8_t)byte;
    }
    return 1;
}

static int read_line(limit *loop, const char *line) {
    unsigned from, from_ssrc, to, to_ssrc, type, ipv4, port;
    char text[4][40];
    uint8_t key[2][16], salt[2][12];
    if (sscanf(line, "connect %x %x %x %x %x", &from, &from_ssrc, &to, &to_ssrc, &type) == 5) {
        limit_connect(loop, from, from_ssrc, to, to_ssrc, (uint8_t)type);
        return 1;
    }
    if (sscanf(line, "add %x %x %39s %39s %39s %39s", &ipv4, &port, text[0], text[1], text[2], text[3]) != 6
        || !read_bytes(text[0], key[0], 16) || !read_bytes(text[1], salt[0], 12)
        || !read_bytes(text[2], key[1], 16) || !read_bytes(text[3], salt[1], 12))
        return 0;
    limit_add(loop, ipv4, (uint16_t)port, key[0], salt[0], key[1], salt[1]);
    return 1;
}

static void stop(int number) {
    (void)number;
    limit_stop();
}

int main(int count, char **arguments) {
    FILE *table = count > 1 ? fopen(arguments[1], "r") : NULL;
    char line[256];
    unsigned participants;
    if (!table || !fgets(line, sizeof line, table) || sscanf(line, "participants %u", &participants) != 1) {
        fprintf(stderr, "usage: RelayLimit TABLE [auto|on|off]\n");
        return 2;
    }
    const char *mode = count > 2 ? arguments[2] : "auto";
    limit *loop = limit_create(LIMIT_SEGMENTED, participants);
    if (!loop) {
        perror("RelayLimit");
        return 1;
    }
    while (fgets(line, sizeof line, table)) {
        if (!read_line(loop, line)) {
            fprintf(stderr, "RelayLimit: not a line of a table: %s", line);
            return 2;
        }
    }
    fclose(table);
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    printf("port %u\n", limit_port(loop));
    fflush(stdout);
    limit_serve(loop, !strcmp(mode, "on") ? LIMIT_GATHER_ON : !strcmp(mode, "off") ? LIMIT_GATHER_OFF : LIMIT_GATHER_AUTO);
    limit_destroy(loop);
    return 0;
}
