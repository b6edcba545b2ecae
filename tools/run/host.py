# SPDX-License-Identifier: GPL-2.0
"""What this system has for rsiw-run: libraries of rdma-core, KVM, a folder that goes away."""

import contextlib
import fcntl
import glob
import os
import shutil
import tempfile

from options import say

# Of the C library, for the libraries of the image.
GLIBC = (2, 38)
FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib")
# Between libibverbs and its providers: that of the image's.
ABI = b"IBVERBS_PRIVATE_34"
# Of the image, without suffix. What a driver's devices need of rdma-core, and our own for rsiw.
OWN, PROVIDERS = "/run/rsiw/lib/librsiw", {"rsiw": "siw", "siw": "siw", "rxe": "rxe"}
WORK = "rsiw-run-work-"


class Libraries:
    """Where programs in the machine get rdma-core's libraries from, and their providers."""

    def __init__(self, args):
        folder = next((d for d in FOLDERS if glob.glob(f"{d}/libibverbs.so.1")), None)
        needed = list(dict.fromkeys(PROVIDERS[driver] for driver in args.device))
        missing = [name for name in needed
                   if not (folder and glob.glob(f"{folder}/libibverbs/lib{name}-rdmav*.so"))]
        base = folder and glob.glob(f"{folder}/librdmacm.so.1")
        # From the image: all of them, if the C library here is new enough.
        self.image = not (base and not missing) and glibc() >= GLIBC
        ours = self.image or folder and has_abi(f"{folder}/libibverbs.so.1")
        if not self.image and not (base and (ours or not missing)):
            say("this system lacks rdma-core (ibverbs-providers, librdmacm1): only the image's programs "
                "find RDMA here")
        own = [OWN] if "rsiw" in args.device and not args.stock else []
        wanted = [name for name in missing if not (own and name == "siw") and not self.image]
        # What COMMAND finds in RDMAV_DRIVERS, and what the image's programs do in its place.
        self.drivers = ":".join(own + [image_provider(name) for name in wanted]) if ours else ""
        self.image_drivers = ":".join(own + [image_provider(name) for name in needed])
        if {"RDMAV_DRIVERS", "IBV_DRIVERS"} & set(os.environ):
            self.drivers = ""


def image_provider(name):
    return f"/run/rsiw/lib/lib{name}"


def glibc():
    try:
        return tuple(int(n) for n in os.confstr("CS_GNU_LIBC_VERSION").split()[1].split("."))
    except (ValueError, AttributeError, IndexError):
        return (0, 0)


def has_abi(path):
    with open(path, "rb") as f:
        return ABI in f.read()


class Kvm:
    """Whether KVM may work here. One that is there and does not costs time at each start, so that
    is remembered, for this kernel and that of the image."""

    def __init__(self, release):
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        self.path = f"{cache}/rsiw-run/no-kvm"
        here = os.uname()
        self.is_stuck = False
        self.about = f"Linux {here.release} ({here.version}) does not run Linux {release}\n"

    def lacks(self):
        """Why there is none, or nothing."""
        if not os.path.exists("/dev/kvm"):
            return "no /dev/kvm"
        if not os.access("/dev/kvm", os.R_OK | os.W_OK):
            return "no permission for /dev/kvm"
        return ""

    def failed_before(self):
        try:
            with open(self.path, encoding="utf-8") as f:
                return f.read() == self.about
        except OSError:
            return False

    def remember(self):
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with open(self.path, "w", encoding="utf-8") as f:
                f.write(self.about)

    def forget(self):
        with contextlib.suppress(OSError):
            os.unlink(self.path)


def lock(path, how):
    """The lock of this user's folder, as a file descriptor, or nothing."""
    fd = None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        if os.fstat(fd).st_uid == os.getuid():
            fcntl.flock(fd, fcntl.LOCK_EX | how)
            # Whoever had it may have removed the folder.
            if os.path.exists(path):
                return fd
    except OSError:
        pass
    if fd is not None:
        os.close(fd)
    return None


@contextlib.contextmanager
def work_folder():
    """A folder that is locked, and gone afterwards; or, if this process is killed, at the next
    start."""
    for path in glob.glob(f"{glob.escape(tempfile.gettempdir())}/{WORK}*"):
        if (left := lock(path, fcntl.LOCK_NB)) is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(left)
    held = None
    while held is None:
        path = tempfile.mkdtemp(prefix=WORK)
        held = lock(path, 0)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(held)
