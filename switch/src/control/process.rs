use std::sync::OnceLock;

use nix::time::{ClockId, clock_gettime};
use procfs::process::{LimitValue, Process};
use procfs::{ProcError, ProcResult, WithCurrentSystemInfo as _, ticks_per_second};

use super::exposition::{Exposition, Kind};

pub(super) fn prepare() {
    let _ = (procfs::page_size(), ticks_per_second());
}

pub fn write(text: &mut Exposition) {
    for (name, kind, help, value) in facts().unwrap_or_default() {
        text.family(name, kind, help).sample(&[], value);
    }
}

/// Boot time in seconds since 1970, read once: a clock correction must not change the process's start time.
static BOOTED: OnceLock<f64> = OnceLock::new();

fn booted() -> ProcResult<f64> {
    let [now, since] = [ClockId::CLOCK_REALTIME, ClockId::CLOCK_BOOTTIME].map(|clock| {
        let time = clock_gettime(clock).map_err(|error| ProcError::Other(error.to_string()))?;
        Ok::<f64, ProcError>(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
    });
    let booted = now? - since?;
    Ok(*BOOTED.get_or_init(|| booted))
}

type Fact = (&'static str, Kind, &'static str, f64);

fn facts() -> ProcResult<Vec<Fact>> {
    let process = Process::myself()?;
    let stat = process.stat()?;
    let seconds = (stat.utime + stat.stime) as f64 / ticks_per_second() as f64;
    let began = booted()? + stat.starttime as f64 / ticks_per_second() as f64;
    let mut facts = vec![
        (
            "process_cpu_seconds_total",
            Kind::Counter,
            "CPU time of the process, in user and kernel mode.",
            seconds,
        ),
        (
            "process_resident_memory_bytes",
            Kind::Gauge,
            "Resident memory of the process.",
            stat.rss_bytes().get() as f64,
        ),
        ("process_virtual_memory_bytes", Kind::Gauge, "Virtual memory of the process.", stat.vsize as f64),
        ("process_threads", Kind::Gauge, "Threads of the process.", stat.num_threads as f64),
        ("process_start_time_seconds", Kind::Gauge, "Start time of the process, in Unix time.", began),
    ];
    if let Ok(count) = process.fd_count() {
        facts.push(("process_open_fds", Kind::Gauge, "Open file descriptors of the process.", count as f64));
    }
    if let Ok(limits) = process.limits()
        && let LimitValue::Value(most) = limits.max_open_files.soft_limit
    {
        facts.push(("process_max_fds", Kind::Gauge, "Maximum number of open file descriptors.", most as f64));
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::float_cmp)] // the very same value
    fn start_time_of_process_is_constant() {
        let start = || facts().map(|facts| facts[4].3).map_err(|error| error.to_string());
        assert_eq!(start(), start());
    }
}
