"""What processes find in /proc/self/cgroup and below /sys/fs/cgroup, by the kind of machine they run on.

Each recording names the files that the detection may read: one that is not there does not exist on such a machine, such
as the ancestors that a container cannot see.
"""

from service.cgroups import Cgroups

UNLIMITED_V1 = "9223372036854771712"

RECORDINGS = {
    "v1 container without a name space of its own": {
        "self": "12:memory:/kubepods/burstable/pod7d/3f\n4:cpu,cpuacct:/kubepods/burstable/pod7d/3f\n",
        "cpu,cpuacct/cpu.cfs_quota_us": "250000\n",
        "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        "memory/memory.limit_in_bytes": "4294967296\n",
        "memory/memory.usage_in_bytes": "2147483648\n",
        "memory/memory.stat": "cache 1200000000\nrss 900000000\ntotal_inactive_file 1073741824\n",
    },
    "v1 node, a service in a slice": {
        "self": "4:memory:/system.slice/signet.service\n2:cpuacct,cpu:/system.slice/signet.service\n0::/\n",
        "cpu/system.slice/signet.service/cpu.cfs_quota_us": "-1\n",
        "cpu/system.slice/signet.service/cpu.cfs_period_us": "100000\n",
        "cpu/system.slice/cpu.cfs_quota_us": "300000\n",
        "cpu/system.slice/cpu.cfs_period_us": "100000\n",
        "memory/system.slice/signet.service/memory.limit_in_bytes": "8589934592\n",
        "memory/system.slice/signet.service/memory.usage_in_bytes": "1073741824\n",
        "memory/system.slice/memory.limit_in_bytes": f"{UNLIMITED_V1}\n",
        "memory/system.slice/memory.usage_in_bytes": "3221225472\n",
    },
    "v1 unlimited, version 2 mounted beside it": {
        "self": "8:pids:/\n4:memory:/session/a1\n2:cpuacct:/\n1:cpu:/\n0::/\n",
        "cpu/cpu.cfs_quota_us": "-1\n",
        "cpu/cpu.cfs_period_us": "100000\n",
        "memory/session/a1/memory.limit_in_bytes": f"{UNLIMITED_V1}\n",
        "memory/session/a1/memory.usage_in_bytes": "57810944\n",
        "memory/memory.limit_in_bytes": f"{UNLIMITED_V1}\n",
        "memory/memory.usage_in_bytes": "595771392\n",
        "unified/cgroup.controllers": "hugetlb\n",
    },
    "v2 container with a name space of its own": {
        "self": "0::/\n",
        "cpu.max": "400000 100000\n",
        "memory.max": "8589934592\n",
        "memory.current": "3221225472\n",
        "memory.stat": "anon 2000000000\nfile 1000000000\ninactive_file 1073741824\n",
    },
    "v2 nested: the pod's limit is tighter than the container's": {
        "self": "0::/kubepods.slice/pod7d.slice/cri-3f.scope\n",
        "kubepods.slice/pod7d.slice/cri-3f.scope/cpu.max": "max 100000\n",
        "kubepods.slice/pod7d.slice/cri-3f.scope/memory.max": "max\n",
        "kubepods.slice/pod7d.slice/cri-3f.scope/memory.current": "1073741824\n",
        "kubepods.slice/pod7d.slice/cpu.max": "150000 100000\n",
        "kubepods.slice/pod7d.slice/memory.max": "2147483648\n",
        "kubepods.slice/pod7d.slice/memory.current": "1610612736\n",
        "kubepods.slice/cpu.max": "1600000 100000\n",
        "kubepods.slice/memory.max": "68719476736\n",
        "kubepods.slice/memory.current": "2147483648\n",
    },
    "v2 unlimited": {
        "self": "0::/user.slice/session-1.scope\n",
        "user.slice/session-1.scope/cpu.max": "max 100000\n",
        "user.slice/session-1.scope/memory.max": "max\n",
        "user.slice/session-1.scope/memory.current": "104857600\n",
    },
    "no cgroups": {},
}


def lay_out(files, directory):
    """Write the files of a recording below a directory; return the control groups that they are."""
    root = directory / "cgroup"
    for name, text in files.items():
        path = directory / "self" if name == "self" else root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Cgroups(root, directory / "self")
