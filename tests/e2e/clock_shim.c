// Loaded before the C library: the wall clock is off by as many seconds as stand in the file that
// LARES_TEST_CLOCK names. The monotonic clock is left alone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long offset(void) {
  const char* path = getenv("LARES_TEST_CLOCK");
  long seconds = 0;
  FILE* file = path ? fopen(path, "re") : NULL;
  if (!file) return 0;
  if (fscanf(file, "%ld", &seconds) != 1) seconds = 0;
  fclose(file);
  return seconds;
}

int clock_gettime(clockid_t clock, struct timespec* out) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int status = real(clock, out);
  if (status == 0 && clock == CLOCK_REALTIME) out->tv_sec += offset();
  return status;
}

int gettimeofday(struct timeval* out, void* zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
