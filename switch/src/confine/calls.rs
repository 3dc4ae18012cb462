//! Seccomp filters that limit the system calls of each [`Part`].
//!
//! Parts that open devices have a list of forbidden calls, because their libraries use different calls in each version. Other parts have a
//! list of allowed calls. A refused call fails with EPERM: killing a forwarding thread would lose frames.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen::Dword, SeccompCmpArgLen::Qword, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use xoff_xdp::HostInterface;

use super::{ConfineError, Part};

type Calls = BTreeMap<i64, Vec<SeccompRule>>;

pub(super) fn limit(part: Part) -> Result<(), ConfineError> {
    let error = SeccompAction::Errno;
    let (refused, unknown) = (error(libc::EPERM.cast_unsigned()), error(libc::ENOSYS.cast_unsigned()));
    let filters = match part {
        // Refuse clone3 with ENOSYS, because seccomp cannot read its arguments; the C library then uses clone.
        Part::Owner | Part::Opener => {
            vec![(forbidden()?, SeccompAction::Allow, refused), (clone3(), SeccompAction::Allow, unknown)]
        }
        Part::Worker => vec![(
            any(&[EVERYBODY, WORKER]).chain(special()?).chain(worker()?).collect(),
            refused,
            SeccompAction::Allow,
        )],
        Part::Http => vec![(
            any(&[EVERYBODY, HTTP]).chain(special()?).chain(http()?).collect(),
            refused,
            SeccompAction::Allow,
        )],
        Part::HostPath => vec![(
            any(&[EVERYBODY]).chain(special()?).chain(host_path()?).collect(),
            refused,
            SeccompAction::Allow,
        )],
        Part::Log => vec![(any(&[EVERYBODY]).chain(special()?).collect(), refused, SeccompAction::Allow)],
    };
    for (calls, mismatch, listed) in filters {
        let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(seccompiler::Error::from)?;
        let filter = SeccompFilter::new(calls, mismatch, listed, arch).map_err(seccompiler::Error::from)?;
        let program: BpfProgram = filter.try_into().map_err(seccompiler::Error::from)?;
        apply_filter(&program)?;
    }
    Ok(())
}

const EVERYBODY: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_write,
    libc::SYS_writev,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

const WORKER: &[c_long] = &[
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sched_setaffinity,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
];

const HTTP: &[c_long] = &[
    libc::SYS_accept4,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_fstat,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpeername,
    libc::SYS_getrusage,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_getuid,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_pread64,
    libc::SYS_prlimit64,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
];

/// Forbidden system calls: to start, inspect or signal processes, leave namespaces, mount, or change the kernel, the clock or permissions.
const FORBIDDEN: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_fanotify_init,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_finit_module,
    libc::SYS_fremovexattr,
    libc::SYS_fsconfig,
    libc::SYS_fsetxattr,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_kill,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_removexattr,
    libc::SYS_request_key,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_setxattr,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_tkill,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// Forbidden system calls without a name in `libc`: fchmodat2, setxattrat, removexattrat, open_tree_attr and file_setattr.
const NEWER: [c_long; 5] = [452, 463, 466, 467, 469];

/// Commands of bpf that only read: BPF_MAP_LOOKUP_ELEM, BPF_OBJ_GET_INFO_BY_FD and BPF_MAP_LOOKUP_BATCH.
const BPF_READS: [u64; 3] = [1, 15, 24];

/// Bit that marks system calls of x32, a second ABI of x86-64 processors.
#[cfg(target_arch = "x86_64")]
const X32: c_long = 0x4000_0000;
#[cfg(target_arch = "x86_64")]
const X32_ONLY: std::ops::RangeInclusive<c_long> = 512..=547;

fn any(lists: &[&[c_long]]) -> impl Iterator<Item = (i64, Vec<SeccompRule>)> {
    lists.concat().into_iter().map(|call| (call, Vec::new()))
}

fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, ConfineError> {
    let condition = |&(argument, ref operator, value): &(u8, SeccompCmpOp, u64)| {
        SeccompCondition::new(argument, if argument == 2 { Qword } else { Dword }, operator.clone(), value)
    };
    let conditions: Result<Vec<_>, BackendError> = conditions.iter().map(condition).collect();
    let rule = conditions.and_then(SeccompRule::new);
    rule.map_err(|error| seccompiler::Error::from(error).into())
}

/// Returns rules of all parts except owner and opener: no executable memory, signals only to this process (for an
/// abort), and no F_SETOWN, which makes the kernel send signals.
fn special() -> Result<Vec<(i64, Vec<SeccompRule>)>, ConfineError> {
    let exec = u64::from(libc::PROT_EXEC.cast_unsigned());
    let no_program = || rule(&[(2, SeccompCmpOp::MaskedEq(exec), 0)]);
    let modes = [libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL, libc::F_DUPFD_CLOEXEC];
    let modes =
        modes.into_iter().map(|command| rule(&[(1, SeccompCmpOp::Eq, u64::from(command.cast_unsigned()))]));
    Ok(vec![
        (libc::SYS_mmap, vec![no_program()?]),
        (libc::SYS_mprotect, vec![no_program()?]),
        (libc::SYS_tgkill, vec![rule(&[(0, SeccompCmpOp::Eq, u64::from(std::process::id()))])?]),
        (libc::SYS_fcntl, modes.collect::<Result<_, _>>()?),
    ])
}

fn worker() -> Result<Vec<(i64, Vec<SeccompRule>)>, ConfineError> {
    let slack = u64::from(libc::PR_SET_TIMERSLACK.cast_unsigned());
    Ok(vec![(libc::SYS_prctl, vec![rule(&[(0, SeccompCmpOp::Eq, slack)])?])])
}

fn host_path() -> Result<Vec<(i64, Vec<SeccompRule>)>, ConfineError> {
    let mut calls = worker()?;
    calls.push((libc::SYS_ioctl, vec![rule(&[(1, SeccompCmpOp::Eq, HostInterface::SET_CARRIER)])?]));
    Ok(calls)
}

fn http() -> Result<Vec<(i64, Vec<SeccompRule>)>, ConfineError> {
    let number = |value: i32| u64::from(value.cast_unsigned());
    let to_read = rule(&[(
        2,
        SeccompCmpOp::MaskedEq(number(libc::O_ACCMODE | libc::O_CREAT)),
        number(libc::O_RDONLY),
    )])?;
    let bpf = BPF_READS.into_iter().map(|command| rule(&[(0, SeccompCmpOp::Eq, command)]));
    let bpf = bpf.collect::<Result<_, _>>()?;
    Ok(vec![
        (libc::SYS_openat, vec![to_read]),
        (libc::SYS_ioctl, vec![rule(&[(1, SeccompCmpOp::Eq, libc::FIONBIO)])?]),
        (libc::SYS_bpf, bpf),
    ])
}

fn clone3() -> Calls {
    let mut calls = Calls::from([(libc::SYS_clone3, Vec::new())]);
    #[cfg(target_arch = "x86_64")]
    calls.insert(libc::SYS_clone3 | X32, Vec::new());
    calls
}

fn forbidden() -> Result<Calls, ConfineError> {
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    let exec = u64::from(libc::PROT_EXEC.cast_unsigned());
    let program = || rule(&[(2, SeccompCmpOp::MaskedEq(exec), exec)]);
    let mut calls: Calls = any(&[FORBIDDEN, &NEWER]).collect();
    calls.insert(libc::SYS_clone, vec![rule(&[(0, SeccompCmpOp::MaskedEq(thread), 0)])?]);
    calls.insert(libc::SYS_mmap, vec![program()?]);
    calls.insert(libc::SYS_mprotect, vec![program()?]);
    calls.insert(libc::SYS_pkey_mprotect, vec![program()?]);
    calls.insert(libc::SYS_tgkill, vec![rule(&[(0, SeccompCmpOp::Ne, u64::from(std::process::id()))])?]);
    #[cfg(target_arch = "x86_64")]
    {
        let theirs: Vec<c_long> = calls.keys().copied().chain(X32_ONLY).collect();
        calls.extend(theirs.into_iter().map(|call| (call | X32, Vec::new())));
    }
    Ok(calls)
}
