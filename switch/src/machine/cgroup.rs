use std::fs;
use std::path::{Path, PathBuf};

use procfs::process::{MountInfo, MountInfos, Process};
use procfs::{FromRead as _, ProcessCGroups};
use xoff_config::{AvailableMemory, CpuQuota};
use xoff_wire::units::{Bytes, Nanos};

/// Files of a cgroup: memory limit and memory in use. Above `memory.high`, a process waits until the kernel has reclaimed memory.
const LIMITS: [(&str, &str); 3] = [
    ("memory.max", "memory.current"),
    ("memory.high", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
];

pub(super) fn available() -> Option<AvailableMemory> {
    least(&Process::myself().ok()?.cgroups().ok()?, &mounts()?)
}

/// Reads this process's mounts, converted to UTF-8, because the crate `procfs` refuses other text.
fn mounts() -> Option<MountInfos> {
    let text = fs::read("/proc/self/mountinfo").ok()?;
    MountInfos::from_read(String::from_utf8_lossy(&text).as_bytes()).ok()
}

pub(super) fn limit() -> Option<Bytes> {
    let (cgroups, mounts) = (Process::myself().ok()?.cgroups().ok()?, mounts()?);
    let levels = mounts.iter().flat_map(|mount| levels(mount, &cgroups, "memory").unwrap_or_default());
    levels.flat_map(|level| LIMITS.map(|(limit, _)| number(&level, limit))).flatten().min().map(Bytes)
}

pub(super) fn cpu_quota() -> Option<CpuQuota> {
    tightest(&Process::myself().ok()?.cgroups().ok()?, &mounts()?)
}

fn tightest(cgroups: &ProcessCGroups, mounts: &MountInfos) -> Option<CpuQuota> {
    let levels = mounts.iter().flat_map(|mount| levels(mount, cgroups, "cpu").unwrap_or_default());
    let quotas = levels.filter_map(|level| {
        // Cgroup version 2 has quota and period in one file, version 1 in two. Without a limit, the quota is `max` or -1.
        let [file, of_version_1] = ["cpu.max", "cpu.cfs_quota_us"].map(|name| level.join(name));
        let (file, text) = match fs::read_to_string(&file) {
            Ok(text) => (file, text),
            Err(_) => {
                let period = fs::read_to_string(level.join("cpu.cfs_period_us")).ok()?;
                let quota = fs::read_to_string(&of_version_1).ok()?;
                (of_version_1, format!("{quota} {period}"))
            }
        };
        let mut micros = text.split_whitespace().map(|word| word.parse::<u32>().ok());
        let [used_max, period] =
            [micros.next()??, micros.next()??].map(|micros| Nanos::from_micros(micros.into()));
        (period.0 > 0).then_some(CpuQuota { used_max, period, file })
    });
    quotas.min_by_key(|quota| quota.used_max.0 * 1_000 / quota.period.0)
}

fn number(level: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(level.join(file)).ok()?.trim().parse().ok()
}

fn least(cgroups: &ProcessCGroups, mounts: &MountInfos) -> Option<AvailableMemory> {
    let levels = mounts.iter().flat_map(|mount| levels(mount, cgroups, "memory").unwrap_or_default());
    let limits = levels.flat_map(|level| LIMITS.map(|files| left(&level, files)));
    limits.flatten().min_by_key(|left| left.bytes)
}

/// Returns the directories of the process's cgroup and its ancestors below `mount` that have the controller.
fn levels(mount: &MountInfo, cgroups: &ProcessCGroups, controller: &str) -> Option<Vec<PathBuf>> {
    let cgroup = cgroups.into_iter().find(|cgroup| match mount.fs_type.as_str() {
        "cgroup" => {
            mount.super_options.contains_key(controller)
                && cgroup.controllers.iter().any(|name| name == controller)
        }
        "cgroup2" => cgroup.hierarchy == 0,
        _ => false,
    })?;
    let own = mount.mount_point.join(Path::new(&cgroup.pathname).strip_prefix(&mount.root).ok()?);
    let levels = own.ancestors().take_while(|level| level.starts_with(&mount.mount_point));
    Some(levels.map(Path::to_owned).collect())
}

fn left(level: &Path, (limit, used): (&str, &str)) -> Option<AvailableMemory> {
    let stat = fs::read_to_string(level.join("memory.stat")).unwrap_or_default();
    // Cgroup version 1 counts descendants only in the `total_` lines, version 2 in all lines.
    let pages = |key: &str| {
        let of = |key: &str| stat.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
        of(&format!("total_{key} ")).or_else(|| of(&format!("{key} "))).unwrap_or(0)
    };
    let reclaimable = pages("active_file").saturating_add(pages("inactive_file"));
    let left = number(level, limit)?.saturating_sub(number(level, used)?.saturating_sub(reclaimable));
    Some(AvailableMemory { bytes: Bytes(left), cgroup_limit: Some(level.join(limit)) })
}

// Tests for SPECIFICATION.md: check
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn left_below(version: &str, mounted: &str, files: &[(&str, &str)]) -> Option<(u64, String)> {
        let root = tempfile::tempdir().unwrap();
        for (file, content) in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        let mount = |controller| {
            format!("32 31 0:29 {mounted} {} rw - {version} none rw,{controller}\n", root.path().display())
        };
        let mount = mount("cpu") + &mount("memory");
        let cgroups = ProcessCGroups::from_read("1:cpu:/c\n4:memory:/a/b\n0::/a/b\n".as_bytes()).unwrap();
        let found = least(&cgroups, &MountInfos::from_read(mount.as_bytes()).unwrap())?;
        let file = found.cgroup_limit.unwrap();
        Some((found.bytes.0, file.strip_prefix(root.path()).unwrap().display().to_string()))
    }

    #[test]
    fn least_free_memory_of_cgroup_and_its_ancestors_applies() {
        let unlimited = "9223372036854771712\n";
        let version_1 = [
            ("memory.limit_in_bytes", unlimited),
            ("memory.usage_in_bytes", "5000\n"),
            ("a/memory.limit_in_bytes", "1000\n"),
            ("a/memory.usage_in_bytes", "700\n"),
            ("a/b/memory.limit_in_bytes", "400\n"),
            ("a/b/memory.usage_in_bytes", "99\n"),
        ];
        assert_eq!(left_below("cgroup", "/", &version_1), Some((300, "a/memory.limit_in_bytes".into())));
        let version_2 = [
            ("a/memory.max", "1000\n"),
            ("a/memory.high", "max\n"),
            ("a/memory.current", "700\n"),
            ("a/b/memory.max", "500\n"),
            ("a/b/memory.high", "399\n"),
            ("a/b/memory.current", "100\n"),
        ];
        assert_eq!(left_below("cgroup2", "/", &version_2), Some((299, "a/b/memory.high".into())));
        assert_eq!(left_below("cgroup2", "/", &version_2[..3]), Some((300, "a/memory.max".into())));
        assert_eq!(
            left_below("cgroup2", "/", &[("a/memory.max", "max\n"), ("a/memory.current", "7\n")]),
            None
        );
        assert_eq!(left_below("tmpfs", "/", &version_2), None);
    }

    #[test]
    fn lowest_cpu_quota_of_cgroup_and_its_ancestors_applies() {
        let quota = |version: &str, files: &[(&str, &str)]| {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir_all(root.path().join("a/b")).unwrap();
            for (file, text) in files {
                fs::write(root.path().join(file), text).unwrap();
            }
            let mount = format!("32 31 0:29 / {} rw - {version} none rw,cpu\n", root.path().display());
            let cgroups = ProcessCGroups::from_read("4:cpu,cpuacct:/a/b\n0::/a/b\n".as_bytes()).unwrap();
            let found = tightest(&cgroups, &MountInfos::from_read(mount.as_bytes()).unwrap())?;
            Some((found.used_max.0 / 1_000, found.period.0 / 1_000))
        };
        let max = |own, above| quota("cgroup2", &[("a/b/cpu.max", own), ("a/cpu.max", above)]);
        assert_eq!(max("10000 100000\n", "max 100000\n"), Some((10_000, 100_000)));
        assert_eq!(max("10000 10000\n", "30000 100000\n"), Some((30_000, 100_000)));
        assert_eq!(max("max 100000\n", "max 100000\n"), None);
        assert_eq!(max("10000 0\n", "odd\n"), None);
        let of_version_1 = |used_max, period| {
            quota("cgroup", &[("a/cpu.cfs_quota_us", used_max), ("a/cpu.cfs_period_us", period)])
        };
        assert_eq!(of_version_1("10000\n", "100000\n"), Some((10_000, 100_000)));
        assert_eq!(of_version_1("-1\n", "100000\n"), None);
    }

    #[test]
    fn cgroup_limit_of_container_is_found_below_its_mount() {
        let files = [("b/memory.max", "9\n"), ("b/memory.current", "8\n")];
        assert_eq!(left_below("cgroup2", "/a", &files), Some((1, "b/memory.max".into())));
        assert_eq!(left_below("cgroup2", "/other", &files), None);
    }

    #[test]
    fn file_cache_of_cgroup_counts_as_available_memory() {
        let with = |stat| {
            let files =
                [("memory.limit_in_bytes", "100"), ("memory.usage_in_bytes", "90"), ("memory.stat", stat)];
            left_below("cgroup", "/", &files).unwrap().0
        };
        assert_eq!(with("anon 80\n"), 10);
        assert_eq!(with("inactive_file 7\nactive_file 3\n"), 20);
        assert_eq!(
            with("inactive_file 1\nactive_file 2\ntotal_inactive_file 30\ntotal_active_file 40\n"),
            80
        );
        assert_eq!(with("inactive_file 91\n"), 100);
    }
}
