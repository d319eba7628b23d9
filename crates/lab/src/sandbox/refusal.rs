//! Why the kernel forbids namespaces to an ordinary user, found out by looking at the very settings.

use std::fs;
use std::path::Path;

use nix::errno::Errno;

/// What stands in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A sysctl holds a value that forbids it.
    Sysctl {
        /// Its name, as `sysctl` takes it.
        name: &'static str,
        /// The value that forbids.
        forbids: u64,
        /// The value that allows.
        allows: u64,
    },
    /// None of the known sysctls forbids it.
    Unknown(Errno),
}

/// Name, does this value forbid, a value that allows.
type Rule = (&'static str, fn(u64) -> bool, u64);

const SYSCTLS: [Rule; 3] = [
    // Debian's own switch, on since Debian 11.
    ("kernel.unprivileged_userns_clone", |value| value == 0, 1),
    ("user.max_user_namespaces", |value| value == 0, 10_000),
    // Ubuntu 23.10 and later: only programs with an AppArmor profile may.
    ("kernel.apparmor_restrict_unprivileged_userns", |value| value == 1, 0),
];

impl Refusal {
    /// Looks under `root` (`/`, or a test's directory) for the setting that forbids it.
    pub(crate) fn diagnose(root: &Path, errno: Errno) -> Self {
        let value = |name: &str| {
            let path = root.join("proc/sys").join(name.replace('.', "/"));
            fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
        };
        SYSCTLS
            .into_iter()
            .find_map(|(name, forbids, allows)| {
                let found = value(name).filter(|found| forbids(*found))?;
                Some(Self::Sysctl { name, forbids: found, allows })
            })
            .unwrap_or(Self::Unknown(errno))
    }

    /// The way out, for a person.
    pub(crate) fn advice(self) -> String {
        match self {
            Self::Sysctl { name, forbids, allows } => format!(
                "{name} is {forbids}, which forbids it to ordinary users: \
                 `sudo sysctl {name}={allows}`, or run vioperf as root"
            ),
            Self::Unknown(Errno::ENOSPC) => "too many namespaces exist already: see \
                 user.max_user_namespaces, user.max_net_namespaces and user.max_pid_namespaces"
                .to_owned(),
            Self::Unknown(_) => {
                "no sysctl forbids it, so a container's seccomp filter or a security \
                 module does: run vioperf outside the container, or as root"
                    .to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(settings: &[(&str, &str)]) -> Refusal {
        let root = tempfile::tempdir().unwrap();
        for (name, value) in settings {
            let path = root.path().join("proc/sys").join(name.replace('.', "/"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, value).unwrap();
        }
        Refusal::diagnose(root.path(), Errno::EPERM)
    }

    #[test]
    fn the_very_sysctl_is_named_with_the_way_out() {
        for (name, value) in [
            ("kernel.unprivileged_userns_clone", "0\n"),
            ("user.max_user_namespaces", "0\n"),
            ("kernel.apparmor_restrict_unprivileged_userns", "1\n"),
        ] {
            let advice = with(&[(name, value)]).advice();
            assert!(advice.contains(&format!("sysctl {name}=")), "{advice}");
        }
    }

    #[test]
    fn settings_that_allow_are_not_blamed() {
        let refusal = with(&[
            ("kernel.unprivileged_userns_clone", "1"),
            ("user.max_user_namespaces", "95000"),
            ("kernel.apparmor_restrict_unprivileged_userns", "0"),
        ]);
        assert_eq!(refusal, Refusal::Unknown(Errno::EPERM));
    }
}
