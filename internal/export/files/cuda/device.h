/* What the check needs of the device. Every function ends the program when the device refuses. */
#ifndef DEVICE_H
#define DEVICE_H

#include <stddef.h>
#include <stdint.h>

/* Whether there is a device. */
int device_found(void);
void *device_room(size_t bytes);
void device_free(void *p);
void device_fill(void *p, int byte, size_t bytes);
void device_put(void *to, const void *from, size_t bytes);
void device_get(void *to, const void *from, size_t bytes);
/* Waits for what was launched. */
void device_wait(void);
/* Launches a reference, by its image or its function. */
void device_launch(const void *image, void (*function)(void), const int64_t *geometry, void **args);

#endif
