/* What load.c and tap.c share: bytes that wait, packets among them, and the time. */
#ifndef BENCH_MQTT_H
#define BENCH_MQTT_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNACK = 2, PUBLISH = 3, PUBACK = 4 }; /* types of packets, MQTT 5 section 2.1.2 */
#define PACKET_IDS 65536
#define LARGEST_HEADER 5
#define CHUNK 65536

/* Bytes that came or wait to leave; those before ``at`` are done with. */
struct bytes {
    uint8_t *data;
    size_t at, end, room;
};

struct packet {
    uint8_t *start, *body;
    size_t size; /* of the whole */
    int type;
};

static inline void die(const char *what)
{
    perror(what);
    exit(2);
}

static inline uint64_t now_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000ull + now.tv_nsec / 1000;
}

static inline size_t waiting(const struct bytes *b)
{
    return b->end - b->at;
}

static inline uint8_t *make_room(struct bytes *b, size_t size)
{
    if (b->at) memmove(b->data, b->data + b->at, waiting(b));
    b->end -= b->at;
    b->at = 0;
    while (b->end + size > b->room) {
        b->room = b->room ? 2 * b->room : CHUNK;
        if (!(b->data = realloc(b->data, b->room))) die("memory");
    }
    return b->data + b->end;
}

static inline void append(struct bytes *b, const void *data, size_t size)
{
    uint8_t *place = b->end + size <= b->room ? b->data + b->end : make_room(b, size);
    memcpy(place, data, size);
    b->end += size;
}

/* Read once. Whether the connection goes on. */
static inline int fill(int handle, struct bytes *b)
{
    ssize_t size = read(handle, make_room(b, CHUNK), CHUNK);
    if (size > 0) b->end += size;
    return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Write what the socket takes. Whether the connection goes on. */
static inline int drain(int handle, struct bytes *b)
{
    ssize_t size = waiting(b) ? write(handle, b->data + b->at, waiting(b)) : 0;
    if (size > 0) b->at += size;
    if (b->at == b->end) b->at = b->end = 0;
    return size >= 0 || errno == EAGAIN || errno == EINTR;
}

/* The packet at the front, if all of it is there; it stays where it is. */
static inline int front(const struct bytes *b, struct packet *packet)
{
    uint8_t *start = b->data + b->at;
    size_t length = 0, there = waiting(b);
    for (size_t i = 1; i < LARGEST_HEADER && i < there; i++) {
        length |= (size_t)(start[i] & 127) << 7 * (i - 1);
        if (start[i] & 128) continue;
        if (there < 1 + i + length) return 0;
        *packet = (struct packet){start, start + 1 + i, 1 + i + length, start[0] >> 4};
        return 1;
    }
    return 0;
}

static inline int word(const uint8_t *at)
{
    return at[0] << 8 | at[1];
}

static inline int dial(int port)
{
    int handle = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (handle < 0 || connect(handle, (void *)&address, sizeof address)) die("connect");
    setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(handle, F_SETFL, O_NONBLOCK);
    return handle;
}

static inline int by_size(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

#endif
