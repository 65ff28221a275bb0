"""Three machines on a switch, made of network namespaces. Their links have a rate and can be cut, and nobody on them is told.

    10.0.0.1   10.0.0.2   10.0.0.3
       |          |          |        tbf at both ends
       '------- bridge ------'

The namespaces have no names: descriptors and processes hold them, so they end with those, however the tests end. The machine that
the tests run on sees nothing of them. A process is on the host on which the thread was that started it.
"""

import contextlib
import ctypes
import os
import subprocess

N_HOSTS = 3
RATE = "100mbit"
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


def system(call, *words):
    if getattr(LIBC, call)(*words) != 0:
        raise OSError(f"{call}: {os.strerror(ctypes.get_errno())}")


class Namespace:
    def __init__(self, ends):
        with self._entered(lambda: system("unshare", CLONE_NEWNET)):
            self.descriptor = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        ends.callback(os.close, self.descriptor)

    @staticmethod
    @contextlib.contextmanager
    def _entered(enter):
        was = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            enter()
            try:
                yield
            finally:
                system("setns", was, CLONE_NEWNET)
        finally:
            os.close(was)

    def inside(self):
        """What this thread opens and starts meanwhile is in here."""
        return self._entered(lambda: system("setns", self.descriptor, CLONE_NEWNET))

    def run(self, program, *lines):
        with self.inside():
            done = subprocess.run([program, "-batch", "-"], input="".join(line + "\n" for line in lines), capture_output=True, text=True,
                                  timeout=60, check=False)
        if done.returncode != 0:
            raise OSError(f"{program}: {' '.join(done.stderr.split())}")


class Host(Namespace):
    """A machine, and the port of the switch that it is at."""

    def __init__(self, ends, switch, number):
        super().__init__(ends)
        self.switch = switch
        self.port = f"port{number}"
        self.address = f"10.0.0.{number}"
        switch.run("ip", f"link add {self.port} type veth peer name eth0 netns /proc/{os.getpid()}/fd/{self.descriptor}",
                   f"link set {self.port} master bridge up")
        self.run("ip", "link set lo up", f"addr add {self.address}/24 dev eth0", "link set eth0 up")
        self.rate(RATE)

    def rate(self, rate):
        for end, device in ((self, "eth0"), (self.switch, self.port)):
            end.run("tc", f"qdisc replace dev {device} root tbf rate {rate} burst 64kb latency 100ms")

    def cut(self):
        """Nothing comes and goes any more, no end of a connection either."""
        self.switch.run("ip", f"link set {self.port} down")

    def mend(self):
        self.switch.run("ip", f"link set {self.port} up")

    def isolate(self):
        """It reaches no other host that is isolated."""
        self.switch.run("ip", f"link set {self.port} type bridge_slave isolated on")


class Loopback:
    """A host that is this machine."""

    address = "127.0.0.1"

    def inside(self):
        return contextlib.nullcontext()


def make_hosts(ends):
    """Hosts until `ends`, an ExitStack, ends. Errors: OSError, if the kernel, the user's rights or the programs do not allow it."""
    switch = Namespace(ends)
    switch.run("ip", "link add bridge type bridge", "link set bridge up")
    return [Host(ends, switch, number) for number in range(1, N_HOSTS + 1)]


@contextlib.contextmanager
def on_hosts():
    """(hosts, what they are); this thread is on the first one."""
    with contextlib.ExitStack() as ends:
        try:
            hosts, kind = make_hosts(ends), f"{N_HOSTS} network namespaces, links of {RATE}"
        except OSError as error:
            hosts, kind = [Loopback()] * N_HOSTS, f"the loopback, as {error}"
        with hosts[0].inside():
            yield hosts, kind
