/* A libnvidia-ml.so.1 without a GPU: what it answers stands in a small text file that may change at any moment.
 *
 * $FAKE_NVML_STATE names the file. Each line is `GPU NAME VALUE [RATE]`: GPU is the card's number (the one in its
 * UUID, not NVML's index) or `*` for all, the last line that fits counts, RATE lets a field grow by so much a second.
 * Names: count, init, reversed, mig, and the values below; `field:N` for a field value, `width:N` for its bits,
 * `unstamped` for fields without a time, `clock_us` for one time on all of them; `fail:FUNCTION` (or `fail:*`, `fail:field:N`) for a return code;
 * `hang:FUNCTION`: while it is not 0, a call does not return; `crash:FUNCTION`: a call ends the process; `process:PID` or `process:PID@INSTANCE` for its bytes
 * (-1: not known), `process_count` for a number of them that is a lie. $FAKE_NVML_CALLS, if set, gets the name of each function (and `field:N`) a line.
 * Built with -DOLD_DRIVER it lacks the functions that drivers before about 510 lack.
 * The layouts are written down from NVIDIA's documentation of NVML, as far as they are needed. */

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { OK, UNINITIALIZED, INVALID, NOT_SUPPORTED, NOT_FOUND = 6, TOO_SMALL = 7, WRONG_VERSION = 25 };
enum { MOST_LINES = 1024, INSTANCES = 7, MIG_HANDLE = 1000 };

typedef struct { int card; char name[72]; long long value; double rate; } Line; /* card -1: all */
typedef struct { int length; Line lines[MOST_LINES]; } State;
typedef struct { uint32_t id, scope; int64_t stamp_us, latency_us; uint32_t type; int32_t code; uint64_t value; } Field;
typedef struct { uint32_t version; uint64_t total, reserved, free, used; } MemoryV2;
typedef struct { uint64_t total, free, used; } MemoryV1;
typedef struct { uint32_t pid; uint64_t bytes; uint32_t gpu_instance, compute_instance; } Process;
typedef struct { char legacy[16]; uint32_t domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { uint32_t version, sensor; int32_t temperature; } Temperature;
typedef struct { uint32_t version; int32_t margin; } Margin;
typedef struct { uint32_t version, supported; } GpmSupport;
typedef struct { uint32_t id; int32_t code; double value; const char *names[3]; } GpmMetric;
typedef struct { uint32_t version, count; void *samples[2]; GpmMetric metrics[]; } GpmMetrics;
typedef long Handle; /* card + 1, or MIG_HANDLE * (card + 1) + instance */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static State *state;
static struct stat seen;
static int64_t started_us;
static int sessions, samples_held;

static int64_t now_us(void) {
    struct timeval now;
    gettimeofday(&now, NULL);
    return (int64_t)now.tv_sec * 1000000 + now.tv_usec;
}

/* Read the file if it is another one. Old states are never freed: another thread may still look at one. */
static void reread(void) {
    const char *path = getenv("FAKE_NVML_STATE");
    struct stat found;
    memset(&found, 0, sizeof found);
    if (!started_us) started_us = now_us();
    if (path && stat(path, &found) == 0 && state && found.st_ino == seen.st_ino &&
        found.st_mtim.tv_nsec == seen.st_mtim.tv_nsec && found.st_mtim.tv_sec == seen.st_mtim.tv_sec)
        return;
    State *fresh = calloc(1, sizeof *fresh);
    FILE *file = path ? fopen(path, "r") : NULL;
    char text[200], card[16];
    while (file && fresh->length < MOST_LINES && fgets(text, sizeof text, file)) {
        Line *line = &fresh->lines[fresh->length];
        if (sscanf(text, "%15s %71s %lld %lf", card, line->name, &line->value, &line->rate) < 3) continue;
        line->card = *card == '*' ? -1 : atoi(card);
        fresh->length++;
    }
    if (file) fclose(file);
    seen = found;
    state = fresh;
}

static void refresh(void) {
    pthread_mutex_lock(&lock);
    reread();
    pthread_mutex_unlock(&lock);
}

static const Line *find(int card, const char *name) {
    for (int at = state->length - 1; at >= 0; at--) {
        const Line *line = &state->lines[at];
        if ((line->card == card || line->card == -1) && !strcmp(line->name, name)) return line;
    }
    return NULL;
}

static long long number(int card, const char *name, long long otherwise) {
    const Line *line = find(card, name);
    return line ? line->value : otherwise;
}

static long long named(int card, long long otherwise, const char *format, ...) {
    char name[72];
    va_list rest;
    va_start(rest, format);
    vsnprintf(name, sizeof name, format, rest);
    va_end(rest);
    return number(card, name, otherwise);
}

static void note(const char *format, ...) {
    const char *path = getenv("FAKE_NVML_CALLS");
    int file = path && *path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (file < 0) return;
    char text[80];
    va_list rest;
    va_start(rest, format);
    int length = vsnprintf(text, sizeof text, format, rest);
    va_end(rest);
    if (write(file, text, (size_t)length) < 0) length = 0;
    close(file);
}

static int card_of(Handle handle) { return (int)(handle >= MIG_HANDLE ? handle / MIG_HANDLE : handle) - 1; }
static int instance_of(Handle handle) { return handle >= MIG_HANDLE ? (int)(handle % MIG_HANDLE) : -1; }

/* What every call begins with: the file, the list of calls, hangs, and codes that were asked for. */
static int enter(const char *function, int card) {
    refresh();
    note("%s\n", function);
    if (named(card, 0, "crash:%s", function)) raise(SIGSEGV);
    while (named(card, 0, "hang:%s", function)) {
        usleep(5000);
        refresh();
    }
    if (card >= -1 && !sessions) return UNINITIALIZED;
    if (card >= (int)number(-1, "count", 2)) return INVALID;
    return (int)named(card, number(card, "fail:*", OK), "fail:%s", function);
}

enum { NO_CARD = -1, NO_SESSION = -2 };
#define ENTER(card) do { int code = enter(__func__, card); if (code != OK) return code; } while (0)
#define ENTER_GPU(handle) int card = card_of(handle); ENTER(card)

const char *nvmlErrorString(int code) { return code == 999 ? "Unknown Error" : "an error"; }

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    ENTER(NO_SESSION);
    sessions += number(-1, "init", OK) == OK;
    return (int)number(-1, "init", OK);
}

int nvmlShutdown(void) {
    ENTER(NO_CARD);
    note("held:%d\n", samples_held);
    sessions--;
    return OK;
}

#define VERSION(function, version) \
    int function(char *text, unsigned length) { ENTER(NO_CARD); return snprintf(text, length, version) < 0; }
VERSION(nvmlSystemGetDriverVersion, "580.0-fake")
VERSION(nvmlSystemGetNVMLVersion, "13.580.0")
int nvmlSystemGetCudaDriverVersion_v2(int *version) { ENTER(NO_CARD); *version = 13000; return OK; }

/* ---------------------------------------------------------------- GPUs and who they are */

int nvmlDeviceGetCount_v2(unsigned *count) { ENTER(NO_CARD); *count = (unsigned)number(-1, "count", 2); return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *handle) {
    refresh();
    int count = (int)number(-1, "count", 2);
    int card = number(-1, "reversed", 0) ? count - 1 - (int)index : (int)index;
    if (card < 0) return INVALID;
    ENTER(card);
    *handle = card + 1;
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Handle *handle) {
    unsigned card = 0, instance = 0;
    ENTER(NO_CARD);
    if (sscanf(uuid, "GPU-%8x-", &card) == 1) {
        if ((int)card >= number(-1, "count", 2)) return NOT_FOUND;
        *handle = (Handle)card + 1;
    } else if (sscanf(uuid, "MIG-%8x-%4x-", &card, &instance) == 2) {
        *handle = MIG_HANDLE * ((Handle)card + 1) + (Handle)instance;
    } else {
        return NOT_FOUND;
    }
    return (int)number((int)card, "fail:*", OK);
}

int nvmlDeviceGetName(Handle handle, char *text, unsigned length) {
    ENTER_GPU(handle);
    snprintf(text, length, "NVIDIA H200 (fake)%s", instance_of(handle) < 0 ? "" : " MIG 1g.18gb");
    return OK;
}

int nvmlDeviceGetUUID(Handle handle, char *text, unsigned length) {
    ENTER_GPU(handle);
    int instance = instance_of(handle);
    if (instance < 0) snprintf(text, length, "GPU-%08x-0000-4000-8000-000000000000", (unsigned)card);
    else snprintf(text, length, "MIG-%08x-%04x-4000-8000-000000000000", (unsigned)card, (unsigned)instance);
    return OK;
}

int nvmlDeviceGetPciInfo_v3(Handle handle, Pci *pci) {
    ENTER_GPU(handle);
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", (unsigned)(0x10 + card));
    return OK;
}

int nvmlDeviceGetMigMode(Handle handle, unsigned *now, unsigned *after) {
    ENTER_GPU(handle);
    *now = *after = number(card, "mig", 0) != 0;
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(Handle handle, unsigned *count) { ENTER_GPU(handle); *count = INSTANCES; return OK; }
int nvmlDeviceIsMigDeviceHandle(Handle handle, unsigned *yes) {
    ENTER_GPU(handle);
    *yes = instance_of(handle) >= 0;
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Handle handle, unsigned index, Handle *instance) {
    ENTER_GPU(handle);
    if (index >= number(card, "mig", 0)) return NOT_FOUND;
    *instance = MIG_HANDLE * ((Handle)card + 1) + (Handle)index;
    return OK;
}

/* ---------------------------------------------------------------- single values */

#define NUMBER(function, type, name, otherwise) \
    int function(Handle handle, type *out) { ENTER_GPU(handle); *out = (type)number(card, name, otherwise); return OK; }

NUMBER(nvmlDeviceGetPowerUsage, unsigned, "power_usage", 77700)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power_limit", 700000)
NUMBER(nvmlDeviceGetFanSpeed, unsigned, "fan", 30)
NUMBER(nvmlDeviceGetPerformanceState, unsigned, "state", 0)
NUMBER(nvmlDeviceGetPersistenceMode, unsigned, "persistence", 1)
NUMBER(nvmlDeviceGetMinorNumber, unsigned, "minor", card)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, "pcie_generation", 5)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "pcie_width", 16)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, "pcie_max_generation", 5)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, "pcie_max_width", 16)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, uint64_t, "throttle", 1)

#define BY_KIND(function, format, otherwise) \
    int function(Handle handle, unsigned kind, unsigned *out) { \
        ENTER_GPU(handle); \
        *out = (unsigned)named(card, otherwise, format, kind); \
        return OK; \
    }
#define REFUSED(function) \
    int function(Handle handle, unsigned kind, unsigned *out) { ENTER_GPU(handle); *out = kind; return NOT_SUPPORTED; }

BY_KIND(nvmlDeviceGetClockInfo, "clock:%u", kind == 1 ? 1980 : 3201)
BY_KIND(nvmlDeviceGetMaxClockInfo, "max_clock:%u", kind == 1 ? 1980 : 3201)
BY_KIND(nvmlDeviceGetTemperature, "temperature", 32)
BY_KIND(nvmlDeviceGetTemperatureThreshold, "threshold:%u", 92)
BY_KIND(nvmlDeviceGetPcieThroughput, "throughput:%u", 0)
REFUSED(nvmlDeviceGetApplicationsClock)
REFUSED(nvmlDeviceGetDefaultApplicationsClock)

int nvmlDeviceGetTotalEccErrors(Handle handle, unsigned kind, unsigned since, uint64_t *out) {
    ENTER_GPU(handle);
    *out = since == 0 ? (uint64_t)named(card, 0, "ecc:%u", kind) : 0;
    return OK;
}

int nvmlDeviceGetUtilizationRates(Handle handle, unsigned *out) {
    ENTER_GPU(handle);
    if (number(card, "mig", 0)) return NOT_SUPPORTED;
    out[0] = (unsigned)number(card, "active", 37);
    out[1] = (unsigned)number(card, "memory_active", 5);
    return OK;
}

static uint64_t total_bytes(int instance) { return instance < 0 ? 150754820096u : 18790481920u; }

int nvmlDeviceGetMemoryInfo(Handle handle, MemoryV1 *out) {
    ENTER_GPU(handle);
    out->total = total_bytes(instance_of(handle));
    out->used = (uint64_t)number(card, "used", 2000000000) + (uint64_t)number(card, "reserved", 600000000);
    out->free = out->total - out->used;
    return OK;
}

#ifndef OLD_DRIVER
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, uint64_t, "throttle", 1)

int nvmlDeviceGetMemoryInfo_v2(Handle handle, MemoryV2 *out) {
    ENTER_GPU(handle);
    if (out->version != (sizeof *out | 2 << 24)) return WRONG_VERSION;
    out->total = total_bytes(instance_of(handle));
    out->used = (uint64_t)number(card, "used", 2000000000);
    out->reserved = (uint64_t)number(card, "reserved", 600000000);
    out->free = out->total - out->used - out->reserved;
    return OK;
}

int nvmlDeviceGetTemperatureV(Handle handle, Temperature *out) {
    ENTER_GPU(handle);
    if (out->version != (sizeof *out | 1 << 24)) return WRONG_VERSION;
    out->temperature = (int32_t)number(card, "temperature", 32);
    return OK;
}

int nvmlDeviceGetMarginTemperature(Handle handle, Margin *out) {
    ENTER_GPU(handle);
    if (out->version != (sizeof *out | 1 << 24)) return WRONG_VERSION;
    out->margin = (int32_t)number(card, "margin", 55);
    return OK;
}
#endif

/* ---------------------------------------------------------------- processes */

static int processes(Handle handle, int card, unsigned *count, Process *out) {
    unsigned found = 0;
    for (int at = 0; at < state->length; at++) {
        const Line *line = &state->lines[at];
        unsigned pid, instance = 0;
        if (line->card != card || sscanf(line->name, "process:%u@%u", &pid, &instance) < 1) continue;
        if (instance_of(handle) >= 0 && instance_of(handle) != (int)instance) continue;
        if (out && found < *count) out[found] = (Process){pid, (uint64_t)line->value, instance, 0};
        found++;
    }
    unsigned room = *count;
    found = (unsigned)number(card, "process_count", found); /* more than there are is a lie */
    *count = found;
    return found > room ? TOO_SMALL : OK;
}

#define LIST(function) \
    int function(Handle handle, unsigned *count, Process *out) { \
        ENTER_GPU(handle); \
        return processes(handle, card, count, out); \
    }
LIST(nvmlDeviceGetComputeRunningProcesses_v2)
#ifndef OLD_DRIVER
LIST(nvmlDeviceGetComputeRunningProcesses_v3)
#endif

/* ---------------------------------------------------------------- field values */

static const struct Known { uint32_t id, type; long long value; } known[] = {
    {74, 3, 15814000000000}, {76, 3, 0}, {82, 1, 36}, {83, 3, 3102992}, {91, 1, 0}, {138, 3, 0}, {139, 3, 0},
    {185, 1, 83920}, {186, 1, 84140}, {197, 1, 1059784564}, {198, 1, 682662316}, {269, 3, 0}, {270, 3, 0}, {271, 3, 0},
};

static const struct Known *known_field(uint32_t id) {
    for (size_t at = 0; at < sizeof known / sizeof *known; at++)
        if (known[at].id == id) return &known[at];
    return NULL;
}

int nvmlDeviceGetFieldValues(Handle handle, int count, Field *fields) {
    ENTER_GPU(handle);
    for (int at = 0; at < count; at++) {
        Field *field = &fields[at];
        const struct Known *usual = known_field(field->id);
        note("field:%u\n", field->id);
        if (!usual) { field->code = INVALID; continue; }
        field->code = (int32_t)named(card, OK, "fail:field:%u", field->id);
        int64_t at_us = number(-1, "clock_us", now_us());
        char name[24];
        snprintf(name, sizeof name, "field:%u", field->id);
        const Line *line = find(card, name);
        double grown = line ? line->rate * (double)(at_us - started_us) / 1e6 : 0;
        field->value = (uint64_t)(line ? line->value : usual->value) + (uint64_t)grown;
        field->type = named(card, usual->type == 1 ? 32 : 64, "width:%u", field->id) == 32 ? 1 : 3;
        if (field->type == 1) field->value &= 0xffffffffu;
        field->stamp_us = number(card, "unstamped", 0) ? 0 : at_us;
    }
    return OK;
}

/* ---------------------------------------------------------------- GPM */

#ifndef OLD_DRIVER
int nvmlGpmQueryDeviceSupport(Handle handle, GpmSupport *out) {
    ENTER_GPU(handle);
    out->supported = (uint32_t)number(card, "gpm", 1);
    return OK;
}
int nvmlGpmSampleAlloc(void **sample) {
    ENTER(NO_CARD);
    *sample = calloc(1, sizeof(int64_t));
    samples_held++;
    return OK;
}
int nvmlGpmSampleFree(void *sample) { ENTER(NO_CARD); free(sample); samples_held--; return OK; }
int nvmlGpmSampleGet(Handle handle, int64_t *sample) { ENTER_GPU(handle); *sample = now_us(); return OK; }
int nvmlGpmMetricsGet(GpmMetrics *out) {
    ENTER(NO_CARD);
    if (out->version != 1 || *(int64_t *)out->samples[1] < *(int64_t *)out->samples[0]) return INVALID;
    for (uint32_t at = 0; at < out->count; at++) {
        out->metrics[at].code = (int32_t)named(NO_CARD, OK, "fail:gpm:%u", out->metrics[at].id);
        out->metrics[at].value = (double)named(NO_CARD, 10 * out->metrics[at].id, "gpm:%u", out->metrics[at].id);
    }
    return OK;
}
#endif
