# SPDX-License-Identifier: GPL-2.0
"""Two guests: NVMe-oF and NFS, with the service on either side."""

import time

from rsiwtest import fio, nfs
from rsiwtest.core import test
from rsiwtest.nvme import Host, Target
from rsiwtest.pairtopo import no_more_connections
from tests.u10_pair import both


def nvme(t, path, **options):
    """Target and controller of one way."""
    return (Target(t.machine(path.server_ns), path.addr4),
            Host(t.machine(path.client_ns), path.addr4, **options))


@test("pair-nvme", cost=40, pair=True)
def pair_nvme(t):
    """NVMe-oF in both roles, verified."""
    def work(t, path):
        target, host = nvme(t, path)
        with target, host:
            fio.verify(t, host.disk(), netns=path.client_ns)

    both(t, work)


@test("pair-nvme-connect-20", cost=40, pair=True)
def pair_nvme_connect(t):
    """20 connects and disconnects, in both roles."""
    def work(t, path):
        target, host = nvme(t, path)
        with target:
            for _ in range(20):
                with host:
                    host.live(20)

    both(t, work)


@test("pair-nvme-restart", cost=40, pair=True)
def pair_nvme_restart(t):
    """A target of our driver leaves in mid-transfer and comes back; what
    another one does then is not ours to judge."""
    def work(t, path):
        target, host = nvme(t, path)
        with target, host:
            job = fio.running(t, host.disk(), 8, netns=path.client_ns)
            target.stop()
            # Some attempts to reconnect fail.
            time.sleep(1)
            target.serve()
            job.expect(t.left(60))
            host.live(30)

    both(t, work, ours=True)


@test("pair-nfs", cost=60, pair=True)
def pair_nfs(t):
    """NFS in both roles, verified."""
    def work(t, path):
        client = t.machine(path.client_ns)
        with nfs.Server(t, t.machine(path.server_ns), path.addr4, None,
                        path.server_ns), \
                nfs.Mount(client, path.addr4) as mount:
            fio.verify(t, mount.path, netns=path.client_ns)

    both(t, work)


@test("pair-nfs-stop", cost=60, pair=True)
def pair_nfs_stop(t):
    """The server stops in mid-transfer: the client's I/O ends in errors."""
    def work(t, path):
        client = t.machine(path.client_ns)
        with nfs.Server(t, t.machine(path.server_ns), path.addr4, None,
                        path.server_ns) as server, \
                nfs.Mount(client, path.addr4, options=nfs.SOFT) as mount:
            job = fio.running(t, mount.path, 60, netns=path.client_ns,
                              sizes=(("64k", "4m"),))
            # The service forgets who has connected and was not accepted yet when it
            # closes, and nobody can remove the device after that.
            with no_more_connections(t.machine(path.server_ns), nfs.PORT):
                server.stop()
            fio.expect_errors(t, job, 90)

    both(t, work)
