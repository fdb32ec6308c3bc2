/* A libnvidia-ml.so.1 that lies. $HOSTILE_SEED begins its dice; $HOSTILE_FAIL and $HOSTILE_GARBAGE are the percentages
 * of calls that return a random code, and that succeed with random bytes; $HOSTILE_HANG and $HOSTILE_CRASH name a
 * function that does not return, and one that ends the process; $HOSTILE_COUNT is how many GPUs it says there are.
 * -DLACKING=1, 2 or 3 leaves out functions. The layouts are only as large as nvidia-ml-py makes room for. */

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#ifndef LACKING
#define LACKING 0
#endif

typedef struct { uint32_t id, scope; int64_t stamp_us, latency_us; uint32_t type; int32_t code; uint64_t value; } Field;
typedef struct { uint32_t pid; uint64_t bytes; uint32_t gpu_instance, compute_instance; } Process;
typedef struct { uint32_t id; int32_t code; double value; const char *names[3]; } GpmMetric;
typedef struct { uint32_t version, count; void *samples[2]; GpmMetric metrics[]; } GpmMetrics;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t state;

static int setting(const char *name, int otherwise) { const char *text = getenv(name); return text ? atoi(text) : otherwise; }

static uint64_t dice(void) { /* xorshift64 */
    pthread_mutex_lock(&lock);
    if (!state) state = 88172645463325252ull ^ ((uint64_t)setting("HOSTILE_SEED", 1) * 2654435761u);
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    uint64_t found = state;
    pthread_mutex_unlock(&lock);
    return found;
}

static uint64_t odd(void) {
    static const uint64_t favourites[] = {
        0, 1, 0xffffffffu, 0xfffffffeu, 0x7fffffffu, 0x80000000u, UINT64_MAX, UINT64_MAX - 1, INT64_MAX,
        4000000000u, 2000000000u, 0x7ff0000000000000u /* inf */, 0xfff8000000000000u /* NaN */, 0x7fefffffffffffffu,
    };
    uint64_t which = dice() % 20;
    return which < sizeof favourites / sizeof *favourites ? favourites[which] : dice();
}

static void fill(void *out, size_t bytes) {
    for (size_t at = 0; at < bytes; at++) ((unsigned char *)out)[at] = (unsigned char)(dice() >> 16);
}

/* Return the code of a call, 1000 for one that succeeds with garbage. */
static int enter(const char *name) {
    const char *hang = getenv("HOSTILE_HANG"), *crash = getenv("HOSTILE_CRASH");
    while (hang && !strcmp(hang, name)) usleep(50000);
    if (crash && !strcmp(crash, name)) raise(dice() % 2 ? SIGSEGV : SIGABRT);
    int roll = (int)(dice() % 100);
    if (roll < setting("HOSTILE_FAIL", 0)) {
        static const int codes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 25, 26, 999, -1, 12345};
        return codes[dice() % (sizeof codes / sizeof *codes)];
    }
    return roll < setting("HOSTILE_FAIL", 0) + setting("HOSTILE_GARBAGE", 0) ? 1000 : 0;
}

#define BEGIN int code = enter(__func__); if (code && code != 1000) return code; int lies = code == 1000

const char *nvmlErrorString(int code) { (void)code; return dice() % 3 ? "\xff\xfe\x1b]0;owned\x07" : NULL; }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return enter(__func__) % 1000; }
int nvmlShutdown(void) { return enter(__func__) % 1000; }

#define TEXT(name, usual) int name(char *text, unsigned length) { \
    BEGIN; if (lies) fill(text, length); else strcpy(text, usual); return 0; }
TEXT(nvmlSystemGetDriverVersion, "580.0-hostile")
TEXT(nvmlSystemGetNVMLVersion, "13.580.0")
int nvmlSystemGetCudaDriverVersion_v2(int *out) { BEGIN; *out = lies ? (int)odd() : 13000; return 0; }

int nvmlDeviceGetCount_v2(unsigned *out) { BEGIN; *out = lies ? (unsigned)odd() : (unsigned)setting("HOSTILE_COUNT", 2); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) { BEGIN; *out = (void *)(uintptr_t)(lies ? odd() : index + 1); return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **out) { (void)uuid; BEGIN; *out = (void *)(uintptr_t)(lies ? odd() : 1); return 0; }
#define OF_GPU(name, usual) int name(void *gpu, char *text, unsigned length) { \
    (void)gpu; BEGIN; if (lies) fill(text, length); else strcpy(text, usual); return 0; }
OF_GPU(nvmlDeviceGetName, "NVIDIA H200 (hostile)\x1b]0;owned\x07")
OF_GPU(nvmlDeviceGetUUID, "GPU-00000000-0000-4000-8000-000000000000")
int nvmlDeviceGetPciInfo_v3(void *gpu, char *out) { (void)gpu; BEGIN; if (lies) fill(out, 68); else memset(out, 0, 68); return 0; }
int nvmlDeviceGetMigMode(void *gpu, unsigned *now, unsigned *after) { (void)gpu; BEGIN; *now = *after = lies ? (unsigned)odd() : 0; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *gpu, unsigned index, void **out) { (void)gpu; BEGIN; *out = (void *)(uintptr_t)(index + 100 + (unsigned)lies); return 0; }

#define NUMBER(name, type, usual) int name(void *gpu, type *out) { \
    (void)gpu; BEGIN; *out = lies ? (type)odd() : (type)(usual); return 0; }
NUMBER(nvmlDeviceGetMaxMigDeviceCount, unsigned, 7)
NUMBER(nvmlDeviceIsMigDeviceHandle, unsigned, 0)
NUMBER(nvmlDeviceGetPowerUsage, unsigned, 77700)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, 700000)
NUMBER(nvmlDeviceGetFanSpeed, unsigned, 30)
NUMBER(nvmlDeviceGetPerformanceState, unsigned, 0)
NUMBER(nvmlDeviceGetPersistenceMode, unsigned, 1)
NUMBER(nvmlDeviceGetMinorNumber, unsigned, 0)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, 5)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, 16)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, 5)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, 16)
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, uint64_t, 1)
#define BY_KIND(name, usual) int name(void *gpu, unsigned kind, unsigned *out) { \
    (void)gpu; (void)kind; BEGIN; *out = lies ? (unsigned)odd() : (usual); return 0; }
#if LACKING != 1
BY_KIND(nvmlDeviceGetClockInfo, 1980)
BY_KIND(nvmlDeviceGetMaxClockInfo, 1980)
#endif
BY_KIND(nvmlDeviceGetTemperature, 32)
BY_KIND(nvmlDeviceGetTemperatureThreshold, 92)
BY_KIND(nvmlDeviceGetApplicationsClock, 1980)
BY_KIND(nvmlDeviceGetDefaultApplicationsClock, 1980)
int nvmlDeviceGetTotalEccErrors(void *gpu, unsigned kind, unsigned since, uint64_t *out) {
    (void)gpu; (void)kind; (void)since; BEGIN; *out = lies ? odd() : 0; return 0; }
int nvmlDeviceGetUtilizationRates(void *gpu, unsigned *out) { (void)gpu; BEGIN; out[0] = lies ? (unsigned)odd() : 37; out[1] = lies ? (unsigned)odd() : 5; return 0; }
#if LACKING != 2
int nvmlDeviceGetMemoryInfo(void *gpu, uint64_t *out) { (void)gpu; BEGIN; for (int at = 0; at < 3; at++) out[at] = lies ? odd() : 1u << 30; return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *gpu, uint64_t *out) { (void)gpu; BEGIN; for (int at = 1; at < 5; at++) out[at] = lies ? odd() : 1u << 30; return 0; }
#endif
int nvmlDeviceGetTemperatureV(void *gpu, int *out) { (void)gpu; BEGIN; out[2] = lies ? (int)odd() : 32; return 0; }
int nvmlDeviceGetMarginTemperature(void *gpu, int *out) { (void)gpu; BEGIN; out[1] = lies ? (int)odd() : 55; return 0; }

#if LACKING != 3
static int listed(int lies, unsigned *count, Process *out) {
    unsigned room = *count;
    *count = lies ? (unsigned)odd() : 1;
    for (unsigned at = 0; out && at < room && at < *count && at < 5000; at++) {
        out[at] = (Process){(uint32_t)odd(), odd(), 0, 0};
        if (!lies) out[at] = (Process){4242, 1 << 30, 0, 0};
    }
    return lies && dice() % 2 ? 0 : *count > room ? 7 : 0;
}
int nvmlDeviceGetComputeRunningProcesses_v2(void *gpu, unsigned *count, Process *out) { (void)gpu; BEGIN; return listed(lies, count, out); }
int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *count, Process *out) { (void)gpu; BEGIN; return listed(lies, count, out); }
int nvmlDeviceGetFieldValues(void *gpu, int count, Field *fields) {
    (void)gpu; BEGIN;
    struct timeval now;
    gettimeofday(&now, NULL);
    for (int at = 0; at < count; at++) {
        int worse = lies || (int)(dice() % 100) < setting("HOSTILE_GARBAGE", 0);
        fields[at].code = worse && dice() % 2 ? (int32_t)odd() : 0;
        fields[at].type = worse ? (uint32_t)(dice() % 9) : 3;
        fields[at].value = worse ? odd() : 12345;
        fields[at].stamp_us = worse ? (int64_t)odd() : (int64_t)now.tv_sec * 1000000 + now.tv_usec;
    }
    return 0;
}
#endif

int nvmlGpmQueryDeviceSupport(void *gpu, unsigned *out) { (void)gpu; BEGIN; out[1] = lies ? (unsigned)odd() : 1; return 0; }
int nvmlGpmSampleAlloc(void **out) { BEGIN; (void)lies; *out = calloc(1, 64); return 0; }
int nvmlGpmSampleFree(void *sample) { BEGIN; (void)lies; (void)sample; return 0; }
int nvmlGpmSampleGet(void *gpu, void *sample) { (void)gpu; (void)sample; BEGIN; (void)lies; return 0; }
int nvmlGpmMetricsGet(GpmMetrics *out) {
    BEGIN;
    for (uint32_t at = 0; at < out->count && at < 3; at++) {
        uint64_t bits = odd();
        out->metrics[at].code = lies ? (int32_t)(odd() % 30) : 0;
        if (lies) memcpy(&out->metrics[at].value, &bits, sizeof bits);
        else out->metrics[at].value = 50;
    }
    return 0;
}
