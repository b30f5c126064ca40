/* Publishes numbered telemetry at QoS 1, and writes down what the broker has acknowledged.
 *
 *     load PORT COUNT RATE FIRST ACKNOWLEDGED
 *
 * COUNT messages of 200 bytes and ten fields, of 50 devices in turn, numbered from FIRST on; RATE in messages
 * a second, 0 for as fast as a window of 256 allows. The file ACKNOWLEDGED then holds their numbers, one a
 * line. Ends early on SIGTERM. On standard output: {"acknowledged": N, "began": S, "ended": S}, in seconds of
 * CLOCK_MONOTONIC.
 */
#include "mqtt.h"

#include <poll.h>
#include <signal.h>

enum { DEVICES = 50, SIZE = 200, WINDOW = 256, MOST_WAITING = 256 * 1024 };

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

static size_t length_of(uint8_t *at, size_t length)
{
    size_t used = 0;
    do {
        at[used++] = (length & 127) | (length > 127 ? 128 : 0);
    } while (length >>= 7);
    return used;
}

static void connect_as(struct bytes *out, const char *name)
{
    uint8_t head[16] = {0x10}, fixed[] = {0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0, (uint8_t)strlen(name)};
    append(out, head, 1 + length_of(head + 1, sizeof fixed + strlen(name)));
    append(out, fixed, sizeof fixed);
    append(out, name, strlen(name));
}

static void publish(struct bytes *out, int number, int packet_id)
{
    char topic[32], payload[SIZE + 1];
    int topic_size = snprintf(topic, sizeof topic, "tele/dev-%02d/data", number % DEVICES);
    int size = snprintf(payload, sizeof payload,
        "{\"seq\":%d,\"t0\":%llu,\"temp\":%.2f,\"hum\":%.1f,\"press\":%.1f,\"batt\":%.2f,\"rssi\":%d,"
        "\"status\":\"ok\",\"fw\":\"1.4.2\",\"note\":\"",
        number, (unsigned long long)now_us(CLOCK_REALTIME), 18 + number * 37 % 1000 / 100.0,
        40 + number * 13 % 300 / 10.0, 990 + number * 7 % 400 / 10.0, 3.3 + number % 90 / 100.0,
        -40 - number * 11 % 50);
    for (; size < SIZE - 2; size++) payload[size] = 'a' + (size * 7 + number) % 26;
    memcpy(payload + SIZE - 2, "\"}", 2);

    uint8_t head[16] = {0x32}, parts[2];
    append(out, head, 1 + length_of(head + 1, 2 + topic_size + 2 + SIZE));
    append(out, (parts[0] = 0, parts[1] = topic_size, parts), 2);
    append(out, topic, topic_size);
    append(out, (parts[0] = packet_id >> 8, parts[1] = packet_id, parts), 2);
    append(out, payload, SIZE);
}

int main(int count_of_arguments, char **arguments)
{
    if (count_of_arguments != 6) return 2;
    int port = atoi(arguments[1]), count = atoi(arguments[2]), first = atoi(arguments[4]);
    double rate = atof(arguments[3]);
    FILE *acknowledged_file = fopen(arguments[5], "w");
    if (!acknowledged_file) die(arguments[5]);
    signal(SIGTERM, stop);
    signal(SIGPIPE, SIG_IGN);

    int number_of[PACKET_IDS]; /* -1: the packet id is free */
    memset(number_of, -1, sizeof number_of);
    int handle = dial(port), welcome = 0, sent = 0, acknowledged = 0, packet_id = 0, goes_on = 1;
    struct bytes in = {0}, out = {0};
    char name[32];
    snprintf(name, sizeof name, "load-%d", getpid());
    connect_as(&out, name);
    uint64_t began = 0;

    while (acknowledged < count && !stopped && goes_on) {
        uint64_t now = now_us(CLOCK_MONOTONIC);
        int due = rate > 0 && welcome ? (int)((now - began) / 1e6 * rate) + 1 : count;
        while (welcome && sent < due && sent < count && sent - acknowledged < WINDOW
               && waiting(&out) < MOST_WAITING) {
            packet_id = packet_id % (PACKET_IDS - 1) + 1;
            if (number_of[packet_id] >= 0) continue;
            number_of[packet_id] = first + sent;
            publish(&out, first + sent++, packet_id);
        }
        struct pollfd event = {handle, POLLIN | (waiting(&out) ? POLLOUT : 0), 0};
        poll(&event, 1, rate > 0 ? 1 : 100);
        if (event.revents & POLLOUT) goes_on = drain(handle, &out);
        if (event.revents & (POLLIN | POLLHUP | POLLERR)) goes_on = goes_on && fill(handle, &in);
        for (struct packet packet; front(&in, &packet); in.at += packet.size) {
            if (packet.type == CONNACK) {
                if (packet.body[1]) die("the broker refuses us");
                welcome = 1;
                began = now_us(CLOCK_MONOTONIC);
            } else if (packet.type == PUBACK && number_of[word(packet.body)] >= 0) {
                fprintf(acknowledged_file, "%d\n", number_of[word(packet.body)]);
                number_of[word(packet.body)] = -1;
                acknowledged++;
            }
        }
    }
    printf("{\"acknowledged\": %d, \"began\": %.6f, \"ended\": %.6f}\n", acknowledged, began / 1e6,
        now_us(CLOCK_MONOTONIC) / 1e6);
    write(handle, "\xe0\0", 2); /* DISCONNECT */
    return fclose(acknowledged_file) != 0;
}
