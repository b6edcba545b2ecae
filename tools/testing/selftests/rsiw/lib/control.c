// SPDX-License-Identifier: GPL-2.0
/* Controls of failures in the kernel, see control.h. */
#define _GNU_SOURCE
#include "control.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ep.h"

static int controls = -1;

void control_open(const char *dir)
{
	controls = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(controls >= 0, "%s: %m", dir);
}

/* These files can be read and written once each time they are opened. */
static int file(const char *name, int mode)
{
	int fd;

	CHECK(controls >= 0, "--dir is missing");
	fd = openat(controls, name, mode | O_CLOEXEC);
	CHECK(fd >= 0, "%s: %m", name);
	return fd;
}

void control_set(const char *name, unsigned int value)
{
	int fd = file(name, O_WRONLY);

	CHECK(dprintf(fd, "%u", value) > 0, "write to %s: %m", name);
	close(fd);
}

void control_set_text(const char *name, const char *text)
{
	int fd = file(name, O_WRONLY);

	CHECK(write(fd, text, strlen(text)) > 0, "write to %s: %m", name);
	close(fd);
}

unsigned int control_get(const char *name)
{
	char text[16] = "";
	int fd = file(name, O_RDONLY);

	CHECK(read(fd, text, sizeof(text) - 1) > 0, "read %s: %m", name);
	close(fd);
	return atoi(text);
}

void control_arm(unsigned int pass, unsigned int times)
{
	control_set("space", pass);
	control_set("times", times);
}
