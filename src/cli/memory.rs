//! Reads how much memory this process may still take, and what it has.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the peak resident memory of this process in bytes, if the system is Linux and tells it.
pub(crate) fn peak_resident_bytes() -> Option<u64> {
    field_bytes(&text("/proc/self/status"), "VmHWM:")
}

/// Returns the resident memory of this process in bytes, if the system is Linux and tells it.
pub(crate) fn resident_bytes() -> Option<u64> {
    field_bytes(&text("/proc/self/status"), "VmRSS:")
}

/// Returns how many bytes this process may still take before the machine, its container or a limit
/// of its own refuses them; `None` where the system does not tell.
pub(crate) fn free_bytes() -> Option<u64> {
    let machine = field_bytes(&text("/proc/meminfo"), "MemAvailable:");
    let groups = groups_of(&text("/proc/self/cgroup"));
    let container = groups
        .iter()
        .filter_map(|folder| left_in_group(folder))
        .min();
    let taken = field_bytes(&text("/proc/self/status"), "VmSize:").unwrap_or(0);
    let own = address_space_limit(&text("/proc/self/limits"));
    let own = own.map(|limit| limit.saturating_sub(taken));
    [machine, container, own].into_iter().flatten().min()
}

/// Returns the text of a file of the system; nothing where there is none.
fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns the value of a line such as `MemAvailable:   22334455 kB` in bytes.
fn field_bytes(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Returns the folders of the control groups that limit the memory of a process whose
/// `/proc/self/cgroup` is `text`: its own and all above it.
fn groups_of(text: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let root = match controllers {
            "" => Path::new("/sys/fs/cgroup"),
            controllers if controllers.split(',').any(|name| name == "memory") => {
                Path::new("/sys/fs/cgroup/memory")
            }
            _ => continue,
        };
        let group = root.join(path.trim_start_matches('/'));
        let above = group
            .ancestors()
            .take_while(|folder| folder.starts_with(root));
        folders.extend(above.map(Path::to_owned));
    }
    folders
}

/// Returns how many bytes a control group may still take; `None` if it has no limit.
fn left_in_group(folder: &Path) -> Option<u64> {
    let read = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        text.trim().parse().ok()
    };
    // The first names are those of version 2, the others those of version 1. A group without a
    // limit says "max", or a number near 2^63.
    let limit = read("memory.max")
        .or_else(|| read("memory.limit_in_bytes"))
        .filter(|limit| *limit < 1 << 62)?;
    let taken = read("memory.current")
        .or_else(|| read("memory.usage_in_bytes"))
        .unwrap_or(0);
    Some(limit.saturating_sub(taken))
}

/// Returns the soft limit of the address space in bytes, which `ulimit -v` sets.
fn address_space_limit(limits: &str) -> Option<u64> {
    let mut lines = limits.lines();
    let line = lines.find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        let text = "MemTotal:       24000000 kB\nMemAvailable:   22334455 kB\n";
        assert_eq!(field_bytes(text, "MemAvailable:"), Some(22_334_455 * 1024));
        assert_eq!(field_bytes("VmRSS: many kB", "VmRSS:"), None);
        assert_eq!(field_bytes(text, "VmRSS:"), None);
    }

    /// If this fails, the limit of a container, which often stands above the process's own group,
    /// is passed over.
    #[test]
    fn every_group_above_a_process_counts() {
        let folders = groups_of("0::/user.slice/job.scope\n");
        let expected = ["user.slice/job.scope", "user.slice", ""]
            .map(|name| Path::new("/sys/fs/cgroup").join(name));
        assert_eq!(folders, expected);
        assert_eq!(
            groups_of("4:cpu,memory:/a\n3:cpuset:/b\n").len(),
            2,
            "version 1 has a folder for each controller"
        );
    }

    #[test]
    fn a_limit_of_the_process_is_read_and_none_is_none() {
        let limits = |value: &str| {
            format!(
                "Limit   Soft Limit  Hard Limit Units\nMax address space   {value}   unlimited bytes\n"
            )
        };
        assert_eq!(
            address_space_limit(&limits("9437184000")),
            Some(9_437_184_000)
        );
        assert_eq!(address_space_limit(&limits("unlimited")), None);
    }

    #[test]
    fn a_group_says_what_it_has_left() {
        let Ok(folder) = tempfile::tempdir() else {
            panic!("no temporary folder")
        };
        let write =
            |name: &str, text: &str| assert!(fs::write(folder.path().join(name), text).is_ok());
        write("memory.max", "max\n");
        assert_eq!(left_in_group(folder.path()), None);
        write("memory.max", "1000\n");
        write("memory.current", "300\n");
        assert_eq!(left_in_group(folder.path()), Some(700));
    }
}
