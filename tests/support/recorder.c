/* Records what a process does to the files below a folder and says on its TCP connections, in one order.
 *
 *     gcc -shared -fPIC -O2 -o recorder.so recorder.c -ldl
 *     RECORDER_ROOT=/path/of/state RECORDER_LOG=/path/of/log LD_PRELOAD=recorder.so program
 *
 * One record for each happening, appended to the log by one write (tests/support/recording.py reads it):
 *
 *     char kind; uint16 length of the path; uint32 length of the data; int64 number; int64 offset; path; data
 *
 *     C  a file was made          path, number = inode          O  a connection is made   number = its own
 *     W  bytes were written       inode, offset, data           S  bytes were sent        number, data
 *     T  a file was cut           inode, offset = new length    I  bytes were received    number, data
 *     F  a file was synced        inode                         D  a folder was synced    path
 *     U  a name was removed       path                          R  a name was changed     path, data = new path
 *
 * The order is the order of the calls as far as one can have caused the other: writing and sending are
 * recorded in the same locked stretch as the call; a sync once it has returned, so that whoever waited for it
 * is recorded after it. What happens through a memory map is not seen; SQLite's index of the log, the one
 * file that is mapped, is made anew after a crash and counts for nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define HANDLES 4096
/* The function of the C library behind the one that stands in its place here. */
#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

struct __attribute__((packed)) head {
    char kind;
    uint16_t path_length;
    uint32_t data_length;
    int64_t number;
    int64_t offset;
};

static int log_handle = -1;
static char root[PATH_MAX];
static size_t root_length;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static int64_t connections[HANDLES]; /* the number of the connection on a handle; 0: not one of ours */
static int64_t next_connection;

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("RECORDER_ROOT"), *log = getenv("RECORDER_LOG");
    if (!folder || !log || strlen(folder) >= sizeof root) return;
    strcpy(root, folder);
    root_length = strlen(root);
    log_handle = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    next_connection = (int64_t)getpid() << 20; /* told apart over several processes in one log */
}

static void record(char kind, const char *path, int64_t number, int64_t offset, const void *data, size_t length)
{
    struct head head = {kind, (uint16_t)strlen(path), (uint32_t)length, number, offset};
    struct iovec parts[] = {
        {&head, sizeof head}, {(void *)path, head.path_length}, {(void *)data, length}};
    if (writev(log_handle, parts, 3) < 0) abort(); /* a recording with a hole would prove nothing */
}

static int is_ours(const char *path)
{
    return log_handle >= 0 && !strncmp(path, root, root_length) && path[root_length] == '/';
}

/* Whether a handle is of a file below the root, or of the root; and what it is. */
static int file_of(int handle, struct stat *about, char *path)
{
    char link[64];
    if (log_handle < 0 || handle == log_handle) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < (ssize_t)root_length) return 0;
    path[length] = 0;
    return (is_ours(path) || !strcmp(path, root)) && !fstat(handle, about);
}

/* ------------------------------------------------------------------------------------------- names */

static int opened(int folder, const char *path, int flags, mode_t mode)
{
    REAL(openat);
    if (!is_ours(path)) return real(folder, path, flags, mode);
    pthread_mutex_lock(&guard);
    struct stat about;
    int there = !lstat(path, &about), handle = real(folder, path, flags, mode), kept = errno;
    if (handle >= 0 && !fstat(handle, &about) && S_ISREG(about.st_mode)) {
        if (!there) record('C', path, about.st_ino, 0, "", 0);
        else if (flags & O_TRUNC) record('T', "", about.st_ino, 0, "", 0);
    }
    pthread_mutex_unlock(&guard);
    errno = kept;
    return handle;
}

static mode_t mode_of(int flags, va_list more) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; }

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = mode_of(flags, more); \
        va_end(more); \
        return opened(AT_FDCWD, path, flags, mode); \
    }
#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) \
    { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = mode_of(flags, more); \
        va_end(more); \
        return opened(folder, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)
OPENAT(openat64)

int unlink(const char *path)
{
    REAL(unlink);
    pthread_mutex_lock(&guard);
    int result = real(path), kept = errno;
    if (!result && is_ours(path)) record('U', path, 0, 0, "", 0);
    pthread_mutex_unlock(&guard);
    errno = kept;
    return result;
}

int rename(const char *before, const char *after)
{
    REAL(rename);
    pthread_mutex_lock(&guard);
    int result = real(before, after), kept = errno;
    if (!result && is_ours(after)) record('R', before, 0, 0, after, strlen(after));
    pthread_mutex_unlock(&guard);
    errno = kept;
    return result;
}

/* ------------------------------------------------------------------------------------------- bytes */

ssize_t pwrite64(int handle, const void *data, size_t length, off64_t offset)
{
    REAL(pwrite64);
    struct stat about;
    char path[PATH_MAX];
    if (!file_of(handle, &about, path)) return real(handle, data, length, offset);
    pthread_mutex_lock(&guard);
    ssize_t written = real(handle, data, length, offset);
    int kept = errno;
    if (written > 0) record('W', path, about.st_ino, offset, data, written);
    pthread_mutex_unlock(&guard);
    errno = kept;
    return written;
}

ssize_t pwrite(int handle, const void *data, size_t length, off_t offset)
{
    return pwrite64(handle, data, length, offset);
}

ssize_t write(int handle, const void *data, size_t length)
{
    REAL(write);
    struct stat about;
    char path[PATH_MAX];
    if (!file_of(handle, &about, path) || !S_ISREG(about.st_mode)) return real(handle, data, length);
    pthread_mutex_lock(&guard);
    int appends = fcntl(handle, F_GETFL) & O_APPEND && !fstat(handle, &about);
    off_t offset = appends ? about.st_size : lseek(handle, 0, SEEK_CUR);
    ssize_t written = real(handle, data, length);
    int kept = errno;
    if (written > 0) record('W', path, about.st_ino, offset, data, written);
    pthread_mutex_unlock(&guard);
    errno = kept;
    return written;
}

int ftruncate64(int handle, off64_t length)
{
    REAL(ftruncate64);
    struct stat about;
    char path[PATH_MAX];
    if (!file_of(handle, &about, path)) return real(handle, length);
    pthread_mutex_lock(&guard);
    int result = real(handle, length), kept = errno;
    if (!result) record('T', path, about.st_ino, length, "", 0);
    pthread_mutex_unlock(&guard);
    errno = kept;
    return result;
}

int ftruncate(int handle, off_t length) { return ftruncate64(handle, length); }

/* Not locked during the call: whoever does not wait for it is to be seen overtaking it. */
#define SYNC(name) \
    int name(int handle) \
    { \
        REAL(name); \
        struct stat about; \
        char path[PATH_MAX]; \
        int ours = file_of(handle, &about, path), result = real(handle), kept = errno; \
        if (ours && !result) { \
            pthread_mutex_lock(&guard); \
            if (S_ISDIR(about.st_mode)) record('D', path, 0, 0, "", 0); \
            else record('F', path, about.st_ino, 0, "", 0); \
            pthread_mutex_unlock(&guard); \
        } \
        errno = kept; \
        return result; \
    }
SYNC(fsync)
SYNC(fdatasync)

/* ------------------------------------------------------------------------------------- connections */

static int64_t connection_on(int handle)
{
    return handle >= 0 && handle < HANDLES ? connections[handle] : 0;
}

int connect(int handle, const struct sockaddr *address, socklen_t length)
{
    REAL(connect);
    int over_network = address->sa_family == AF_INET || address->sa_family == AF_INET6;
    if (log_handle >= 0 && over_network && handle >= 0 && handle < HANDLES) {
        pthread_mutex_lock(&guard);
        connections[handle] = ++next_connection;
        record('O', "", connections[handle], 0, "", 0);
        pthread_mutex_unlock(&guard);
    }
    return real(handle, address, length);
}

int close(int handle)
{
    REAL(close);
    if (connection_on(handle)) connections[handle] = 0; /* before the kernel gives the number away again */
    return real(handle);
}

ssize_t send(int handle, const void *data, size_t length, int flags)
{
    REAL(send);
    int64_t number = connection_on(handle);
    if (!number) return real(handle, data, length, flags);
    pthread_mutex_lock(&guard);
    ssize_t sent = real(handle, data, length, flags);
    int kept = errno;
    if (sent > 0) record('S', "", number, 0, data, sent);
    pthread_mutex_unlock(&guard);
    errno = kept;
    return sent;
}

ssize_t sendmsg(int handle, const struct msghdr *message, int flags)
{
    REAL(sendmsg);
    int64_t number = connection_on(handle);
    if (!number) return real(handle, message, flags);
    pthread_mutex_lock(&guard);
    ssize_t sent = real(handle, message, flags), left = sent;
    int kept = errno;
    for (size_t part = 0; part < message->msg_iovlen && left > 0; part++) {
        const struct iovec *piece = &message->msg_iov[part];
        size_t taken = (size_t)left < piece->iov_len ? (size_t)left : piece->iov_len;
        record('S', "", number, 0, piece->iov_base, taken);
        left -= taken;
    }
    pthread_mutex_unlock(&guard);
    errno = kept;
    return sent;
}

ssize_t recv(int handle, void *data, size_t length, int flags)
{
    REAL(recv);
    int64_t number = connection_on(handle);
    ssize_t received = real(handle, data, length, flags);
    int kept = errno;
    if (number && received > 0 && !(flags & MSG_PEEK)) {
        pthread_mutex_lock(&guard);
        record('I', "", number, 0, data, received);
        pthread_mutex_unlock(&guard);
    }
    errno = kept;
    return received;
}
