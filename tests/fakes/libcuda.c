/* The calls of the CUDA driver that a timed copy makes, on a card that exists in numbers only.
   FAKE_CUDA: "UUID GB/s FREE_MIB [FAULT]"; the card is there when CUDA_VISIBLE_DEVICES names it.
   FAULT: crash (in the copy), hang (in the copy), still (copies take no time). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char uuid[80], fault[16];
static double gbs, free_mib, copied;
static size_t held;
static double stamps[64];
static int events, current;

int cuInit(unsigned flags) {
    const char *script = getenv("FAKE_CUDA"), *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (flags || !script || sscanf(script, "%79s %lf %lf %15s", uuid, &gbs, &free_mib, fault) < 3) return 999;
    return visible && !strcmp(visible, uuid) ? 0 : 100;
}
int cuGetErrorString(int status, const char **text) {
    *text = status == 100 ? "no CUDA-capable device is detected" : status == 2 ? "out of memory"
            : status == 201 ? "invalid device context" : NULL;
    return *text ? 0 : 1;
}
int cuDeviceGet(int *device, int ordinal) { *device = 7; return ordinal ? 101 : 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &current; return device == 7 ? 0 : 101; }
int cuCtxSetCurrent(void *context) { current = context == &current; return 0; }
int cuMemGetInfo_v2(size_t *left, size_t *total) {
    *left = (size_t)(free_mib * 1048576) - held;
    *total = (size_t)(free_mib * 1048576);
    return current ? 0 : 201;
}
int cuMemAlloc_v2(unsigned long long *address, size_t size) {
    if (held + size > free_mib * 1048576) return 2;
    *address = 0x7000000000ULL + held;
    held += size;
    return current ? 0 : 201;
}
int cuMemsetD8_v2(unsigned long long address, unsigned char value, size_t size) {
    return address < 0x7000000000ULL || !value || !size;
}
int cuEventCreate(void **event, unsigned flags) { *event = &stamps[events++ % 64]; return flags; }
int cuEventRecord(void *event, void *stream) { *(double *)event = copied; return stream != NULL; }
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t size, void *stream) {
    if (!strcmp(fault, "crash")) raise(SIGSEGV);
    if (!strcmp(fault, "hang")) pause();
    copied += 2.0 * size;
    return stream != NULL || to == from;
}
int cuEventSynchronize(void *event) { return event == NULL; }
int cuEventElapsedTime(float *ms, void *start, void *stop) {
    *ms = strcmp(fault, "still") ? (*(double *)stop - *(double *)start) / gbs / 1e6 : 0;
    return 0;
}
