/* Stands between a client and its broker and measures how long the client takes to acknowledge.
 *
 *     tap BROKER_PORT WINDOW
 *
 * Listens on a free loopback port, which is the first line on standard output, and passes everything on. Each
 * QoS 1 message to the client is timed from its passing until its PUBACK. With a WINDOW, no more than so many
 * of a connection are passed before they are acknowledged: a broker with a small in-flight window.
 *
 * Each line on standard input is answered by one: {"count": N, "last": S, "p50": S, "p99": S, "max": S}, the
 * PUBACKs and their delays since the last line that said "reset", in seconds, "last" of CLOCK_MONOTONIC. Ends
 * at the end of its input.
 */
#include "mqtt.h"

#include <poll.h>
#include <signal.h>

enum { PAIRS = 16, MOST_WAITING = 256 * 1024 };

struct pair {
    int client, broker; /* 0: none */
    struct bytes from_client, to_broker, from_broker, to_client;
    uint64_t passed_at[PACKET_IDS]; /* 0: not on its way */
    int unacknowledged;
};

static struct pair pairs[PAIRS];
static int window;
static uint32_t *delays; /* microseconds */
static size_t count, room;
static uint64_t last;

static void note(uint32_t delay, uint64_t now)
{
    if (count == room && !(delays = realloc(delays, (room = room ? 2 * room : CHUNK) * sizeof *delays)))
        die("memory");
    delays[count++] = delay;
    last = now;
}

static void pass_to_broker(struct pair *pair)
{
    uint64_t now = now_us(CLOCK_MONOTONIC);
    for (struct packet packet; front(&pair->from_client, &packet); pair->from_client.at += packet.size) {
        uint64_t *passed_at = &pair->passed_at[packet.type == PUBACK ? word(packet.body) : 0];
        if (packet.type == PUBACK && *passed_at) {
            note(now - *passed_at, now);
            *passed_at = 0;
            pair->unacknowledged--;
        }
        append(&pair->to_broker, packet.start, packet.size);
    }
}

static void pass_to_client(struct pair *pair)
{
    uint64_t now = now_us(CLOCK_MONOTONIC);
    for (struct packet packet; front(&pair->from_broker, &packet); pair->from_broker.at += packet.size) {
        if (packet.type == PUBLISH && packet.start[0] & 2) {
            if (window && pair->unacknowledged >= window) return;
            pair->passed_at[word(packet.body + 2 + word(packet.body))] = now;
            pair->unacknowledged++;
        }
        append(&pair->to_client, packet.start, packet.size);
    }
}

static void end(struct pair *pair)
{
    close(pair->client);
    close(pair->broker);
    free(pair->from_client.data);
    free(pair->to_broker.data);
    free(pair->from_broker.data);
    free(pair->to_client.data);
    memset(pair, 0, sizeof *pair);
}

static void begin(int listener, int broker_port)
{
    int client = accept(listener, NULL, NULL), on = 1, free_one = 0;
    while (free_one < PAIRS && pairs[free_one].client) free_one++;
    if (client < 0 || free_one == PAIRS) die("accept");
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(client, F_SETFL, O_NONBLOCK);
    pairs[free_one].client = client;
    pairs[free_one].broker = dial(broker_port);
}

/* What a pair waits for, at its client and at its broker. */
static void watch(const struct pair *pair, struct pollfd *events)
{
    int held = waiting(&pair->from_broker) > MOST_WAITING || waiting(&pair->to_client) > MOST_WAITING;
    events[0].fd = pair->client ? pair->client : -1;
    events[1].fd = pair->client ? pair->broker : -1;
    events[0].events = POLLIN | (waiting(&pair->to_client) ? POLLOUT : 0);
    events[1].events = (held ? 0 : POLLIN) | (waiting(&pair->to_broker) ? POLLOUT : 0);
    events[0].revents = events[1].revents = 0;
}

static void serve(struct pair *pair, const struct pollfd *events)
{
    int goes_on = 1, readable = POLLIN | POLLHUP | POLLERR;
    if (events[0].revents & readable) goes_on &= fill(pair->client, &pair->from_client);
    if (events[1].revents & readable) goes_on &= fill(pair->broker, &pair->from_broker);
    pass_to_broker(pair);
    pass_to_client(pair);
    goes_on &= drain(pair->broker, &pair->to_broker);
    goes_on &= drain(pair->client, &pair->to_client);
    if (!goes_on) end(pair);
}

static void answer(const char *line)
{
    if (!strcmp(line, "reset\n")) count = last = 0;
    if (count) qsort(delays, count, sizeof *delays, by_size);
    printf("{\"count\": %zu, \"last\": %.6f, \"p50\": %.6f, \"p99\": %.6f, \"max\": %.6f}\n", count,
        last / 1e6, count ? delays[count / 2] / 1e6 : 0, count ? delays[count * 99 / 100] / 1e6 : 0,
        count ? delays[count - 1] / 1e6 : 0);
    fflush(stdout);
}

static int listen_somewhere(void)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (listener < 0 || bind(listener, (void *)&address, size) || listen(listener, PAIRS)
        || getsockname(listener, (void *)&address, &size))
        die("listen");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int main(int count_of_arguments, char **arguments)
{
    if (count_of_arguments != 3) return 2;
    int broker_port = atoi(arguments[1]), listener = listen_somewhere();
    window = atoi(arguments[2]);
    signal(SIGPIPE, SIG_IGN);
    char line[16];
    for (;;) {
        struct pollfd events[2 + 2 * PAIRS] = {{STDIN_FILENO, POLLIN, 0}, {listener, POLLIN, 0}};
        for (int i = 0; i < PAIRS; i++) watch(&pairs[i], &events[2 + 2 * i]);
        poll(events, 2 + 2 * PAIRS, -1);
        for (int i = 0; i < PAIRS; i++)
            if (pairs[i].client && (events[2 + 2 * i].revents || events[3 + 2 * i].revents))
                serve(&pairs[i], &events[2 + 2 * i]);
        if (events[1].revents) begin(listener, broker_port);
        if (events[0].revents) {
            if (!fgets(line, sizeof line, stdin)) return 0;
            answer(line);
        }
    }
}
