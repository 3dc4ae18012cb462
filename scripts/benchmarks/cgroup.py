"""Control groups that shield a measurement from other processes, and limit CPU time."""

import contextlib
from pathlib import Path

V1 = Path("/sys/fs/cgroup/cpu")
V2 = Path("/sys/fs/cgroup")
PERIOD_US = 10_000


class Group:
    """A control group with nearly all CPU weight, and an optional quota.

    In cgroup v2 the group is threaded, so that it can contain single threads.
    """

    def __init__(self, tag, name):
        self.v1 = (V1 / "cpu.shares").exists()
        if self.v1:
            self.parents, self.path = [], V1 / f"{tag}-{name}"
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / "cpu.shares").write_text("262144")
        else:
            top = V2 / tag
            self.parents, self.path = [top], top / name
            (V2 / "cgroup.subtree_control").write_text("+cpu")
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / "cgroup.type").write_text("threaded")
            (top / "cgroup.subtree_control").write_text("+cpu")
            (self.path / "cpu.weight").write_text("10000")

    def add_thread(self, pid, tid):
        if self.v1:
            (self.path / "tasks").write_text(str(tid))
        else:
            (self.parents[0] / "cgroup.procs").write_text(str(pid))
            (self.path / "cgroup.threads").write_text(str(tid))

    def limit(self, share):
        """Limits the group to `share` of a core; `None` removes the limit."""
        quota = None if share is None else round(PERIOD_US * share)
        if self.v1:
            (self.path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.path / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))
        else:
            (self.path / "cpu.max").write_text(f"{'max' if quota is None else quota} {PERIOD_US}")

    def remove(self):
        for path in [self.path, *self.parents]:
            with contextlib.suppress(OSError):
                path.rmdir()
